from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.gradcheck import check, gradients_of, graph_model, node_model

rng = np.random.default_rng(0)


def x(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


@pytest.mark.parametrize("constants", [["shape"], []])
@pytest.mark.parametrize(
    ("data", "shape", "attributes"),
    [
        (x(2, 3), [6], {}),
        (x(2, 3), [-1, 2], {}),
        (x(2, 3, 4), [0, -1], {}),
        (x(1), [], {}),
        (x(), [1, 1], {}),
        (x(0, 3), [3, 0], {"allowzero": 1}),
        (x(0, 3), [0, 3, 1], {}),
    ],
)
def test_reshape(data: np.ndarray, shape: list[int], attributes: dict[str, Any], constants: list[str]) -> None:
    check("Reshape", {"x": data, "shape": np.array(shape, np.int64)}, attributes, constants=constants)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1, -3])
def test_flatten(axis: int | None) -> None:
    check("Flatten", {"x": x(2, 3, 4)}, {} if axis is None else {"axis": axis})


def test_flatten_of_nothing() -> None:
    check("Flatten", {"x": x(0, 3, 2)})


@pytest.mark.parametrize("constants", [["axes"], []])
@pytest.mark.parametrize("axes", [[0], [2], [0, 2], [-2, 0], [-4]])
def test_squeeze(axes: list[int], constants: list[str]) -> None:
    check("Squeeze", {"x": x(1, 3, 1, 2), "axes": np.array(axes)}, constants=constants)


def test_squeeze_of_every_one() -> None:
    check("Squeeze", {"x": x(1, 3, 1)})


@pytest.mark.parametrize("constants", [["axes"], []])
@pytest.mark.parametrize("axes", [[0], [2], [0, 3], [-1], [-1, 0]])
def test_unsqueeze(axes: list[int], constants: list[str]) -> None:
    check("Unsqueeze", {"x": x(3, 2), "axes": np.array(axes)}, constants=constants)
    check("Unsqueeze", {"x": x(0, 2), "axes": np.array(axes)}, constants=constants, shapes=["static", "unranked"])


def test_unsqueeze_with_its_axis_as_a_scalar() -> None:
    check("Unsqueeze", {"x": x(3, 2), "axes": np.array(1)}, shapes=["dynamic"])


@pytest.mark.parametrize("perm", [None, [0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_transpose(perm: list[int] | None) -> None:
    check("Transpose", {"x": x(2, 3, 4)}, {} if perm is None else {"perm": perm})


@pytest.mark.parametrize("constants", [["shape"], []])
@pytest.mark.parametrize(
    ("data", "shape"),
    [(x(3, 1), [2, 3, 4]), (x(3, 4), [1]), (x(3, 1), [1, 4]), (x(), [2, 2]), (x(1, 3), [0, 3]), (x(2, 3), [2, 3])],
)
def test_expand(data: np.ndarray, shape: list[int], constants: list[str]) -> None:
    check("Expand", {"x": data, "shape": np.array(shape)}, constants=constants)


@pytest.mark.parametrize("constants", [["repeats"], []])
@pytest.mark.parametrize(
    ("data", "repeats"),
    [(x(2, 3), [2, 1]), (x(2, 3), [1, 1]), (x(2, 1), [3, 4]), (x(), []), (x(0, 2), [2, 2]), (x(2, 2), [0, 1])],
)
def test_tile(data: np.ndarray, repeats: list[int], constants: list[str]) -> None:
    check("Tile", {"x": data, "repeats": np.array(repeats, np.int64)}, constants=constants)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_concat(axis: int) -> None:
    shape = [2, 2]
    parts = {}
    for name, length in {"a": 1, "b": 0, "c": 3}.items():
        shape[axis] = length
        parts[name] = x(*shape)
    check("Concat", parts, {"axis": axis})
    for name in parts:
        check("Concat", parts, {"axis": axis}, wrt=[name])


def test_concat_of_one() -> None:
    check("Concat", {"a": x(2, 3)}, {"axis": 1})


@pytest.mark.parametrize("of", ["a", "b", "c"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_split(of: str, axis: int) -> None:
    shape = [2, 2]
    shape[axis] = 5
    sizes = np.array([1, 0, 4])
    for constants in (["split"], []):
        check("Split", {"x": x(*shape), "split": sizes}, {"axis": axis}, outputs=["a", "b", "c"], of=of,
              constants=constants)  # fmt: skip
    check("Split", {"x": x(*shape)}, {"axis": axis, "num_outputs": 3}, outputs=["a", "b", "c"], of=of)


def test_split_with_several_cotangents() -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3),
        helper.make_node("Mul", ["a", "c"], ["y"]),
    ]
    model = graph_model(nodes, {"x": x(2, 3)}, ["y"])
    data = x(2, 3)
    got = gradients_of(model, {"x": data}, "y", ["x"], np.ones((2, 1)))["x"]
    np.testing.assert_allclose(got, np.stack([data[:, 2], 0 * data[:, 1], data[:, 0]], 1))


def test_range() -> None:
    operands = {"start": np.array(0.3), "limit": np.array(2.5), "delta": np.array(0.5)}
    check("Range", operands, wrt=["start", "delta"])
    check("Range", {**operands, "start": np.array(4.0), "delta": np.array(-0.7)}, wrt=["start", "delta"])


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, 1, -2, 9])
def test_trilu(k: int | None, upper: int) -> None:
    operands: dict[str, np.ndarray] = {"x": x(2, 3, 4)}
    if k is not None:
        operands["k"] = np.array(k)
    check("Trilu", operands, {"upper": upper})
    check("Trilu", operands, {"upper": upper}, constants=["k"], shapes=["static"])


@pytest.mark.parametrize(("time", "batch"), [(None, None), (1, 0)])
def test_reverse_sequence(time: int | None, batch: int | None) -> None:
    attributes = {} if time is None else {"time_axis": time, "batch_axis": batch}
    data = x(4, 3, 2) if time is None else x(3, 4)
    check("ReverseSequence", {"x": data, "lengths": np.array([1, 4, 2])}, attributes)


@pytest.mark.parametrize("op", ["Shape", "Size", "NonZero", "ArgMax", "ArgMin", "EyeLike"])
def test_declared_zeros(op: str) -> None:
    model = node_model("Identity", {"x": x(2, 3)})
    model.graph.node.extend(
        [
            helper.make_node(op, ["x"], ["n"]),
            helper.make_node("Cast", ["n"], ["f"], to=11),
            helper.make_node("ReduceSum", ["f"], ["s"], keepdims=0),
            helper.make_node("Mul", ["x", "s"], ["z"]),
        ]
    )
    model.graph.output.append(helper.make_tensor_value_info("z", 11, [2, 3]))
    data = x(2, 3)
    got = gradients_of(model, {"x": data}, "z", ["x"], np.ones((2, 3)))["x"]
    numbers = {"Shape": 5.0, "Size": 6.0, "EyeLike": 2.0}
    count = {
        "NonZero": lambda: float(np.sum(np.nonzero(data))),
        "ArgMax": lambda: float(data.argmax(0).sum()),
        "ArgMin": lambda: float(data.argmin(0).sum()),
    }
    expected = numbers[op] if op in numbers else count[op]()
    np.testing.assert_allclose(got, np.full((2, 3), expected))
