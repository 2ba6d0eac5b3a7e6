"""Where the entries of a shape operand come from: seen through the nodes that exporters write between Shape and use."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.broadcast import same_dim

__all__ = ["is_length_of"]


def is_length_of(vector: ir.Value, index: int, x: ir.Value, axis: int) -> bool:
    """Whether entry `index` of an integer vector is provably the length of `axis` of `x` (not negative).

    Follows Shape, Slice, Gather, Concat, Cast, Identity, Squeeze and Unsqueeze with constant operands.
    """
    node = vector.producer()
    if node is None or node.domain not in ("", "ai.onnx") or not node.inputs or node.inputs[0] is None:
        return False
    source = node.inputs[0]
    if node.op_type in ("Cast", "Identity", "Squeeze", "Unsqueeze"):
        return is_length_of(source, index, x, axis)
    if node.op_type == "Shape":
        start = node.attributes.get_int("start", 0)
        return start >= 0 and _same_axis(source, start + index, x, axis)
    if node.op_type == "Concat":
        for part in node.inputs:
            count = _count(part)
            if part is None or count is None:
                return False
            if index < count:
                return is_length_of(part, index, x, axis)
            index -= count
        return False
    if node.op_type == "Slice":
        starts, steps = _constant(node, 1), _constant(node, 4)
        plain = starts is not None and starts.size == 1 and (steps is not None or len(node.inputs) < 5)
        if not plain or int(starts[0]) < 0 or (steps is not None and int(steps[0]) != 1):  # type: ignore[index]
            return False
        return is_length_of(source, int(starts[0]) + index, x, axis)  # type: ignore[index]
    if node.op_type == "Gather":
        chosen = _constant(node, 1)
        if chosen is None or index >= chosen.size or int(chosen.reshape(-1)[index]) < 0:
            return False
        return is_length_of(source, int(chosen.reshape(-1)[index]), x, axis)
    return False


def _same_axis(source: ir.Value, position: int, x: ir.Value, axis: int) -> bool:
    if source is x:
        return position == axis
    if source.shape is None or x.shape is None or position >= len(source.shape):
        return False
    return same_dim(source.shape[position], x.shape[axis])


def _count(vector: ir.Value | None) -> int | None:
    """Entries of a vector (a scalar has one), where known."""
    if vector is None or vector.shape is None or not all(isinstance(d, int) for d in vector.shape):
        return None
    return int(np.prod([int(d) for d in vector.shape]))  # type: ignore[arg-type]


def _constant(node: ir.Node, index: int) -> np.ndarray | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return np.atleast_1d(value.const_value.numpy())
