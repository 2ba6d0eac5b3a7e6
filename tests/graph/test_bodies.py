from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ig.graph.prepare import prepare


def scan(axes_at: str, *, typed: bool) -> ir.Model:
    """y[t] = state with a last axis of length 1; the axes of Unsqueeze stored outside the body or inside it."""
    axes = numpy_helper.from_array(np.array([-1]), "axes")
    nodes = [
        helper.make_node("Add", ["s", "e"], ["s2"]),
        helper.make_node("Unsqueeze", ["s2", "axes"], ["z"]),
    ]
    empty = [helper.make_empty_tensor_value_info(n) for n in ("s2", "z")]
    given = [helper.make_empty_tensor_value_info(n) for n in ("s", "e")]
    if typed:
        given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("s", "e")]
    body = helper.make_graph(nodes, "body", given, empty, [axes] if axes_at == "inside" else [])
    node = helper.make_node("Scan", ["a", "b"], ["last", "y"], body=body, num_scan_inputs=1)
    inputs = [helper.make_tensor_value_info("a", 1, [3]), helper.make_tensor_value_info("b", 1, [5, 3])]
    outputs = [helper.make_tensor_value_info("last", 1, None), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph([node], "g", inputs, outputs, [axes] if axes_at == "outside" else [])
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("axes_at", ["inside", "outside"])
def test_bodies_are_typed_throughout(axes_at: str, typed: bool) -> None:
    model = prepare(scan(axes_at, typed=typed))
    body = model.graph.node(0).attributes["body"].as_graph()
    known = {v.name: v for n in body for v in n.outputs}
    assert [(v.dtype, v.shape) for v in body.inputs] == [(ir.DataType.FLOAT, ir.Shape([3]))] * 2
    assert known["z"].shape == ir.Shape([3, 1])
    assert model.graph.outputs[1].shape == ir.Shape([5, 3, 1])
    assert len(body.initializers) == 1


def test_carried_values_of_a_loop() -> None:
    node = helper.make_node("Add", ["s", "s"], ["s2"])
    same = helper.make_node("Identity", ["c"], ["c2"])
    given = [helper.make_empty_tensor_value_info(n) for n in ("i", "c", "s")]
    empty = [helper.make_empty_tensor_value_info(n) for n in ("c2", "s2")]
    body = helper.make_graph([node, same], "body", given, empty)
    loop = helper.make_node("Loop", ["n", "", "a"], ["y"], body=body)
    inputs = [helper.make_tensor_value_info("n", 7, []), helper.make_tensor_value_info("a", 1, [3])]
    graph = helper.make_graph([loop], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = prepare(ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)))
    body = model.graph.node(0).attributes["body"].as_graph()
    assert [v.dtype for v in body.inputs] == [ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.FLOAT]
    assert model.graph.outputs[0].dtype == ir.DataType.FLOAT
