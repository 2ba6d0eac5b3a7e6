"""Operators that keep a part of a tensor which the data choose: the cotangent goes back to the chosen places."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.indexing import scatter_along
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]
_INT64 = ir.DataType.INT64.value


@gradient("TopK")
def top_k(c: Context, gvalues: ir.Value, gindices: ir.Value | None = None) -> Values:
    """gx = gvalues at the indices chosen, 0 elsewhere. Source: ONNX TopK-11."""
    indices = c.outputs[1]
    indices.name = indices.name or c.op.names.numbered("ig_indices")
    zeros = c.zeros_like(c.operand(0))
    return c.op.ScatterElements(zeros, indices, gvalues, axis=int(c.attr("axis", -1))), None


@gradient("Compress")
def compress(c: Context, gy: ir.Value) -> Values:
    """gx = gy at the places where the condition holds, without a scatter: place p has number (conditions up to p) - 1.

    A condition shorter than the axis is false beyond its end. Without an axis x is read flat. Source: ONNX Compress-11.
    """
    op, x, axis = c.op, c.operand(0), c.attr("axis")
    along = 0 if axis is None else int(axis)
    length = op.Unsqueeze(op.Size(x), [0]) if axis is None else c.size(x, along)
    holds = op.Cast(op.Slice(c.operand(1), [0], length, [0]), to=_INT64)
    holds = op.Pad(holds, op.Concat([0], op.Sub(length, op.Shape(holds)), axis=0))
    number = op.Sub(op.CumSum(holds, 0), 1)
    behind = c.size(c.output, along)  # a zero is put there for every place that was left out
    place = op.Where(op.Cast(holds, to=ir.DataType.BOOL.value), number, behind)
    g = op.Gather(op.Pad(gy, [0, 1], None, [along]), place, axis=along)
    return (g if axis is not None else c.reshape_like(g, x)), None


@gradient("Unique")
def unique(c: Context, gy: ir.Value, *others: ir.Value | None) -> Values:
    """gx = gy at the first occurrence of each value; x is read flat where there is no axis. Source: ONNX Unique-11.

    Where values repeat the operator has no derivative (any change of one adds a value); the first stands for all.
    """
    op, x, axis = c.op, c.operand(0), c.attr("axis")
    _, first = op.Unique(x, axis=axis, sorted=c.attr("sorted"), outputs=2)
    if axis is None:
        flat = c.zeros(op.Unsqueeze(op.Size(x), [0]), x)
        return (c.reshape_like(op.ScatterElements(flat, first, gy, axis=0), x),)
    return (scatter_along(c, gy, x, first, int(axis)),)
