from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(10)
WAYS = [(e, r) for e in (0, 1) for r in (0, 1)]


@pytest.mark.parametrize(("op", "opset"), [("CumSum", 20), ("CumProd", 26)])
@pytest.mark.parametrize(("exclusive", "reverse"), WAYS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("stored", [True, False])
def test_cumulative(op: str, opset: int, exclusive: int, reverse: int, axis: int, stored: bool) -> None:
    for shape in ((2, 3), (1, 1), (0, 2)):
        inputs = {"x": rng.standard_normal(shape), "axis": np.array(axis)}
        check(
            op, inputs, {"exclusive": exclusive, "reverse": reverse}, opset=opset, constants=["axis"] if stored else [],
            shapes=["static", "unranked"] if stored else ["batch", "dynamic"],
        )  # fmt: skip


def _product(x: np.ndarray, exclusive: int, reverse: int) -> np.ndarray:
    x = x[::-1] if reverse else x
    y = np.cumprod(np.concatenate([[1.0], x[:-1]]) if exclusive else x)
    return y[::-1] if reverse else y


@pytest.mark.parametrize(("exclusive", "reverse"), WAYS)
@pytest.mark.parametrize(
    "x", [[2, 0, 3, 5], [0, 2, 3, 4], [2, 3, 4, 0], [2, 0, 3, 0, 5], [0, 0, 3], [0, 0, 0], [0], [3], [1, 2, 0, 0, 5, 6]]
)
def test_cumulative_product_with_zeros(x: Any, exclusive: int, reverse: int) -> None:
    """A cumulative product is affine in each element, so that a difference of any width is exact."""
    x = np.array(x, np.float64)
    g = rng.standard_normal(x.shape)
    expected = [
        g @ (_product(x + e, exclusive, reverse) - _product(x - e, exclusive, reverse)) / 2 for e in np.eye(len(x))
    ]
    model = node_model(
        "CumProd", {"x": x, "axis": np.array(0)}, {"exclusive": exclusive, "reverse": reverse}, opset=26,
        constants=["axis"],
    )  # fmt: skip
    got = gradients_of(model, {"x": x}, "y", ["x"], g)["x"]
    np.testing.assert_allclose(got, expected, atol=1e-12)
