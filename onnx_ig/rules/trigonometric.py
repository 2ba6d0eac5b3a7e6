"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.gates import product, quotient
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("Sin")
def sin(c: Context, gy: ir.Value) -> Values:
    """gx = gy*cos(x). Source: ONNX Sin-22."""
    return (c.op.Mul(gy, c.op.Cos(c.operand(0))),)


@gradient("Cos")
def cos(c: Context, gy: ir.Value) -> Values:
    """gx = -gy*sin(x). Source: ONNX Cos-22."""
    return (c.op.Neg(c.op.Mul(gy, c.op.Sin(c.operand(0)))),)


@gradient("Tan")
def tan(c: Context, gy: ir.Value) -> Values:
    """gx = gy*(1 + y^2). Source: ONNX Tan-22."""
    return (c.op.Mul(gy, c.op.Add(c.op.Mul(c.output, c.output), 1.0)),)


@gradient("Asin")
def asin(c: Context, gy: ir.Value) -> Values:
    """gx = gy/sqrt(1 - x^2), infinite at |x| = 1 unless gy is 0. Source: ONNX Asin-22."""
    return (quotient(c, gy, c.op.Sqrt(_one_minus_square(c))),)


@gradient("Acos")
def acos(c: Context, gy: ir.Value) -> Values:
    """gx = -gy/sqrt(1 - x^2), infinite at |x| = 1 unless gy is 0. Source: ONNX Acos-22."""
    return (c.op.Neg(quotient(c, gy, c.op.Sqrt(_one_minus_square(c)))),)


@gradient("Atan")
def atan(c: Context, gy: ir.Value) -> Values:
    """gx = gy/(1 + x^2). Source: ONNX Atan-22."""
    x = c.operand(0)
    return (c.op.Div(gy, c.op.Add(c.op.Mul(x, x), 1.0)),)


@gradient("Sinh")
def sinh(c: Context, gy: ir.Value) -> Values:
    """gx = gy*cosh(x); 0 where gy is 0, also where cosh overflows. Source: ONNX Sinh-22."""
    return (product(c, gy, c.op.Cosh(c.operand(0))),)


@gradient("Cosh")
def cosh(c: Context, gy: ir.Value) -> Values:
    """gx = gy*sinh(x); 0 where gy is 0, also where sinh overflows. Source: ONNX Cosh-22."""
    return (product(c, gy, c.op.Sinh(c.operand(0))),)


@gradient("Asinh")
def asinh(c: Context, gy: ir.Value) -> Values:
    """gx = gy/sqrt(x^2 + 1). Source: ONNX Asinh-22."""
    x = c.operand(0)
    return (c.op.Div(gy, c.op.Sqrt(c.op.Add(c.op.Mul(x, x), 1.0))),)


@gradient("Acosh")
def acosh(c: Context, gy: ir.Value) -> Values:
    """gx = gy/sqrt(x^2 - 1), infinite at x = 1 unless gy is 0. Source: ONNX Acosh-22."""
    x = c.operand(0)
    square = c.op.Mul(c.op.Sub(x, 1.0), c.op.Add(x, 1.0))
    return (quotient(c, gy, c.op.Sqrt(square)),)


@gradient("Atanh")
def atanh(c: Context, gy: ir.Value) -> Values:
    """gx = gy/(1 - x^2), infinite at |x| = 1 unless gy is 0. Source: ONNX Atanh-22."""
    return (quotient(c, gy, _one_minus_square(c)),)


def _one_minus_square(c: Context) -> ir.Value:
    """1 - x^2 as (1 - x)(1 + x), exact to the last bit near |x| = 1."""
    x = c.operand(0)
    return c.op.Mul(c.op.Sub(1.0, x), c.op.Add(x, 1.0))
