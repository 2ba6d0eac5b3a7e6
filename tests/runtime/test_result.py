"""What a result says of itself."""

from __future__ import annotations

import numpy as np

from onnx_ig.runtime import Attribution


def test_a_result_shows_shapes_and_not_its_arrays() -> None:
    many = np.ones((3, 4, 5), np.float32)
    result = Attribution(
        {"x": many}, np.ones(3), np.zeros(3), np.array([0.1, -0.25, 0.0]), {"y": many}, None, "gradient", "y", n_steps=7
    )
    assert repr(result) == (
        "Attribution({'x': [3, 4, 5]}, method='gradient', output='y', n_steps=7, largest |convergence_delta|=0.25)"
    )
