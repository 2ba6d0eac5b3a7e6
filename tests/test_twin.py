"""A second forward pass: what is handed down to its values."""

from __future__ import annotations

import onnx_ir as ir
from onnx import parser

from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.load import load
from onnx_ig.graph.names import Names
from onnx_ig.graph.prepare import prepare
from onnx_ig.twin import Twin


def shape_of(value: ir.Value) -> list[int | str | None]:
    assert value.shape is not None
    return [d if isinstance(d, int) else d.value for d in value.shape]


def test_ranks_are_those_of_the_first_pass() -> None:
    """Also where inference found another, as it does behind shapes that are computed; sizes that it found stay."""
    model = prepare(
        load(
            parser.parse_model(
                '<ir_version: 10, opset_import: ["": 20]> g (float[N,2,3] x) => (float[N,2,3] y) '
                "{ a = Tanh(x) b = Exp(a) y = Neg(b) }"
            )
        )
    )
    graph, names = model.graph, Names(model)
    op = Emitter(graph, names, 20)
    x, (a, b, y) = graph.inputs[0], (n.outputs[0] for n in graph)
    twin = Twin(list(graph), {x: op.Neg(x)}, op)
    twin.value(y)
    first, second, third = (twin.value(v) for v in (a, b, y))
    first.shape, second.shape, third.shape = ir.Shape([None, 4, None, 2, 3]), ir.Shape(["M", 2, 3]), None
    twin.hand_down_shapes()
    assert shape_of(first) == [None, 2, 3]
    assert shape_of(second) == ["M", 2, 3]
    assert shape_of(third) == [None, 2, 3]
