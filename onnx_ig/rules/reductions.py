"""Reduce operators. Notation: a slice is what makes one element of y; sums and counts run over one slice.

The axes may be constant, computed at run time, or empty (all axes, or none with noop_with_empty_axes).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.axes import count, narrow, widen
from onnx_ig.rules.context import Context
from onnx_ig.rules.gates import product
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


class _Slices:
    """The slices of one Reduce node."""

    def __init__(self, c: Context):
        self._c = c
        self.x = c.operand(0)
        given = c.input(1)
        fixed = c.constant(given)
        axes = given if fixed is None else [int(a) for a in fixed.reshape(-1)]
        self.noop = bool(c.attr("noop_with_empty_axes", 0))
        self.axes: list[int] | ir.Value | None = axes if isinstance(axes, ir.Value) else axes or None

    def keep(self, reduced: ir.Value) -> ir.Value:
        """A value of the shape of y as one that broadcasts to the shape of x."""
        if self._c.attr("keepdims", 1) or self.axes is None:
            return reduced  # without axes y is 0-D or has the shape of x
        return self._c.op.Unsqueeze(reduced, self.axes)

    def spread(self, reduced: ir.Value) -> ir.Value:
        """A value of the shape of y in the shape of x."""
        if self.axes is None and self.noop:
            return reduced
        shape = self._c.static_shape(self.x)
        return self._c.op.Expand(self.keep(reduced), self._c.op.Shape(self.x) if shape is None else list(shape))

    def reduce(self, operator: str, v: ir.Value) -> ir.Value:
        """`v`, of the shape of x, reduced over the same axes, which stay with length 1."""
        attributes = {"keepdims": 1, "noop_with_empty_axes": int(self.noop)}
        result: ir.Value = self._c.op.node(operator, (v, self.axes), attributes)
        return result

    def count(self, y: ir.Value) -> float | ir.Value:
        """Elements in a slice, in the type that `widen` gives."""
        if self.axes is None and self.noop:
            return 1.0
        dtype = widen(self._c, y).dtype
        assert dtype is not None
        return count(self._c, self.x, self.axes, y, dtype)


@gradient("ReduceSum")
def reduce_sum(c: Context, gy: ir.Value) -> Values:
    """gx = gy for every element of the slice. Source: ONNX ReduceSum-13."""
    return (_Slices(c).spread(gy),)


@gradient("ReduceMean")
def reduce_mean(c: Context, gy: ir.Value) -> Values:
    """gx = gy/n, n elements in the slice. Source: ONNX ReduceMean-18."""
    slices = _Slices(c)
    n = slices.count(c.output)
    if n != 1.0:
        gy = narrow(c, c.op.Div(widen(c, gy), n), gy)
    return (slices.spread(gy),)


@gradient("ReduceMax", "ReduceMin")
def reduce_max(c: Context, gy: ir.Value) -> Values:
    """gx = gy*[x = y]/k, k elements of the slice that attain y: ties split evenly. Source: ONNX ReduceMax-20."""
    slices = _Slices(c)
    chosen = c.op.Equal(slices.x, slices.keep(c.output))
    ties = slices.reduce("ReduceSum", widen(c, c.mask(chosen, gy)))
    share = c.op.Div(widen(c, slices.keep(gy)), c.op.Max(ties, 1.0))  # NaN equals nothing
    return (c.op.Mul(narrow(c, share, gy), c.mask(chosen, gy)),)


@gradient("ReduceL1")
def reduce_l1(c: Context, gy: ir.Value) -> Values:
    """gx = gy*sign(x), 0 at x = 0. Source: ONNX ReduceL1-18."""
    slices = _Slices(c)
    return (c.op.Mul(slices.keep(gy), c.op.Sign(slices.x)),)


@gradient("ReduceL2")
def reduce_l2(c: Context, gy: ir.Value) -> Values:
    """gx = gy*x/y, 0 where the whole slice is 0. Source: ONNX ReduceL2-18."""
    slices = _Slices(c)
    norm = slices.keep(c.output)
    direction = c.op.Div(slices.x, c.op.Where(c.op.Equal(norm, 0.0), 1.0, norm))
    return (c.op.Mul(slices.keep(gy), direction),)


@gradient("ReduceSumSquare")
def reduce_sum_square(c: Context, gy: ir.Value) -> Values:
    """gx = 2*gy*x. Source: ONNX ReduceSumSquare-18."""
    slices = _Slices(c)
    return (c.op.Mul(slices.keep(c.op.Mul(gy, 2.0)), slices.x),)


@gradient("ReduceLogSum")
def reduce_log_sum(c: Context, gy: ir.Value) -> Values:
    """gx = gy/sum(x) = gy*exp(-y). Source: ONNX ReduceLogSum-18."""
    return (_Slices(c).spread(product(c, gy, c.op.Exp(c.op.Neg(c.output)))),)


@gradient("ReduceLogSumExp")
def reduce_log_sum_exp(c: Context, gy: ir.Value) -> Values:
    """gx = gy*exp(x - y), 0 where the whole slice is -inf. Source: ONNX ReduceLogSumExp-18."""
    slices = _Slices(c)
    empty = c.op.Equal(c.output, np.asarray(-math.inf, c.dtype(c.output).numpy()))
    weights = c.op.Exp(c.op.Sub(slices.x, slices.keep(c.op.Where(empty, 0.0, c.output))))
    return (c.op.Mul(slices.keep(gy), weights),)


@gradient("ReduceProd")
def reduce_prod(c: Context, gy: ir.Value) -> Values:
    """gx_i = gy * product of the other x_j. Source: ONNX ReduceProd-18.

    With p the product of the elements that are not 0: p/x_i where the slice has no 0; p at the 0 where it has one;
    else 0.
    """
    slices = _Slices(c)
    zero = c.op.Equal(slices.x, 0.0)
    nonzero = c.op.Where(zero, 1.0, slices.x)
    zeros = c.mask(zero, widen(c, gy))
    alone = c.op.Equal(slices.reduce("ReduceSum", zeros), zeros)
    rest = c.op.Div(slices.reduce("ReduceProd", nonzero), nonzero)
    return (c.op.Mul(slices.keep(gy), c.op.Where(alone, rest, 0.0)),)
