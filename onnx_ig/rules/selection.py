"""Operators that pick one of several values element by element: Where, Max, Min, Clip."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.blocked import open_gate
from onnx_ig.rules.context import Context
from onnx_ig.rules.gates import gate
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("Where", broadcasts=True)
def where(c: Context, gy: ir.Value) -> Values:
    """ga = gy where the condition holds, else 0; gb the other way round. Source: ONNX Where-16."""
    condition = c.operand(0)
    return (
        None,
        c.op.Where(condition, gy, 0.0) if c.wants(1) else None,
        c.op.Where(condition, 0.0, gy) if c.wants(2) else None,
    )


@gradient("Max", "Min", broadcasts=True)
def max_(c: Context, gy: ir.Value) -> Values:
    """gx_i = gy*[x_i = y]/k, k the number of operands that attain y: ties split evenly. Source: ONNX Max-13, Min-13."""
    if len(c.inputs) == 1:
        return (gy,)
    if len(c.inputs) == 2:
        return _better_of_two(c, gy)
    chosen = [c.mask(c.op.Equal(c.operand(i), c.output), gy) for i in range(len(c.inputs))]
    share = c.op.Div(gy, c.op.Max(c.op.Sum(*chosen), 1.0))  # NaN equals nothing
    return tuple(c.op.Mul(share, mask) if c.wants(i) else None for i, mask in enumerate(chosen))


def _better_of_two(c: Context, gy: ir.Value) -> Values:
    """As above in fewer passes: the share of the first is 1, 1/2 or 0, that of the second the rest."""
    low, high = (1, 0) if c.node.op_type == "Max" else (0, 1)
    one, half, none = (np.asarray(v, c.dtype(gy).numpy()) for v in (1, 0.5, 0))
    tie = c.op.Where(c.op.Equal(c.operand(0), c.operand(1)), half, none)
    share = c.op.Where(c.op.Greater(c.operand(high), c.operand(low)), one, tie)
    return (
        c.op.Mul(gy, share) if c.wants(0) else None,
        c.op.Mul(gy, c.op.Sub(1.0, share)) if c.wants(1) else None,
    )


@gradient("Clip", broadcasts=True)
def clip(c: Context, gy: ir.Value) -> Values:
    """gx = gy where min < y < max, else 0; gmin = gy where y = min, gmax = gy where y = max. Source: ONNX Clip-13.

    The bounds themselves count as clipped (ReLU6 as Clip agrees with Relu); PyTorch's clamp passes there. The gate is
    read from the output, which the runtime keeps when it fuses Conv and Clip. Where min >= max everything is max.
    """
    y, low, high = c.output, c.input(1), c.input(2)
    blocked = _blocked(c, low, high)
    if blocked is not None:
        return (c.op.Mul(gy, blocked), *(None,) * (len(c.inputs) - 1))
    above = None if low is None else c.op.Greater(y, low)
    below = None if high is None else c.op.Less(y, high)
    inside = above or below if above is None or below is None else c.op.And(above, below)
    gx = (gy if inside is None else gate(c, gy, inside)) if c.wants(0) else None
    glow = ghigh = None
    if low is not None and c.wants(1):
        clipped = c.op.LessOrEqual(y, low)
        glow = gate(c, gy, clipped if below is None else c.op.And(clipped, below))
    if high is not None and c.wants(2):
        ghigh = gate(c, gy, c.op.GreaterOrEqual(y, high))
    return (gx, glow, ghigh)[: len(c.inputs)]


def _blocked(c: Context, low: ir.Value | None, high: ir.Value | None) -> ir.Value | None:
    """The gate of a clip between 0 and a positive constant (ReLU6) in the blocked form; None where that does not apply."""
    bottom, top = c.constant(low), c.constant(high)
    if bottom is None or top is None or float(bottom) != 0 or not float(top) > 0 or c.wants(1) or c.wants(2):
        return None
    return open_gate(c, float(top))
