"""Normalisations without learned parameters: by a norm, by neighbouring channels, to zero mean and unit variance."""

from __future__ import annotations

import functools

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.axes import narrow, widen
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]

_END = 2**63 - 1
"""Slice end beyond every axis."""


@gradient("LpNormalization")
def lp_normalization(c: Context, gy: ir.Value) -> Values:
    """y = x/n, n the norm along `axis`: gx = (gy - d*sum(gy*y))/n, d = y for p = 2 and sign(x) for p = 1.

    0 where n is 0, where y is 0 and has no derivative. Source: ONNX LpNormalization-22.
    """
    operand = c.operand(0)
    x, y, g, axes = widen(c, operand), widen(c, c.output), widen(c, gy), [c.attr("axis", -1)]
    one = c.attr("p", 2) == 1
    norm = c.op.ReduceL1(x, axes, keepdims=1) if one else c.op.ReduceL2(x, axes, keepdims=1)
    zero = c.op.Equal(norm, 0.0)
    scale = c.op.Where(zero, 0.0, c.op.Reciprocal(c.op.Where(zero, 1.0, norm)))
    total = c.op.ReduceSum(c.op.Mul(g, y), axes, keepdims=1)
    rest = c.op.Sub(g, c.op.Mul(c.op.Sign(x) if one else y, total))
    return (narrow(c, c.op.Mul(rest, scale), operand),)


@gradient("LRN")
def lrn(c: Context, gy: ir.Value) -> Values:
    """y = x*s^-beta, s = bias + alpha/size * sum of x^2 over the `size` channels around; x [N, C, ...]:

    gx = gy*s^-beta - 2*alpha*beta/size * x * sum of gy*x*s^(-beta-1) over the mirrored window.
    Source: ONNX LRN-13; Krizhevsky et al. 2012, section 3.3.
    """
    operand, size = c.operand(0), c.attr("size")
    x, g = widen(c, operand), widen(c, gy)
    alpha, beta, bias = c.attr("alpha", 1e-4), c.attr("beta", 0.75), c.attr("bias", 1.0)
    before, after = (size - 1) // 2, size // 2
    s = c.op.Add(c.op.Mul(_window_sum(c, c.op.Mul(x, x), before, after), alpha / size), bias)
    scaled = c.op.Mul(g, c.op.Pow(s, np.asarray(-beta, c.dtype(x).numpy())))
    spread = _window_sum(c, c.op.Div(c.op.Mul(scaled, x), s), after, before)
    gx = c.op.Sub(scaled, c.op.Mul(c.op.Mul(x, 2 * alpha * beta / size), spread))
    return (narrow(c, gx, operand),)


def _window_sum(c: Context, v: ir.Value, before: int, after: int) -> ir.Value:
    """For every channel the sum over the channels from `before` ahead of it to `after` behind it."""
    if before + after == 0:
        return v
    padded = c.op.Pad(v, [before, after], None, [1])
    spans = [(k, k - before - after) for k in range(before + after + 1)]
    parts = [c.op.Slice(padded, [k], [end if end < 0 else _END], [1]) for k, end in spans]
    return functools.reduce(c.op.Add, parts)


@gradient("MeanVarianceNormalization")
def mean_variance_normalization(c: Context, gy: ir.Value) -> Values:
    """y = (x - m)/(s + 1e-9), s the standard deviation over `axes`:

    gx = (gy - mean(gy) - (x - m)*mean(gy*(x - m))/(s*(s + 1e-9)))/(s + 1e-9); the last term is 0 where s is 0.
    Source: ONNX MeanVarianceNormalization-13, function body.
    """
    operand, axes = c.operand(0), list(c.attr("axes", (0, 2, 3)))
    x, g = widen(c, operand), widen(c, gy)
    centred = c.op.Sub(x, c.op.ReduceMean(x, axes, keepdims=1))
    deviation = c.op.Sqrt(c.op.ReduceMean(c.op.Mul(centred, centred), axes, keepdims=1))
    scale = c.op.Add(deviation, 1e-9)
    moment = c.op.Div(c.op.ReduceMean(c.op.Mul(g, centred), axes, keepdims=1), scale)
    ratio = c.op.Div(moment, c.op.Where(c.op.Equal(deviation, 0.0), 1.0, deviation))
    rest = c.op.Sub(c.op.Sub(g, c.op.ReduceMean(g, axes, keepdims=1)), c.op.Mul(centred, ratio))
    return (narrow(c, c.op.Div(rest, scale), operand),)
