"""Activation functions: one operand (PRelu: and a slope), element by element."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.blocked import open_gate
from onnx_ig.rules.context import Context
from onnx_ig.rules.gates import gate
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("Relu")
def relu(c: Context, gy: ir.Value) -> Values:
    """gx = gy where y > 0, else 0: read from the output, so that Conv and Relu still fuse. Source: ONNX Relu-14."""
    blocked = open_gate(c)
    return (gate(c, gy, c.op.Greater(c.output, 0.0)) if blocked is None else c.op.Mul(gy, blocked),)


@gradient("LeakyRelu")
def leaky_relu(c: Context, gy: ir.Value) -> Values:
    """gx = gy where x > 0, else alpha*gy (at 0 too, as in PyTorch). Source: ONNX LeakyRelu-16."""
    positive = c.op.Greater(c.operand(0), 0.0)
    return (_slopes(c, gy, positive, c.attr("alpha", 0.01)),)


@gradient("PRelu", broadcasts=True)
def prelu(c: Context, gy: ir.Value) -> Values:
    """gx = gy where x > 0, else slope*gy; gslope = gy*min(x, 0). Source: ONNX PRelu-16."""
    x, slope = c.operand(0), c.operand(1)
    gx = c.op.Mul(gy, c.op.Where(c.op.Greater(x, 0.0), 1.0, slope)) if c.wants(0) else None
    return gx, c.op.Mul(gy, c.op.Min(x, 0.0)) if c.wants(1) else None


@gradient("Elu")
def elu(c: Context, gy: ir.Value) -> Values:
    """gx = gy where x > 0, else gy*alpha*exp(x). Source: ONNX Elu-22."""
    x = c.operand(0)
    return (c.op.Mul(gy, _exponential_tail(c, x, x, c.attr("alpha", 1.0))),)


@gradient("Selu")
def selu(c: Context, gy: ir.Value) -> Values:
    """gx = gamma*gy where x > 0, else gy*gamma*alpha*exp(x). Source: ONNX Selu-22; Klambauer et al. 2017."""
    x = c.operand(0)
    alpha, gamma = c.attr("alpha", 1.67326319217681884765625), c.attr("gamma", 1.05070102214813232421875)
    return (c.op.Mul(c.op.Mul(gy, _exponential_tail(c, x, x, alpha)), gamma),)


@gradient("Celu")
def celu(c: Context, gy: ir.Value) -> Values:
    """gx = gy where x > 0, else gy*exp(x/alpha). Source: ONNX Celu-12; Barron 2017."""
    x, alpha = c.operand(0), c.attr("alpha", 1.0)
    return (c.op.Mul(gy, _exponential_tail(c, x, x if alpha == 1 else c.op.Div(x, alpha), 1.0)),)


@gradient("Gelu")
def gelu(c: Context, gy: ir.Value) -> Values:
    """gx = gy*(P(x) + x*p(x)), P and p the normal distribution and density, or of their tanh approximation.

    Source: ONNX Gelu-20; Hendrycks & Gimpel 2016.
    """
    x = c.operand(0)
    slope = _gelu_tanh(c, x) if c.attr("approximate", "none") == "tanh" else _gelu_erf(c, x)
    return (c.op.Mul(gy, slope),)


def _gelu_erf(c: Context, x: ir.Value) -> ir.Value:
    """erf(s)/2 + s*exp(-s^2)/sqrt(pi) + 1/2 with s = x/sqrt(2)."""
    s = c.op.Mul(x, math.sqrt(0.5))
    density = c.op.Exp(c.op.Sub(-0.5 * math.log(math.pi), c.op.Mul(s, s)))
    return c.op.Add(c.op.Add(c.op.Mul(c.op.Erf(s), 0.5), c.op.Mul(s, density)), 0.5)


def _gelu_tanh(c: Context, x: ir.Value) -> ir.Value:
    """(1 + t)/2 + x*(1 - t^2)/2 * du/dx with t = tanh(u), u = sqrt(2/pi)*(x + 0.044715*x^3).

    From |x| = 20 on the slope is 0 or 1 to the last bit in float64; clipping keeps x^3 from overflowing.
    """
    k, cubic = math.sqrt(2 / math.pi), 0.044715
    x = c.op.Clip(x, np.asarray(-20, c.dtype(x).numpy()), np.asarray(20, c.dtype(x).numpy()))
    square = c.op.Mul(x, x)
    t = c.op.Tanh(c.op.Mul(x, c.op.Add(c.op.Mul(square, k * cubic), k)))
    inner = c.op.Mul(x, c.op.Add(c.op.Mul(square, 1.5 * k * cubic), 0.5 * k))
    tail = c.op.Mul(inner, c.op.Sub(1.0, c.op.Mul(t, t)))
    return c.op.Add(c.op.Add(c.op.Mul(t, 0.5), tail), 0.5)


@gradient("HardSigmoid")
def hard_sigmoid(c: Context, gy: ir.Value) -> Values:
    """gx = alpha*gy where 0 < y < 1, else 0 (at both bounds, as in PyTorch). Source: ONNX HardSigmoid-22."""
    inside = c.op.And(c.op.Greater(c.output, 0.0), c.op.Less(c.output, 1.0))
    return (gate(c, c.op.Mul(gy, c.attr("alpha", 0.2)), inside),)


@gradient("HardSwish")
def hard_swish(c: Context, gy: ir.Value) -> Values:
    """gx = 0 where x <= -3, gy where x >= 3, gy*(x/3 + 1/2) between, as in PyTorch. Source: ONNX HardSwish-22."""
    x = c.operand(0)
    slope = c.op.Add(c.op.Div(x, 3.0), 0.5)
    slope = c.op.Where(c.op.Less(x, 3.0), slope, 1.0)
    return (c.op.Mul(gy, c.op.Where(c.op.Greater(x, -3.0), slope, 0.0)),)


@gradient("Softplus")
def softplus(c: Context, gy: ir.Value) -> Values:
    """gx = gy*sigmoid(x). Source: ONNX Softplus-22."""
    return (c.op.Mul(gy, c.op.Sigmoid(c.operand(0))),)


@gradient("Sigmoid")
def sigmoid(c: Context, gy: ir.Value) -> Values:
    """gx = gy*y*(1 - y). Source: ONNX Sigmoid-13."""
    return (c.op.Mul(c.op.Mul(gy, c.output), c.op.Sub(1.0, c.output)),)


@gradient("Tanh")
def tanh(c: Context, gy: ir.Value) -> Values:
    """gx = gy*(1 - y^2). Source: ONNX Tanh-13."""
    return (c.op.Mul(gy, c.op.Sub(1.0, c.op.Mul(c.output, c.output))),)


@gradient("Softsign")
def softsign(c: Context, gy: ir.Value) -> Values:
    """gx = gy/(1 + |x|)^2. Source: ONNX Softsign-22."""
    scale = c.op.Add(c.op.Abs(c.operand(0)), 1.0)
    return (c.op.Div(c.op.Div(gy, scale), scale),)


@gradient("Mish")
def mish(c: Context, gy: ir.Value) -> Values:
    """gx = gy*(t + x*(1 - t^2)*sigmoid(x)), t = tanh(softplus(x)). Source: ONNX Mish-22; Misra 2019."""
    x = c.operand(0)
    t = c.op.Tanh(c.op.Softplus(x))
    tail = c.op.Mul(c.op.Mul(x, c.op.Sub(1.0, c.op.Mul(t, t))), c.op.Sigmoid(x))
    return (c.op.Mul(gy, c.op.Add(t, tail)),)


@gradient("Swish")
def swish(c: Context, gy: ir.Value) -> Values:
    """gx = gy*(s + alpha*y*(1 - s)), s = sigmoid(alpha*x). Source: ONNX Swish-24; Ramachandran et al. 2017."""
    return (c.op.Mul(gy, _swish_slope(c, c.operand(0), c.output, c.attr("alpha", 1.0))),)


@gradient("SwiGLU")
def swiglu(c: Context, gy: ir.Value) -> Values:
    """y = swish(a)*b: ga = gy*b*swish'(a), gb = gy*swish(a). Source: ONNX SwiGLU-28; Shazeer 2020."""
    a, b, alpha = c.operand(0), c.operand(1), c.attr("alpha", 1.0)
    swished = c.op.Mul(a, c.op.Sigmoid(_scaled(c, a, alpha)))
    ga = c.op.Mul(c.op.Mul(gy, b), _swish_slope(c, a, swished, alpha)) if c.wants(0) else None
    return ga, c.op.Mul(gy, swished) if c.wants(1) else None


@gradient("ThresholdedRelu")
def thresholded_relu(c: Context, gy: ir.Value) -> Values:
    """gx = gy where x > alpha, else 0. Source: ONNX ThresholdedRelu-22."""
    return (gate(c, gy, c.op.Greater(c.operand(0), c.attr("alpha", 1.0))),)


@gradient("Shrink")
def shrink(c: Context, gy: ir.Value) -> Values:
    """gx = gy where |x| > lambd, else 0; the bias shifts only. Source: ONNX Shrink-9."""
    return (gate(c, gy, c.op.Greater(c.op.Abs(c.operand(0)), c.attr("lambd", 0.5))),)


def _slopes(c: Context, g: ir.Value, condition: ir.Value, otherwise: float) -> ir.Value:
    """`g` where the condition holds, else `g` times a number."""
    one, other = (np.asarray(v, c.dtype(g).numpy()) for v in (1, otherwise))
    return c.op.Mul(g, c.op.Where(condition, one, other))


def _exponential_tail(c: Context, x: ir.Value, exponent: ir.Value, scale: float) -> ir.Value:
    """1 where x > 0, else scale*exp(exponent); the exponent is held at 0 beyond, where it would overflow."""
    tail = c.op.Exp(c.op.Where(c.op.Greater(x, 0.0), 0.0, exponent))
    if scale == 1:
        return tail
    return c.op.Where(c.op.Greater(x, 0.0), 1.0, c.op.Mul(tail, scale))


def _scaled(c: Context, x: ir.Value, scale: float) -> ir.Value:
    return x if scale == 1 else c.op.Mul(x, scale)


def _swish_slope(c: Context, x: ir.Value, swished: ir.Value, alpha: float) -> ir.Value:
    s = c.op.Sigmoid(_scaled(c, x, alpha))
    return c.op.Add(s, c.op.Mul(_scaled(c, swished, alpha), c.op.Sub(1.0, s)))
