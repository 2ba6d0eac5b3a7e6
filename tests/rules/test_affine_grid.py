from __future__ import annotations

import numpy as np
import pytest

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(0)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [[2, 3, 4, 5], [1, 1, 1, 1], [2, 1, 3, 2, 4]])
def test_affine_grid(size: list[int], align: int) -> None:
    rank = len(size) - 2
    inputs = {"theta": rng.standard_normal((size[0], rank, rank + 1)), "size": np.asarray(size, np.int64)}
    check("AffineGrid", inputs, {"align_corners": align}, constants=("size",))
    check("AffineGrid", inputs, {"align_corners": align}, shapes=("static", "batch"))


def test_an_unknown_number_of_axes_is_refused() -> None:
    inputs = {"theta": rng.standard_normal((1, 2, 3)), "size": np.asarray([1, 1, 2, 2], np.int64)}
    model = node_model("AffineGrid", inputs, shapes="unranked")
    with pytest.raises(UnsupportedOperatorError, match="two or three axes is not known"):
        gradients_of(model, inputs, "y", ["theta"], np.zeros((1, 2, 2, 2)))
