"""Operators whose derivative jumps, as far as the path goes through them."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_ig.graph.kinks import kinks

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL


def found(nodes: list[object], path: set[str] | None = None) -> list[str]:
    """Kinks of a graph of x and z [3] and mask [3], on the nodes that give the values `path` (all), moving x."""
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info(n, t, [3]) for n, t in (("x", FLOAT), ("z", FLOAT), ("mask", BOOL))],
        [helper.make_tensor_value_info("y", FLOAT, [3])],
    )
    model = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
    on_path = [n for n in model.graph if path is None or n.outputs[0].name in path]
    return kinks(model.graph, on_path, [model.graph.inputs[0]])


def node(op: str, inputs: list[str], output: str, **attributes: object) -> object:
    return helper.make_node(op, inputs, [output], **attributes)


def test_each_once_in_order() -> None:
    nodes = [node("Tanh", ["x"], "a"), node("Relu", ["a"], "b"), node("Abs", ["b"], "c"), node("Relu", ["c"], "y")]
    assert found(nodes) == ["Relu", "Abs"]


def test_smooth() -> None:
    assert found([node("Gelu", ["x"], "a"), node("Softplus", ["a"], "b"), node("Exp", ["b"], "y")]) == []


def test_off_the_path() -> None:
    nodes = [node("Relu", ["z"], "a"), node("Mul", ["x", "a"], "y")]
    assert found(nodes, {"y"}) == []


def test_a_mask_that_stays_is_none() -> None:
    assert found([node("Where", ["mask", "x", "z"], "y")]) == []


def test_a_condition_that_moves_is_one() -> None:
    nodes = [node("Greater", ["x", "z"], "g"), node("Where", ["g", "x", "z"], "y")]
    assert found(nodes, {"y"}) == ["Where"]


@pytest.mark.parametrize(("activations", "wanted"), [(None, []), (["Tanh"], []), (["Relu"], ["RNN"])])
def test_recurrent_activations(activations: list[str] | None, wanted: list[str]) -> None:
    given = {} if activations is None else {"activations": activations}
    assert found([node("RNN", ["x", "z", "z"], "y", hidden_size=1, **given)]) == wanted


def test_bodies() -> None:
    inner = helper.make_graph(
        [node("Relu", ["x"], "r"), node("Identity", ["c"], "go")],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", BOOL, [])],
        [helper.make_tensor_value_info("go", BOOL, []), helper.make_tensor_value_info("r", FLOAT, [3])],
    )
    count = node("Constant", [], "n", value=helper.make_tensor("n", TensorProto.INT64, [], [2]))
    assert found([count, helper.make_node("Loop", ["n", ""], ["y"], body=inner)]) == ["Relu"]
