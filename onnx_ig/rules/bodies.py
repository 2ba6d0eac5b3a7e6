"""What the rules of If, Loop and Scan share: bodies that run again inside a backward graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnx_ig.graph.subgraphs import ORIGIN, copy_nodes, prune, set_outputs, subgraphs
from onnx_ig.rules.context import Context

__all__ = ["closed", "copied", "emit", "new_graph", "new_input"]

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def new_graph(c: Context, name: str) -> Context:
    """A context whose emitter writes into an empty graph, the body of a node that the rule is about to emit."""
    return c.within(ir.Graph([], [], nodes=[], name=c.op.names.numbered(f"ig_{name}")))


def new_input(c: Context, like: ir.Value) -> ir.Value:
    """A further input of the graph that `c` writes into, of the type and shape of `like`."""
    value = ir.Value(name=c.op.names.numbered("ig"), type=like.type, shape=like.shape)
    c.op.graph.inputs.append(value)
    return value


def copied(
    c: Context, graph: ir.Graph, values: Mapping[ir.Value, ir.Value]
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """Append copies of the nodes of `graph`; returns them and what stands for each value of `graph`."""
    before = len(c.op.graph)
    found = copy_nodes(graph, values, c.op)
    return list(c.op.graph)[before:], found


def closed(c: Context, outputs: Sequence[ir.Value]) -> ir.Graph:
    """The graph that `c` writes into with `outputs` as its outputs and without what they do not need.

    Refuses a graph that draws random numbers: it is a second run of a body, and would draw others than the first.
    """
    graph = c.op.graph
    set_outputs(c.op, outputs)
    prune(graph)
    _refuse_random(c, graph)
    return graph


def emit(
    c: Context, op_type: str, inputs: Sequence[Any], likes: Sequence[ir.Value], **attributes: Any
) -> list[ir.Value]:
    """Append a node with one output for each of `likes`, of its type and shape."""
    if not likes:
        return []
    outputs = c.op.node(op_type, tuple(inputs), attributes, outputs=len(likes))
    outputs = [outputs] if len(likes) == 1 else list(outputs)
    for output, like in zip(outputs, likes, strict=True):
        output.type = like.type
        output.shape = None if like.shape is None else like.shape.copy()
    return outputs


def _refuse_random(c: Context, graph: ir.Graph) -> None:
    for node in graph:
        training = node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None
        if node.domain in ("", "ai.onnx") and (node.op_type in _RANDOM or training):
            name = node.meta.get(ORIGIN, node.name)
            raise c.refuse(
                f"its body draws random numbers ({node.op_type} {name!r}), which a second run would draw anew",
                "Export the model in inference mode, or draw the numbers outside and feed them.",
            )
        for inner in subgraphs(node):
            _refuse_random(c, inner)
