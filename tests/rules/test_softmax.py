from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from onnx_ig import add_gradients
from tests.gradcheck import Runner, check, gradients_of, graph_model, node_model

rng = np.random.default_rng(5)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_softmax(op: str, axis: int | None) -> None:
    check(op, {"x": rng.standard_normal((2, 3, 4))}, {} if axis is None else {"axis": axis})
    check(op, {"x": rng.standard_normal((2, 1, 0))}, {} if axis is None else {"axis": axis}, shapes=["static"])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_masked_entries(op: str) -> None:
    """An entry of -inf, and one that is merely huge, get 0; the others are those of the row without it."""
    feeds = {"x": np.array([[1.0, -np.inf, 2.0], [1.0, -1e38, 2.0]])}
    cotangent = np.array([[1.0, 0.0, -3.0]] * 2)
    got = gradients_of(node_model(op, feeds), feeds, "y", ["x"], cotangent)["x"]
    short = {"x": np.array([[1.0, 2.0]])}
    expected = gradients_of(node_model(op, short), short, "y", ["x"], np.array([[1.0, -3.0]]))["x"]
    np.testing.assert_allclose(got[:, [0, 2]], np.repeat(expected, 2, 0), rtol=1e-12)
    assert (got[:, 1] == 0).all()


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_row_that_is_masked_throughout(op: str) -> None:
    feeds = {"x": np.array([[-np.inf, -np.inf], [0.0, 1.0]])}
    got = gradients_of(node_model(op, feeds), feeds, "y", ["x"], np.array([[0.0, 0.0], [1.0, 0.0]]))["x"]
    assert np.isfinite(got).all()
    assert (got[0] == 0).all()
    assert (got[1] != 0).all()


def test_exported_guard_against_masked_rows() -> None:
    """`Where(IsNaN(p), 0, p)`: finite at a masked row, and the guarded value is used rather than guarded again."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("IsNaN", ["p"], ["bad"]),
        helper.make_node("Where", ["bad", "zero", "p"], ["y"]),
    ]
    feeds = {"x": np.array([[-np.inf, -np.inf], [0.0, 1.0]])}
    model = graph_model(nodes, {**feeds, "zero": np.array(0.0)}, ["y"], constants=["zero"])
    got = gradients_of(model, feeds, "y", ["x"], np.array([[1.0, 2.0], [1.0, 0.0]]))["x"]
    p = 1 / (1 + np.e)
    np.testing.assert_allclose(got, [[0, 0], [p * (1 - p), -p * (1 - p)]], rtol=1e-12)
    operators = [n.op_type for n in add_gradients(model, of="y", wrt="x").graph.node]
    assert operators.count("IsNaN") == 1


def test_hardmax_has_zero_derivative() -> None:
    with pytest.warns(UserWarning, match="Hardmax"):
        augmented = add_gradients(node_model("Hardmax", {"x": np.ones((2, 3))}, dtype=np.float32), of="y", wrt="x")
    y, gradient = Runner(augmented)({"x": np.eye(2, 3, dtype=np.float32), "grad_y": np.ones((2, 3), np.float32)})
    assert y.tolist() == np.eye(2, 3).tolist()
    assert gradient.tolist() == np.zeros((2, 3)).tolist()
