"""If: a backward If, whose branches walk back through the branches of the forward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.subgraphs import subgraphs
from onnx_ig.rules.bodies import closed, copied, emit, new_graph
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

_BRANCHES = ("then_branch", "else_branch")
_KEPT = "onnx_ig.kept"


@gradient("If")
def if_(c: Context, *cotangents: ir.Value | None) -> list[ir.Value | None]:
    """gv = vjp of the branch taken, for each outer value v that a branch reads; zeros where only the other one does.

    The condition is piecewise constant and gets nothing. What the backward reads of the forward's branches the node gives
    out as further outputs (`lowering.branches` "keep"), or the branch runs "again" inside the backward one.
    Source: ONNX If-19.
    """
    captured = [v for index, v in enumerate(c.captured, start=len(c.inputs)) if c.wants(index)]
    again = c.lowering.branches == "again"
    branches: list[tuple[Context, list[ir.Value | None]]] = []
    for name in _BRANCHES:
        graph = c.attr(name)
        inner = new_graph(c, name)
        nodes, values = copied(inner, graph, {}) if again else (list(graph), {})
        given = [(values.get(v, v), g) for v, g in zip(graph.outputs, cotangents, strict=False) if g is not None]
        found = inner.differentiate(nodes, [v for v, _ in given], [g for _, g in given], captured)
        branches.append((inner, found))
    reached = [v for k, v in enumerate(captured) if any(found[k] is not None for _, found in branches)]
    graphs = []
    for inner, found in branches:
        outputs = [
            inner.zeros_like(v) if g is None else g for v, g in zip(captured, found, strict=True) if v in reached
        ]
        graphs.append(closed(inner, outputs))
    if not again:
        for name, (inner, _) in zip(_BRANCHES, branches, strict=True):
            _read_outside(c, name, inner)
    sums = emit(c, "If", [c.operand(0)], reached, then_branch=graphs[0], else_branch=graphs[1])
    by_value = dict(zip(reached, sums, strict=True))
    return [None, *(by_value.get(v) for v in c.captured)]


def _read_outside(c: Context, name: str, inner: Context) -> None:
    """Let the backward branch read what the node gives out in the place of values inside the forward's branch `name`."""
    branch: ir.Graph = c.attr(name)
    constants = set(branch.initializers.values())
    local = constants.union(*(n.outputs for n in branch))
    for node in _all_nodes(inner.op.graph):
        for index, value in enumerate(node.inputs):
            if value is None or value not in local:
                continue
            if value in constants and value.const_value is not None:
                outside = inner.op.constant(value.const_value)
            else:
                outside = _given_out(c, name, value)
            node.replace_input_with(index, outside)


def _given_out(c: Context, name: str, value: ir.Value) -> ir.Value:
    """The output of the node that has `value` of the branch `name`, and something empty where the other one is taken.

    A walk that asks again gets the same one.
    """
    node = c.node
    given = node.meta.setdefault(_KEPT, {})
    if value in given:
        return given[value]
    for other in _BRANCHES:
        branch: ir.Graph = c.attr(other)
        op = c.op.scope(branch)
        copy = op.Identity(value) if other == name else _empty(c, op, value)
        copy.type = value.type
        branch.outputs.append(copy)
    node.resize_outputs(len(node.outputs) + 1)
    output = node.outputs[-1]
    output.name, output.type = c.op.names.numbered("ig"), value.type
    given[value] = output
    return output


def _empty(c: Context, op: Emitter, like: ir.Value) -> ir.Value:
    dtype = c.dtype(like)
    if isinstance(like.type, ir.SequenceType):
        empty: ir.Value = op.SequenceEmpty(dtype=dtype.value)
        return empty
    if not isinstance(like.type, ir.TensorType):
        raise c.refuse(
            f"its branch computes {like.name!r}, which is neither a tensor nor a sequence, and the backward needs it",
            "Export the model without optional values.",
        )
    rank = 1 if like.shape is None else len(like.shape)
    constant: ir.Value = op.Identity(op.constant(ir.tensor(np.zeros([0] * rank, dtype.numpy()))))
    return constant


def _all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    for node in graph:
        yield node
        for inner in subgraphs(node):
            yield from _all_nodes(inner)
