"""Where a cotangent passes: closed gates, and derivatives that are infinite or undefined at a point.

A forward graph may select away the branch that is singular (`Where(x > 0, Sqrt(x), 0)`): its cotangent is then 0, and
so must be the contribution, not 0*inf. So the singular factor is masked before it meets the cotangent.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context

__all__ = ["gate", "product", "quotient"]


def gate(c: Context, g: ir.Value, condition: ir.Value) -> ir.Value:
    """`g` where the boolean `condition` holds, else 0; the form is `c.lowering.relu_gate`."""
    if c.lowering.relu_gate == "where":
        return c.op.Where(condition, g, 0.0)
    return c.op.Mul(g, c.mask(condition, g))


def product(c: Context, g: ir.Value, derivative: ir.Value) -> ir.Value:
    """`g * derivative`, and 0 where `g` is 0 also if `derivative` is infinite or NaN there."""
    return c.op.Mul(g, c.op.Where(c.op.Equal(g, 0.0), 0.0, derivative))


def quotient(c: Context, g: ir.Value, divisor: ir.Value) -> ir.Value:
    """`g / divisor`, and 0 where `g` is 0 also if `divisor` is 0 or NaN there."""
    return c.op.Div(g, c.op.Where(c.op.Equal(g, 0.0), 1.0, divisor))
