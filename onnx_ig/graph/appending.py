"""Lists that a Loop appends to, turned into scan outputs: one tensor with the iterations along its first axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = ["stack_appended"]


@dataclass(frozen=True)
class _Append:
    """State `index` of a Loop starts as an empty list and gets `tensor` at its end in every iteration, by `node`."""

    index: int
    node: ir.Node
    tensor: ir.Value


def stack_appended(
    loop: ir.Node,
    empty: Callable[[ir.Value], bool],
    steady: Callable[[ir.Value], bool],
    op: Inserter,
    body_op: Inserter,
) -> list[tuple[ir.Value, ir.Value]]:
    """Replace `loop` by one that scans out what it appended to lists that were `empty` before.

    Only where what is appended is `steady`, of the same shape in every iteration, as scan outputs must be. Returns the
    final lists, now cut from the scan outputs, each with the tensor it is cut from.
    """
    body = loop.attributes["body"].as_graph()
    states = len(loop.inputs) - 2
    found = [a for k in range(states) if (a := _append(loop, body, k, empty)) is not None and steady(a.tensor)]
    if not found:
        return []
    gone = {a.index for a in found}
    outputs = list(body.outputs)
    kept = [k for k in range(states) if k not in gone]
    scanned = []
    for append in found:
        body_op.before = append.node
        scanned.append(body_op.Identity(append.tensor))
        scanned[-1].type, scanned[-1].shape = append.tensor.type, append.tensor.shape
    body.outputs.clear()
    body.outputs.extend([outputs[0], *(outputs[1 + k] for k in kept), *outputs[1 + states :], *scanned])
    inputs = list(body.inputs)
    for append in found:
        body.remove(append.node, safe=True)
        body.inputs.remove(inputs[2 + append.index])
    return _replace(loop, kept, states, found, op)


def _replace(
    loop: ir.Node, kept: list[int], states: int, found: list[_Append], op: Inserter
) -> list[tuple[ir.Value, ir.Value]]:
    body = loop.attributes["body"].as_graph()
    stay = [loop.outputs[k] for k in kept] + list(loop.outputs[states:])
    operands = (*loop.inputs[:2], *(loop.inputs[2 + k] for k in kept))
    loop.attributes.clear()
    op.before = loop
    values = op.node("Loop", operands, {"body": body}, outputs=len(stay) + len(found))
    values = [values] if len(stay) + len(found) == 1 else list(values)
    for old, new in zip(stay, values, strict=False):
        _stand_in(old, new)
    pairs = []
    for append, stack in zip(found, values[len(stay) :], strict=True):
        stack.type = append.tensor.type
        stack.shape = ir.Shape([None, *append.tensor.shape])  # type: ignore[misc]
        final = op.SplitToSequence(stack, axis=0, keepdims=0)
        _stand_in(loop.outputs[append.index], final)
        pairs.append((final, stack))
    assert loop.graph is not None
    loop.graph.remove(loop, safe=True)
    return pairs


def _append(loop: ir.Node, body: ir.Graph, index: int, empty: Callable[[ir.Value], bool]) -> _Append | None:
    initial, state, following = loop.inputs[2 + index], body.inputs[2 + index], body.outputs[1 + index]
    node = following.producer()
    if initial is None or not empty(initial) or node is None or node.op_type != "SequenceInsert":
        return None
    at_end = len(node.inputs) == 2 or node.inputs[2] is None
    private = len(state.uses()) == 1 and not following.uses()
    outputs = list(body.outputs)
    tensor = node.inputs[1]
    if node.inputs[0] is not state or not at_end or not private or outputs.count(following) > 1 or state in outputs:
        return None
    return None if tensor is None else _Append(index, node, tensor)


def _stand_in(old: ir.Value, new: ir.Value) -> None:
    """`new` takes the name, type and uses of `old`."""
    new.type = old.type if old.type is not None else new.type
    new.shape = old.shape
    name, old.name = old.name, None
    new.name = name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
