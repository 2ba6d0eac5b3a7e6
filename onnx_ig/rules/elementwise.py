"""Arithmetic and elementary functions, element by element with broadcasting."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.gates import product, quotient
from onnx_ig.rules.registry import declare_zero, gradient
from onnx_ig.rules.signs import positive

Values = tuple[ir.Value | None, ...]


@gradient("Add", broadcasts=True)
def add(c: Context, gy: ir.Value) -> Values:
    """ga = gy, gb = gy. Source: ONNX Add-14."""
    return gy, gy


@gradient("Sub", broadcasts=True)
def sub(c: Context, gy: ir.Value) -> Values:
    """ga = gy, gb = -gy. Source: ONNX Sub-14."""
    return gy, c.op.Neg(gy) if c.wants(1) else None


@gradient("Mul", broadcasts=True)
def mul(c: Context, gy: ir.Value) -> Values:
    """ga = gy*b, gb = gy*a. Source: ONNX Mul-14."""
    a, b = c.operand(0), c.operand(1)
    return c.op.Mul(gy, b) if c.wants(0) else None, c.op.Mul(gy, a) if c.wants(1) else None


@gradient("Div", broadcasts=True)
def div(c: Context, gy: ir.Value) -> Values:
    """ga = gy/b, gb = -gy*a/b^2; 0 where gy is 0, also at b = 0. Source: ONNX Div-14."""
    a, b = c.operand(0), c.operand(1)
    fixed = c.constant(b)
    if not (positive(c, b) or (fixed is not None and fixed.all())):
        b = c.op.Where(c.op.Equal(gy, 0.0), 1.0, b)
    ga = c.op.Div(gy, b)
    return ga, c.op.Neg(c.op.Div(c.op.Mul(ga, a), b)) if c.wants(1) else None


@gradient("Sum", broadcasts=True)
def sum_(c: Context, gy: ir.Value) -> Values:
    """gx_i = gy. Source: ONNX Sum-13."""
    return (gy,) * len(c.inputs)


@gradient("Mean", broadcasts=True)
def mean(c: Context, gy: ir.Value) -> Values:
    """gx_i = gy/k, k operands. Source: ONNX Mean-13."""
    k = len(c.inputs)
    return ((gy if k == 1 else c.op.Div(gy, float(k))),) * k


@gradient("Neg")
def neg(c: Context, gy: ir.Value) -> Values:
    """gx = -gy. Source: ONNX Neg-13."""
    return (c.op.Neg(gy),)


@gradient("Abs")
def abs_(c: Context, gy: ir.Value) -> Values:
    """gx = gy*sign(x), 0 at x = 0. Source: ONNX Abs-13."""
    return (c.op.Mul(gy, c.op.Sign(c.operand(0))),)


@gradient("Reciprocal")
def reciprocal(c: Context, gy: ir.Value) -> Values:
    """gx = -gy*y^2; 0 where gy is 0, also at x = 0. Source: ONNX Reciprocal-13.

    Multiplied one by one: y^2 alone overflows in float16 from x = 0.004.
    """
    y = c.op.Where(c.op.Equal(gy, 0.0), 0.0, c.output)
    return (c.op.Neg(c.op.Mul(c.op.Mul(gy, y), y)),)


@gradient("Sqrt")
def sqrt(c: Context, gy: ir.Value) -> Values:
    """gx = gy/(2y), infinite at x = 0 unless gy is 0. Source: ONNX Sqrt-13."""
    return (_square_root(c, gy),)


def _square_root(c: Context, gy: ir.Value) -> ir.Value:
    twice = c.op.Mul(c.output, 2.0)
    return c.op.Div(gy, twice) if positive(c, c.operand(0)) else quotient(c, gy, twice)


@gradient("Exp")
def exp(c: Context, gy: ir.Value) -> Values:
    """gx = gy*y; 0 where gy is 0, also where y overflows. Source: ONNX Exp-13."""
    return (product(c, gy, c.output),)


@gradient("Log")
def log(c: Context, gy: ir.Value) -> Values:
    """gx = gy/x; 0 where gy is 0, also at x = 0. Source: ONNX Log-13."""
    return (quotient(c, gy, c.operand(0)),)


@gradient("Erf")
def erf(c: Context, gy: ir.Value) -> Values:
    """gx = gy*2/sqrt(pi)*exp(-x^2). Source: ONNX Erf-13."""
    x = c.operand(0)
    return (c.op.Mul(gy, c.op.Exp(c.op.Sub(math.log(2 / math.sqrt(math.pi)), c.op.Mul(x, x)))),)


@gradient("Pow", broadcasts=True)
def pow_(c: Context, gy: ir.Value) -> Values:
    """ga = gy*b*a^(b-1), 0 where b = 0; gb = gy*y*log(a), 0 where a <= 0. Source: ONNX Pow-15.

    a^b of a negative base exists at integer b only, so it has no derivative in b there; 0 stands for it, as in
    TensorFlow. Where gy is 0 both are 0, also at a = 0.
    """
    a, b = c.operand(0), c.operand(1)
    ga = _pow_base(c, gy, a, b) if c.wants(0) else None
    return ga, _pow_exponent(c, gy, a, b) if c.wants(1) else None


def _pow_base(c: Context, gy: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    fixed = c.constant(b)
    if fixed is not None and fixed.size == 1:
        power = float(fixed.reshape(()))
        if power == 0:
            return c.zeros_like(c.output)
        if power == 1:
            return gy
        if power == 2:
            return c.op.Mul(gy, c.op.Mul(a, 2.0))
        if power == 0.5:
            return _square_root(c, gy)
        derivative = c.op.Mul(c.op.Pow(a, np.asarray(power - 1, c.dtype(a).numpy())), power)
        return c.op.Mul(gy, derivative) if power > 1 else product(c, gy, derivative)
    exponent = b if b.dtype == a.dtype else c.op.Cast(b, to=c.dtype(a).value)
    lower = c.op.Sub(c.op.Where(c.op.Equal(exponent, 0.0), 1.0, exponent), 1.0)
    return product(c, gy, c.op.Mul(c.op.Pow(a, lower), exponent))


def _pow_exponent(c: Context, gy: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    inside = c.op.Greater(a, 0.0)
    slope = c.op.Mul(c.op.Where(inside, c.output, 0.0), c.op.Log(c.op.Where(inside, a, 1.0)))
    gb = product(c, gy, slope)
    return gb if b.dtype == gb.dtype else c.op.Cast(gb, to=c.dtype(b).value)


@gradient("Mod", broadcasts=True)
def mod(c: Context, gy: ir.Value) -> Values:
    """y = a - b*q, q = a/b rounded down or (fmod) towards 0: ga = gy, gb = -gy*q, between the jumps. Source: ONNX Mod-28.

    q is recovered from y, whatever the rounding; floats need fmod = 1 up to opset 27.
    """
    if not c.wants(1):
        return gy, None
    a, b = c.operand(0), c.operand(1)
    return gy, product(c, c.op.Neg(gy), c.op.Round(c.op.Div(c.op.Sub(a, c.output), b)))


declare_zero("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "And", "Or", "Xor", "IsNaN", "IsInf")
declare_zero("Floor", "Ceil", "Round", "Sign", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
