from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import onnx_ig
from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize(
    "indices",
    [1, -1, [1], [-2], [0, 1], [1, 0, -1], [[0, 0], [1, -2]], [], [[1]]],
    ids=str,
)
def test_gather(axis: int | None, indices: object) -> None:
    operands = {"x": rng.standard_normal((2, 3, 2)), "indices": np.array(indices, np.int64)}
    attributes = {} if axis is None else {"axis": axis}
    check("Gather", operands, attributes)
    check("Gather", operands, attributes, constants=["indices"])


@pytest.mark.parametrize("axis", [0, 2, -2, -3])
def test_gather_by_small_integers(axis: int) -> None:
    operands = {"x": rng.standard_normal((2, 3, 2)), "indices": np.array([0, -1, 0], np.int32)}
    check("Gather", operands, {"axis": axis})
    check("Gather", operands, {"axis": axis}, constants=["indices"])


def test_gather_of_one_and_of_nothing() -> None:
    check("Gather", {"x": rng.standard_normal(1), "indices": np.array([0, 0, -1])})
    check("Gather", {"x": rng.standard_normal((0, 3)), "indices": np.array([2, 0])}, {"axis": 1})
    check("Gather", {"x": rng.standard_normal((0, 3)), "indices": np.array([2, 0])}, {"axis": 1}, constants=["indices"])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_gather_elements(axis: int | None, rows: int) -> None:
    indices = np.array([[0, -1, 1], [1, 1, -2]])[:rows]
    attributes = {} if axis is None else {"axis": axis}
    operands = {"x": rng.standard_normal((2, 3)), "indices": indices}
    check("GatherElements", operands, attributes)
    check("GatherElements", operands, attributes, constants=["indices"])


@pytest.mark.parametrize(
    ("batch", "shape", "indices"),
    [
        (0, (2, 3, 2), [[0], [1], [-1], [1]]),
        (0, (2, 3, 2), [[0, 1], [1, -1], [1, 2]]),
        (0, (2, 3, 2), [[[0, 1, 0], [-1, -1, -1]]]),
        (0, (2, 3), [1, 2]),
        (1, (2, 3, 2), [[1], [-1]]),
        (1, (2, 3, 2), [[[1, 0], [1, 0]], [[0, 0], [-1, -1]]]),
        (2, (2, 3, 2), [[[1], [0], [-1]], [[0], [0], [1]]]),
        (1, (0, 3, 2), np.zeros((0, 2, 1), np.int64)),
    ],
)
def test_gather_nd(batch: int, shape: tuple[int, ...], indices: object) -> None:
    operands = {"x": rng.standard_normal(shape), "indices": np.array(indices)}
    attributes = {"batch_dims": batch} if batch else {}
    check("GatherND", operands, attributes)
    check("GatherND", operands, attributes, constants=["indices"])


@pytest.mark.parametrize(
    ("op", "x", "indices", "attributes"),
    [
        ("Gather", (3, 2), [0, -1, 0], {}),
        ("Gather", (2, 3, 2), [[1, -1], [0, 1]], {"axis": 1}),
        ("Gather", (2, 3), [1, 1], {"axis": -1}),
        ("GatherND", (2, 3, 2), [[1], [1], [0]], {}),
        ("GatherND", (2, 3, 2), [[1, -1], [1, 2], [0, 0]], {}),
        ("GatherND", (2, 3, 2), [[[1, 0], [1, 0]], [[0, 0], [-1, -1]]], {"batch_dims": 1}),
        ("GatherND", (2, 3, 2), [[[1], [0]], [[0], [0]]], {"batch_dims": 1}),
    ],
)
@pytest.mark.parametrize("shapes", ["static", "dynamic"])
def test_without_a_scatter_that_adds(
    op: str, x: tuple[int, ...], indices: object, attributes: dict[str, int], shapes: str
) -> None:
    """TensorRT does not add; what it gets must say the same."""
    feeds = {"x": rng.standard_normal(x), "i": np.array(indices)}
    model = node_model(op, feeds, attributes, shapes="static" if op == "GatherND" else shapes)
    cotangent = rng.standard_normal(ReferenceEvaluator(model).run(None, feeds)[0].shape)
    expected = gradients_of(model, feeds, "y", ["x"], cotangent)["x"]
    np.testing.assert_allclose(gradients_of(model, feeds, "y", ["x"], cotangent, runtime="tensorrt")["x"], expected)
    augmented = onnx_ig.add_gradients(model, wrt="x", runtime="tensorrt")
    assert not {"ScatterND", "ScatterElements"} & {n.op_type for n in augmented.graph.node}


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_one_hot(axis: int | None) -> None:
    operands = {
        "indices": np.array([[0, 2], [-1, 7]]),
        "depth": np.array(3),
        "values": np.array([0.3, 2.0]),
    }
    check("OneHot", operands, {} if axis is None else {"axis": axis}, constants=["depth"])
    check("OneHot", operands, {} if axis is None else {"axis": axis}, shapes=["static", "unranked"])


@pytest.mark.parametrize("runtime", ["cpu", "tensorrt"])
@pytest.mark.parametrize(
    ("op", "indices"), [("Gather", [1, 1, 0]), ("GatherElements", [[1, 1], [0, 1]]), ("GatherND", [[1], [1]])]
)
def test_halves(op: str, indices: object, runtime: str) -> None:
    """The CPU provider has no scatter that adds halves."""
    feeds = {"x": rng.standard_normal((2, 2)).astype(np.float16), "i": np.array(indices)}
    model = node_model(op, feeds, dtype=np.float16)
    cotangent = rng.standard_normal(ReferenceEvaluator(model).run(None, feeds)[0].shape).astype(np.float16)
    got = gradients_of(model, feeds, "y", ["x"], cotangent, runtime=runtime)["x"]
    double = node_model(op, feeds, dtype=np.float64)
    exact = {"x": feeds["x"].astype(np.float64), "i": feeds["i"]}
    expected = gradients_of(double, exact, "y", ["x"], cotangent.astype(np.float64))["x"]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)
