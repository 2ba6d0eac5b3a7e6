"""Sets of axes: constant where the rank is known, else computed at run time; and sums that outgrow float16."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ig.rules.context import Context

__all__ = ["Axes", "channels", "count", "narrow", "others", "per_channel", "trailing", "widen"]

Axes = Sequence[int] | ir.Value

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def trailing(c: Context, x: ir.Value, first: int) -> Axes:
    """The axes from `first` to the last one of `x`."""
    if first < 0:
        return list(range(first, 0))
    rank = c.rank(x)
    return list(range(first, rank)) if rank is not None else c.op.Range(first, _rank(c, x), 1)


def others(c: Context, x: ir.Value) -> Axes:
    """All axes of `x` but axis 1."""
    rank = c.rank(x)
    if rank is not None:
        return [0, *range(2, rank)]
    return c.op.Concat([0], c.op.Range(2, _rank(c, x), 1), axis=0)


def per_channel(c: Context, v: ir.Value, x: ir.Value) -> ir.Value:
    """A vector [C] as [C, 1, ...], so that it broadcasts along axis 1 of `x` [N, C, ...]."""
    rank = c.rank(x)
    if rank is not None:
        return c.op.Unsqueeze(v, list(range(1, rank - 1))) if rank > 2 else v
    return c.op.Unsqueeze(v, c.op.Range(1, c.op.Sub(_rank(c, x), 1), 1))


def channels(c: Context, v: ir.Value, x: ir.Value, like: ir.Value) -> ir.Value:
    """`v`, of the shape of `x`, summed over all axes but 1, in the shape and type of the vector `like`."""
    total = c.op.ReduceSum(v, others(c, x), keepdims=0)
    if c.rank(x) in (None, 1):
        total = c.reshape_like(total, like)
    return narrow(c, total, like)


def count(c: Context, x: ir.Value, axes: Axes | None, reduced: ir.Value, dtype: ir.DataType) -> float | ir.Value:
    """How many elements of `x` make one of `reduced`, which is `x` reduced over `axes` (None: all)."""
    if x.shape is not None and not isinstance(axes, ir.Value):
        dims = [x.shape[a] for a in (range(len(x.shape)) if axes is None else axes)]
        if all(isinstance(d, int) for d in dims):
            product = 1.0
            for d in dims:
                product *= int(d)  # type: ignore[arg-type]
            return product
    size = c.op.Div(c.op.Size(x), c.op.Max(c.op.Size(reduced), 1))
    return c.op.Cast(size, to=dtype.value)


def widen(c: Context, v: ir.Value) -> ir.Value:
    """float16 and bfloat16 as float32, where sums and counts are exact enough and do not overflow."""
    return c.op.Cast(v, to=ir.DataType.FLOAT.value) if c.dtype(v) in _HALF else v


def narrow(c: Context, v: ir.Value, like: ir.Value) -> ir.Value:
    """`v` in the type of `like`."""
    return v if v.dtype == like.dtype else c.op.Cast(v, to=c.dtype(like).value)


def _rank(c: Context, x: ir.Value) -> ir.Value:
    return c.op.Size(c.op.Shape(x))
