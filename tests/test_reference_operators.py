"""The float64 operators of the oracle compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.gradcheck import Runner, node_model
from tests.reference_operators import OPERATORS

rng = np.random.default_rng(0)


def agree(op: str, inputs: dict[str, np.ndarray | None], attributes: dict[str, Any], atol: float = 1e-4) -> None:
    model = node_model(op, inputs, attributes, dtype=np.float32)
    feeds = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in inputs.items() if a is not None}
    expected = Runner(model)(feeds)[0]
    got = ReferenceEvaluator(model, new_ops=OPERATORS).run(None, feeds)[0]
    np.testing.assert_allclose(got, expected, atol=atol)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 4, 5), (4, 3, 3), {}),
        ((2, 4, 5), (4, 3, 3), {"group": 2, "strides": [2], "pads": [1, 0], "output_padding": [1]}),
        ((2, 4, 5), (4, 1, 3), {"group": 4, "dilations": [2]}),
        ((2, 4, 5, 3), (4, 2, 3, 2), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
        ((2, 4, 5, 3), (4, 2, 3, 4), {"strides": [2, 3], "auto_pad": "SAME_LOWER"}),
        ((2, 4, 5, 3), (4, 2, 1, 2), {"strides": [2, 3], "auto_pad": "SAME_LOWER"}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [5]}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [8]}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [6], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [7], "output_padding": [1]}),
    ],
)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    bias = rng.standard_normal(w[1] * attributes.get("group", 1))
    agree("ConvTranspose", {"x": rng.standard_normal(x), "w": rng.standard_normal(w), "b": bias}, attributes)
