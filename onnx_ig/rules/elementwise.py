"""Arithmetic and elementary functions, element by element with broadcasting."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import declare_zero, gradient

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


@gradient("Exp")
def exp(c: Context, gy: ir.Value) -> Values:
    """gx = gy*y. Source: ONNX Exp-13."""
    return (c.op.Mul(gy, c.output),)


declare_zero("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "And", "Or", "Xor", "IsNaN", "IsInf")
