"""Slice: the cotangent goes back to where it was cut from, with zeros elsewhere and without a scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]
Size = list[int] | ir.Value  # a 1-element vector: known, or read at run time


@gradient("Slice")
def slice_(c: Context, gy: ir.Value) -> Values:
    """gx = gy at the positions start + i*step of each axis, 0 elsewhere. Source: ONNX Slice-13.

    Step 1 is a Pad; other steps a Gather from gy with one zero behind it; axes that only the run knows are found by
    slicing the flat positions of x.
    """
    x, starts, steps = c.operand(0), c.operand(1), c.input(4)
    rest = (None,) * (len(c.inputs) - 1)
    axes = _axes(c)
    if axes is None:
        return (_by_positions(c, gy), *rest)
    gx, padded, begins, lengths = gy, [], [], []
    for i, axis in enumerate(axes):
        step: Size = [1] if steps is None else _entry(c, steps, i)
        start, length = _entry(c, starts, i), c.size(c.output, axis)
        if step == [1]:
            padded.append(axis)
            begins.append(start)
            lengths.append(length)
        else:
            gx = _stepped(c, gx, axis, start, step, c.size(x, axis), length)
    if padded:
        gx = pad_back(c, gx, x, padded, begins, lengths)
    return (gx, *rest)


def pad_back(
    c: Context, g: ir.Value, x: ir.Value, axes: Sequence[int], starts: Sequence[Size], lengths: Sequence[Size]
) -> ir.Value:
    """`g`, which has `lengths` along `axes`, with zeros around it: it begins at `starts` and has the lengths of `x`.

    Negative starts count from the end and starts outside are clamped, as in Slice; the other axes agree already.
    """
    before, after = [], []
    for axis, start, length in zip(axes, starts, lengths, strict=True):
        dim = c.size(x, axis)
        first = _from_front(c, start, dim, 0)
        before.append(first)
        after.append(_sub(c, _sub(c, dim, first), length))
    rank = c.rank(x)
    if rank is not None and all(isinstance(s, list) for s in (*before, *after)):
        pads = [0] * (2 * rank)
        for axis, b, a in zip(axes, before, after, strict=True):
            pads[axis % rank], pads[axis % rank + rank] = b[0], a[0]  # type: ignore[index]
        return c.op.Pad(g, pads) if any(pads) else g
    return c.op.Pad(g, c.op.Concat(*before, *after, axis=0), None, list(axes))


def _stepped(c: Context, g: ir.Value, axis: int, start: Size, step: Size, dim: Size, length: Size) -> ir.Value:
    """Position p of x holds g[(p - start) / step] where that is whole and inside, else the zero put behind g."""
    op = c.op
    if isinstance(step, list):
        first = _from_front(c, start, dim, 0 if step[0] > 0 else 1)
    else:
        backwards = op.Cast(op.Less(step, 0), to=ir.DataType.INT64.value)
        first = _from_front(c, start, dim, backwards)
    offsets = op.Sub(op.Range(0, op.Squeeze(_value(c, dim), [0]), 1), first)
    index = op.Div(offsets, step)
    hit = op.And(op.Equal(op.Mul(index, step), offsets), op.GreaterOrEqual(index, 0))
    index = op.Where(op.And(hit, op.Less(index, length)), index, length)
    behind = op.Pad(g, [0, 1], None, [axis])
    return op.Gather(behind, index, axis=axis)


def _by_positions(c: Context, gy: ir.Value) -> ir.Value:
    """Slice the flat positions of x as x was sliced, and put gy there."""
    op, x = c.op, c.operand(0)
    shape = op.Shape(x)
    count = op.Size(x)
    positions = op.Reshape(op.Range(0, count, 1), shape, allowzero=1)
    taken = op.Slice(positions, *c.inputs[1:])
    flat = c.zeros(op.Unsqueeze(count, [0]), x)
    return op.Reshape(
        op.ScatterElements(flat, op.Reshape(taken, [-1]), op.Reshape(gy, [-1]), axis=0), shape, allowzero=1
    )


def _axes(c: Context) -> list[int] | None:
    """The axes cut, where the file fixes them."""
    axes = c.input(3)
    if axes is not None:
        fixed = c.constant(axes)
        return None if fixed is None else [int(a) for a in fixed]
    for operand in (c.operand(1), c.operand(2)):
        if operand.shape is not None and isinstance(operand.shape[0], int):
            return list(range(operand.shape[0]))
    return None


def _entry(c: Context, vector: ir.Value, i: int) -> Size:
    fixed = c.constant(vector)
    if fixed is not None:
        return [int(fixed[i])]
    return c.op.Cast(c.op.Gather(vector, [i], axis=0), to=ir.DataType.INT64.value)


def _from_front(c: Context, start: Size, dim: Size, spare: int | ir.Value) -> Size:
    """`start` counted from the front and clamped to [0, dim - spare]."""
    if isinstance(start, list) and isinstance(dim, list) and isinstance(spare, int):
        return [max(min(start[0] + dim[0] if start[0] < 0 else start[0], dim[0] - spare), 0)]
    if start == [0]:
        return start
    op = c.op
    if isinstance(start, list):
        counted = op.Add(dim, start) if start[0] < 0 else op.Min(dim, start)
    else:
        counted = op.Where(op.Less(start, 0), op.Add(start, dim), start)
    return op.Max(op.Min(counted, op.Sub(dim, spare)), [0])


def _sub(c: Context, a: Size, b: Size) -> Size:
    if isinstance(a, list) and isinstance(b, list):
        return [a[0] - b[0]]
    return a if b == [0] else c.op.Sub(a, b)


def _value(c: Context, size: Size) -> ir.Value:
    return c.op.constant(np.asarray(size, np.int64)) if isinstance(size, list) else size
