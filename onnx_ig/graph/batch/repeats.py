"""Values that hold the same entries again and again along an axis."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.sizes import ENTRY_BY_ENTRY

__all__ = ["repeats"]

_UNCHANGED = ("Cast", "Identity")


def repeats(value: ir.Value, axis: int, depth: int = 16) -> bool:
    """Whether all entries along `axis` (counted from 0) are known to be equal, as of a row repeated for a fixed batch."""
    if value.shape is None:
        return False
    if value.shape[axis] == 1:
        return True
    if value.const_value is not None and not value.is_graph_input():
        array = value.const_value.numpy()
        return bool((array == np.take(array, [0], axis)).all())
    node = value.producer()
    if node is None or node.domain != "" or depth == 0:
        return False
    if node.op_type == "ConstantOfShape":
        return True
    if node.op_type == "Tile" and node.inputs[0] is not None and node.inputs[0].shape is not None:
        return node.inputs[0].shape[axis] == 1
    if node.op_type in ("Gemm", "MatMul") and axis == 0 and len(value.shape) == 2 and node.inputs[0] is not None:
        return not node.attributes.get_int("transA", 0) and all(
            v is None or _same_along(v, -2, depth - 1) for v in (node.inputs[0], *node.inputs[2:])
        )
    if (
        node.op_type == "Split"
        and node.inputs[0] is not None
        and node.attributes.get_int("axis", 0) % len(value.shape) != axis
    ):
        return repeats(node.inputs[0], axis, depth - 1)
    if node.op_type in ("Expand", *_UNCHANGED, *ENTRY_BY_ENTRY):
        operands = node.inputs[:1] if node.op_type in ("Expand", *_UNCHANGED) else node.inputs
        return all(v is None or _same_along(v, axis - len(value.shape), depth - 1) for v in operands)
    return False


def _same_along(value: ir.Value, axis: int, depth: int) -> bool:
    """`repeats` of an operand that is broadcast, along an axis counted from the end."""
    if value.shape is None:
        return False
    place = axis + len(value.shape)
    return place < 0 or repeats(value, place, depth)
