"""What the rules of If, Loop and Scan share: bodies that run again inside a backward graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnx_ig.graph.states import CHANGES
from onnx_ig.graph.subgraphs import ORIGIN, copy_nodes, prune, set_outputs, subgraphs
from onnx_ig.rules.context import Context

__all__ = [
    "closed",
    "copied",
    "described",
    "emit",
    "initial_cotangent",
    "live_states",
    "new_graph",
    "new_input",
    "refuse_changing_shape",
    "stacked_over_iterations",
]

_STACKED = "onnx_ig.stacked"
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


def described(like: ir.Value, shape: Iterable[int | ir.SymbolicDim | None] | None, name: str | None = None) -> ir.Value:
    """A value of the element type of `like` and another shape, that nothing produces."""
    return ir.Value(name=name, type=like.type, shape=None if shape is None else ir.Shape(shape))


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


def live_states(
    c: Context,
    nodes: Sequence[ir.Node],
    states: Sequence[ir.Value],
    nexts: Sequence[ir.Value],
    wrt: Iterable[ir.Value],
    of: Iterable[ir.Value],
) -> tuple[list[int], set[ir.Value]]:
    """Which carried states need a cotangent, by index, and the values of the body on the way from `wrt` to `of`.

    A state depends on `wrt` where its initial value does or an earlier iteration made it so; a cotangent reaches it
    from `of` or from a later iteration.
    """
    pairs = list(zip(states, nexts, strict=True))
    active, grown = set(wrt), set(wrt)
    while True:
        on_path = c.on_path(nodes, nexts, list(active))
        grown = active | {s for s, n in pairs if n in on_path}
        if grown == active:
            break
        active = grown
    reached = set(of)
    while True:
        on_path = c.on_path(nodes, list(reached), list(active))
        grown = reached | {n for s, n in pairs if s in on_path}
        if grown == reached:
            break
        reached = grown
    return [k for k, (s, n) in enumerate(pairs) if n in reached and s in active], on_path


def stacked_over_iterations(c: Context, body: ir.Graph, wanted: Sequence[ir.Value]) -> list[ir.Value]:
    """What the inputs `wanted` of a body were in each iteration, [iterations, ...]: further scan outputs of the node.

    A walk that asks again gets the same ones.
    """
    node = c.node
    given = node.meta.setdefault(_STACKED, {})
    for value in wanted:
        if value in given:
            continue
        copy = c.op.scope(body).Identity(value)
        copy.type, copy.shape = value.type, value.shape
        body.outputs.append(copy)
        node.resize_outputs(len(node.outputs) + 1)
        stack = node.outputs[-1]
        stack.name = c.op.names.numbered("ig")
        stack.type = value.type
        stack.shape = None if value.shape is None else ir.Shape([None, *value.shape])
        for name in ("scan_output_axes", "scan_output_directions"):
            if name in node.attributes:
                node.attributes[name] = ir.AttrInt64s(name, [*node.attributes[name].as_ints(), 0])
        given[value] = stack
    return [given[value] for value in wanted]


def initial_cotangent(c: Context, index: int, initial: ir.Value, given: ir.Value | None) -> ir.Value:
    """The cotangent of final state `index`, zeros where there is none."""
    if given is not None:
        return given
    return c.zeros_like(c.outputs[index] if c.has_output(index) else initial)


def refuse_changing_shape(c: Context, state: ir.Value) -> None:
    """Refuses a state that provably has another shape after an iteration than before the first one."""
    if CHANGES in state.meta:
        before, after = state.meta[CHANGES]
        raise c.refuse(
            f"its carried value {state.name!r} changes shape between iterations, from {before} to {after}, "
            "and its earlier values are needed",
            "Preallocate it at its final shape, or give it out as a scan output instead of carrying it.",
        )


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
