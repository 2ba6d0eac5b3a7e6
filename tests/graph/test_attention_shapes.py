"""Shapes of Attention with open dimensions, for which onnx's own inference says 0."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare


def _attention(operands: dict[str, list[int | str]], outputs: list[str], **attributes: int) -> onnx.ModelProto:
    names = ["q", "k", "v", "", "past_k", "past_v"] if "past_k" in operands else ["q", "k", "v"]
    node = helper.make_node("Attention", names, outputs, **attributes)
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in operands.items()]
    last = helper.make_node("Relu", [outputs[-1]], ["after"])
    results = [helper.make_empty_tensor_value_info(n) for n in (*(o for o in outputs if o), "after")]
    graph = helper.make_graph([node, last], "g", given, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def _shapes(model: onnx.ModelProto) -> dict[str | None, list[int | str | None]]:
    prepared = prepare(load(model))
    return {
        v.name: [d if isinstance(d, int) else d.value for d in v.shape]
        for v in prepared.graph.outputs
        if v.shape is not None
    }


def test_four_axes() -> None:
    operands = {"q": ["B", 4, "L", 8], "k": ["B", 2, "S", 8], "v": ["B", 2, "S", 6]}
    found = _shapes(_attention(operands, ["y", "", "", "scores"]))
    assert found == {"y": ["B", 4, "L", 6], "scores": ["B", 4, "L", "S"], "after": ["B", 4, "L", "S"]}


@pytest.mark.parametrize(("past", "total"), [(3, 8), ("P", None)])
def test_packed_with_past(past: int | str, total: int | None) -> None:
    operands = {"q": ["B", "L", "D"], "k": ["B", 5, 16], "v": ["B", 5, 12]}
    operands |= {"past_k": ["B", 2, past, 8], "past_v": ["B", 2, past, 6]}
    found = _shapes(_attention(operands, ["y", "key", "value"], q_num_heads=4, kv_num_heads=2))
    key, value = ["B", 2, total, 8], ["B", 2, total, 6]
    assert found == {"y": ["B", "L", 24], "key": key, "value": value, "after": value}
