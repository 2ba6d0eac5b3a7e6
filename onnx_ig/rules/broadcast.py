"""Undoing broadcasting: the adjoint of ONNX's multidirectional broadcast is a sum."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter

__all__ = ["same_dim", "sum_to_shape"]

Dim = int | ir.SymbolicDim


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are provably equal: the same number, or the same named symbol."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a.value is not None and a.value == b.value


def sum_to_shape(op: Emitter, g: ir.Value, broadcast: Iterable[Dim] | None, x: ir.Value) -> ir.Value:
    """Sum `g` over the axes along which `x` was broadcast.

    `broadcast` is the shape of `g` as far as it is known (None: not even its rank). Axes that are provably broadcast are
    summed by constant; where a symbol leaves it open the axes are compared at run time.
    Returns a value of the shape of `x`. Source: ONNX "Broadcasting in ONNX".
    """
    if broadcast is None or x.shape is None:
        return _sum_at_run_time(op, g, x)
    dims = list(broadcast)
    extra = len(dims) - len(x.shape)
    if extra < 0:  # a declared shape is wrong; the real ones decide
        return _sum_at_run_time(op, g, x)
    axes = list(range(extra))
    for axis, (big, small) in enumerate(zip(dims[extra:], x.shape, strict=True), start=extra):
        if same_dim(big, small) or big == 1:
            continue
        if small == 1:
            axes.append(axis)
        elif not isinstance(small, int):
            return _sum_at_run_time(op, g, x, extra)
    if len(axes) > extra:
        g = op.ReduceSum(g, axes, keepdims=1)
        return op.Squeeze(g, list(range(extra))) if extra else g
    return op.ReduceSum(g, axes, keepdims=0) if axes else g


def _sum_at_run_time(op: Emitter, g: ir.Value, x: ir.Value, extra: int | None = None) -> ir.Value:
    """Axes are compared at run time; `extra` is by how many ranks `g` exceeds `x`, None where that is not known."""
    shape_x, shape_g = op.Shape(x), op.Shape(g)
    aligned = shape_x
    if extra is None:
        missing = op.Sub(op.Shape(shape_g), op.Shape(shape_x))
        aligned = op.Concat(op.Expand([1], missing), shape_x, axis=0)
    elif extra:
        aligned = op.Concat([1] * extra, shape_x, axis=0)
    axes = op.Reshape(op.NonZero(op.Not(op.Equal(aligned, shape_g))), [-1])
    total = op.ReduceSum(g, axes, keepdims=1, noop_with_empty_axes=1)
    return total if extra == 0 else op.Reshape(total, shape_x, allowzero=1)
