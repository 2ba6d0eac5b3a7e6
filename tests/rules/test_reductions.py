from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(4)
OPS = [
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceProd",
]  # fmt: skip
x = rng.uniform(0.3, 2, (2, 3, 4))


def gradient(
    op: str, x: Any, axes: list[int] | None = None, attributes: dict[str, Any] | None = None, dtype: Any = np.float64
) -> np.ndarray:
    """The gradient of the sum of all outputs."""
    feeds = {"x": np.array(x, dtype)}
    inputs = {**feeds, **({} if axes is None else {"axes": np.array(axes, np.int64)})}
    model = node_model(op, inputs, attributes, constants=["axes"], dtype=dtype)
    shape = feeds["x"].sum(axis=None if not axes else tuple(axes), keepdims=True).shape
    return gradients_of(model, feeds, "y", ["x"], np.ones(shape, dtype))["x"]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, [], [1], [-1, 0], [0, 1, 2]])
@pytest.mark.parametrize("stored", [True, False])
def test_reduction(op: str, keepdims: int, axes: list[int] | None, stored: bool) -> None:
    inputs = {"x": x, **({} if axes is None else {"axes": np.array(axes, np.int64)})}
    shapes = ["static", "unranked"] if stored else ["batch", "dynamic"]
    check(op, inputs, {"keepdims": keepdims}, constants=["axes"] if stored else [], shapes=shapes)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("axes", [None, [], [1]])
@pytest.mark.parametrize("stored", [True, False])
def test_reduction_over_no_axes(op: str, axes: list[int] | None, stored: bool) -> None:
    """noop_with_empty_axes: what is not a reduction (Log, Square ...) is still done."""
    inputs = {"x": x, **({} if axes is None else {"axes": np.array(axes, np.int64)})}
    attributes = {"noop_with_empty_axes": 1, "keepdims": 0}
    check(op, inputs, attributes, constants=["axes"] if stored else [], shapes=["batch", "unranked"])


@pytest.mark.parametrize("op", OPS)
def test_reduction_of_a_scalar(op: str) -> None:
    check(op, {"x": np.array(0.7)})


@pytest.mark.parametrize("op", OPS)
def test_reduction_of_nothing(op: str) -> None:
    check(op, {"x": np.zeros((0, 3)), "axes": np.array([1])}, constants=["axes"])
    if op in ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd"):  # finite on no elements
        check(op, {"x": np.zeros((2, 0)), "axes": np.array([1])}, constants=["axes"], shapes=["static", "dynamic"])


@pytest.mark.parametrize(
    "op", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceSum", "ReduceProd"]
)
def test_reduction_of_both_signs(op: str) -> None:
    check(op, {"x": rng.standard_normal((2, 3)), "axes": np.array([1])}, constants=["axes"], shapes=["batch"])


@pytest.mark.parametrize("opset", [20, 25, 28])
@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp", "ReduceMax"])
def test_later_opsets(op: str, opset: int) -> None:
    check(op, {"x": x, "axes": np.array([1])}, constants=["axes"], shapes=["batch"], opset=opset)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_ties_split_evenly(op: str) -> None:
    sign = 1.0 if op == "ReduceMax" else -1.0
    got = gradient(op, sign * np.array([[1, 3, 3], [2, 1, 0], [5, 5, 5], [-np.inf] * 3]), [1])
    np.testing.assert_allclose(got, [[0, 0.5, 0.5], [1, 0, 0], [1 / 3] * 3, [1 / 3] * 3])


def test_l2_of_a_zero_vector() -> None:
    got = gradient("ReduceL2", [[0.0, 0.0], [3.0, 4.0]], [1])
    np.testing.assert_allclose(got, [[0, 0], [0.6, 0.8]])


def test_l1_at_zero() -> None:
    assert gradient("ReduceL1", [[0.0, -2.0, 3.0]], [1]).tolist() == [[0, -1, 1]]


def test_log_sum_exp_of_masked_rows() -> None:
    got = gradient("ReduceLogSumExp", [[-np.inf, -np.inf], [-np.inf, 1.0], [1e4, 1e4]], [1])
    np.testing.assert_allclose(got, [[0, 0], [0, 1], [0.5, 0.5]])


def test_log_sum_that_is_not_used_contributes_nothing_at_zero() -> None:
    feeds = {"x": np.zeros((2, 2))}
    got = gradients_of(node_model("ReduceLogSum", feeds), feeds, "y", ["x"], np.zeros((1, 1)))["x"]
    assert (got == 0).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_product_with_zeros(dtype: Any) -> None:
    got = gradient("ReduceProd", [[2, 3, 5], [2, 0, 5], [0, 3, 0], [0, 0, 0]], [1], dtype=dtype)
    assert got.dtype == dtype
    assert got.tolist() == [[15, 10, 6], [0, 10, 0], [0, 0, 0], [0, 0, 0]]


def test_float16_counts_beyond_its_range() -> None:
    many = np.zeros((1, 70000), np.float16)
    assert (gradient("ReduceMax", many, [1], dtype=np.float16) == np.float16(1 / 70000)).all()
    assert (gradient("ReduceMean", many, [1], dtype=np.float16) == np.float16(1 / 70000)).all()
    assert (gradient("ReduceSum", many, [1], dtype=np.float16) == 1).all()
