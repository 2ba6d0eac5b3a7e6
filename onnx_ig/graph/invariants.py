"""Carried values that no iteration changes."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["read_invariants_outside"]


def read_invariants_outside(model: ir.Model) -> None:
    """Let the bodies of Loop and Scan read a carried value that they only hand on where it comes from, in place.

    TensorFlow's exporter carries weights so: as outer values they are constants again, to inference, to the runtime,
    and to a backward that would otherwise keep one copy an iteration.
    """
    for graph in model.graphs():
        for node in graph:
            if node.domain != "" or node.op_type not in ("Loop", "Scan"):
                continue
            body = node.attributes["body"].as_graph()
            for initial, state, following in _carried(node, body):
                same = _handed_on(following, state)
                if initial is None or same is None:
                    continue
                for value in same:
                    for user, index in tuple(value.uses()):
                        if user.outputs[0] not in same:
                            user.replace_input_with(index, initial)


def _carried(node: ir.Node, body: ir.Graph) -> list[tuple[ir.Value | None, ir.Value, ir.Value]]:
    if node.op_type == "Loop":
        return list(zip(node.inputs[2:], body.inputs[2:], body.outputs[1:], strict=False))
    count = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    return list(zip(node.inputs[:count], body.inputs[:count], body.outputs[:count], strict=True))


def _handed_on(following: ir.Value, state: ir.Value) -> list[ir.Value] | None:
    """`state` and the values that Identities make of it up to `following`; None where that is another value."""
    found = [following]
    while found[-1] is not state:
        node = found[-1].producer()
        if node is None or node.op_type != "Identity" or node.inputs[0] is None:
            return None
        found.append(node.inputs[0])
    return found
