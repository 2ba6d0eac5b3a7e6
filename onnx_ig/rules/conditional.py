"""If: the branch that was taken runs again inside the backward If, and is walked back there."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.bodies import closed, copied, emit, new_graph
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient


@gradient("If")
def if_(c: Context, *cotangents: ir.Value | None) -> list[ir.Value | None]:
    """gv = vjp of the branch taken, for each outer value v that a branch reads; zeros where only the other one does.

    The condition is piecewise constant and gets nothing. Source: ONNX If-19.
    """
    captured = [v for index, v in enumerate(c.captured, start=len(c.inputs)) if c.wants(index)]
    branches: list[tuple[Context, list[ir.Value | None]]] = []
    for name in ("then_branch", "else_branch"):
        graph = c.attr(name)
        inner = new_graph(c, name)
        nodes, values = copied(inner, graph, {})
        given = [(values.get(v, v), g) for v, g in zip(graph.outputs, cotangents, strict=True) if g is not None]
        found = inner.differentiate(nodes, [v for v, _ in given], [g for _, g in given], captured)
        branches.append((inner, found))
    reached = [v for k, v in enumerate(captured) if any(found[k] is not None for _, found in branches)]
    graphs = []
    for inner, found in branches:
        outputs = [
            inner.zeros_like(v) if g is None else g for v, g in zip(captured, found, strict=True) if v in reached
        ]
        graphs.append(closed(inner, outputs))
    sums = emit(c, "If", [c.operand(0)], reached, then_branch=graphs[0], else_branch=graphs[1])
    by_value = dict(zip(reached, sums, strict=True))
    return [None, *(by_value.get(v) for v in c.captured)]
