"""Cumulative sums and products along one axis, which may be computed at run time."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("CumSum")
def cumsum(c: Context, gy: ir.Value) -> Values:
    """gx = the cumulative sum of gy in the other direction, as exclusive as the forward's. Source: ONNX CumSum-14."""
    return _backward_sum(c, gy), None


@gradient("CumProd")
def cumprod(c: Context, gy: ir.Value) -> Values:
    """gx_j = sum over the products y_i that x_j takes part in, of gy_i * y_i/x_j. Source: ONNX CumProd-26.

    Exact with zeros: let p be the cumulative product of the elements that are not 0 and z the number of zeros in it.
    An x_j other than 0 gets sum(gy_i*p_i over z_i = 0)/x_j. The first 0 on the way gets sum(gy_i*p_i over z_i = 1);
    products behind a second one do not change with either.
    """
    x, axis, exclusive, reverse = c.operand(0), c.operand(1), c.attr("exclusive", 0), c.attr("reverse", 0)
    zero = c.op.Equal(x, 0.0)
    nonzero = c.op.Where(zero, 1.0, x)
    p = c.op.CumProd(nonzero, axis, exclusive=exclusive, reverse=reverse)
    ones = c.mask(zero, x)
    z = c.op.CumSum(ones, axis, exclusive=exclusive, reverse=reverse)
    first = c.op.Equal(c.op.CumSum(ones, axis, exclusive=1, reverse=reverse), 0.0)
    g = c.op.Mul(gy, p)
    at_others = c.op.Div(_backward_sum(c, c.op.Where(c.op.Equal(z, 0.0), g, 0.0)), nonzero)
    at_zero = c.op.Where(first, _backward_sum(c, c.op.Where(c.op.Equal(z, 1.0), g, 0.0)), 0.0)
    return c.op.Where(zero, at_zero, at_others), None


def _backward_sum(c: Context, g: ir.Value) -> ir.Value:
    """The adjoint of the node's cumulative sum."""
    result: ir.Value = c.op.CumSum(g, c.operand(1), exclusive=c.attr("exclusive", 0), reverse=1 - c.attr("reverse", 0))
    return result
