from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(7)
OPS = ["Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("opset", [20, 22])
def test_functions(op: str, opset: int) -> None:
    shift = 1.1 if op == "Acosh" else 0
    check(op, {"x": shift + rng.uniform(0.1, 0.9, (2, 3))}, opset=opset)
    check(op, {"x": np.array(shift + 0.3)}, opset=opset, shapes=["static"])
    check(op, {"x": np.zeros((0, 2))}, opset=opset, shapes=["static"])
    if op != "Acosh":
        check(op, {"x": -rng.uniform(0.1, 0.9, (2, 3))}, opset=opset, shapes=["batch"])


@pytest.mark.parametrize(
    ("op", "points"),
    [
        ("Asin", [-1, 1, 2]),
        ("Acos", [-1, 1, 2]),
        ("Acosh", [1, 0]),
        ("Atanh", [-1, 1]),
        ("Sinh", [1e4]),
        ("Cosh", [1e4]),
    ],
)
def test_branch_that_is_not_used_contributes_nothing_where_it_is_singular(op: str, points: list[float]) -> None:
    feeds = {"x": np.array(points, np.float32)}
    model = node_model(op, feeds, dtype=np.float32)
    assert (gradients_of(model, feeds, "y", ["x"], np.zeros(len(points), np.float32))["x"] == 0).all()


@pytest.mark.parametrize(("op", "expected"), [("Atan", 0.0), ("Asinh", 0.0), ("Acosh", 0.0)])
def test_far_out(op: str, expected: float) -> None:
    feeds = {"x": np.array([1e30], np.float32)}
    got = gradients_of(node_model(op, feeds, dtype=np.float32), feeds, "y", ["x"], np.ones(1, np.float32))["x"]
    np.testing.assert_allclose(got, [expected], atol=1e-29)


@pytest.mark.parametrize(
    ("op", "expected"), [("Asin", np.inf), ("Acos", -np.inf), ("Acosh", np.inf), ("Atanh", np.inf)]
)
def test_real_singularities_stay_infinite(op: str, expected: float) -> None:
    feeds = {"x": np.ones(1, np.float32)}
    got = gradients_of(node_model(op, feeds, dtype=np.float32), feeds, "y", ["x"], np.ones(1, np.float32))["x"]
    assert got.tolist() == [expected]


def test_slope_next_to_the_bound() -> None:
    """1 - x^2 would lose half of its digits."""
    x = np.array([1 - 2.0**-24], np.float32)
    got = gradients_of(node_model("Atanh", {"x": x}, dtype=np.float32), {"x": x}, "y", ["x"], np.ones(1, np.float32))
    np.testing.assert_allclose(got["x"], [1 / (1 - float(x[0]) ** 2)], rtol=1e-6)
