"""DeepLIFT, Rescale rule: multipliers from the differences between two forward passes, input and reference.

Source: Shrikumar, Greenside, Kundaje: Learning Important Features Through Propagating Activation Differences, 2017.
Every rule here is exact: the multipliers m of its operands satisfy sum(m * (x - x_ref)) = sum(gy * (y - y_ref)), so that
attributions are complete. Operators that are linear in what moves keep the gradient's rule; what is neither linear nor
has a rule here is refused, because a plain gradient would break completeness in silence.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import GRADIENT, RuleSet

__all__ = ["DEEPLIFT"]

Values = tuple[ir.Value | None, ...]

LINEAR = frozenset({
    "Add", "Sub", "Neg", "Sum", "Mean", "Identity", "Cast", "CastLike", "Dropout", "Reshape", "Flatten",
    "Transpose", "Squeeze", "Unsqueeze", "Expand", "Concat", "Split", "Slice", "Pad", "Tile", "DepthToSpace",
    "SpaceToDepth", "Gather", "GatherElements", "GatherND", "Resize", "Upsample", "ReduceSum", "ReduceMean",
    "AveragePool", "GlobalAveragePool", "BatchNormalization", "CumSum", "Trilu", "ReverseSequence",
    "CenterCropPad", "Col2Im", "DFT", "STFT", "EyeLike",
})  # fmt: skip

DEEPLIFT = RuleSet("deeplift", parent=GRADIENT, compares=True, inherits=LINEAR)


def moves(c: Context, value: ir.Value | None) -> bool:
    """Whether a value differs between the two passes."""
    return value is not None and c.reference(value) is not value


def close(c: Context, difference: ir.Value, x: ir.Value) -> ir.Value:
    """Where a difference is too small to divide by: there the derivative at the input stands for the ratio."""
    tiny = 1e-13 if x.dtype == ir.DataType.DOUBLE else 1e-7
    limit = c.op.Add(c.op.Mul(c.op.Abs(x), 8 * tiny), tiny)
    return c.op.LessOrEqual(c.op.Abs(difference), limit)


def ratio(c: Context, rise: ir.Value, run: ir.Value, x: ir.Value, derivative: ir.Value) -> ir.Value:
    """rise / run, and `derivative` where run is too small."""
    small = close(c, run, x)
    return c.op.Where(small, derivative, c.op.Div(rise, c.op.Where(small, 1.0, run)))


def _gradient(c: Context, *cotangents: ir.Value | None) -> list[ir.Value | None]:
    rule = GRADIENT.find(c.node.domain, c.node.op_type)
    assert rule is not None
    return list(rule.function(c, *cotangents))


@DEEPLIFT.rule(
    "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSigmoid",
    "HardSwish", "Mish", "Swish", "ThresholdedRelu", "Shrink", "Exp", "Log", "Sqrt", "Reciprocal", "Abs", "Erf", "Sin",
    "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "PRelu", "Clip", "Pow",
    broadcasts=True,
)  # fmt: skip
def rescale(c: Context, gy: ir.Value) -> Values:
    """m = gy * (y - y_ref) / (x - x_ref), the derivative where x = x_ref. Source: the paper, section 3.5.1."""
    x, y = c.operand(0), c.output
    if any(moves(c, v) for v in c.inputs[1:]):
        raise c.refuse("its parameters depend on the input", "Use integrated gradients.")
    rise, run = c.op.Sub(y, c.reference(y)), c.op.Sub(x, c.reference(x))
    slope = _gradient(c, gy)[0]
    assert slope is not None
    small = close(c, run, x)
    secant = c.op.Mul(gy, c.op.Div(rise, c.op.Where(small, 1.0, run)))
    return (c.op.Where(small, slope, secant), *(None,) * (len(c.inputs) - 1))


def _averaged(c: Context) -> Context:
    """The node with every moving operand at the middle of the two passes: exact for products of two."""
    return c.with_inputs(
        [c.op.Mul(c.op.Add(v, c.reference(v)), 0.5) if v is not None and moves(c, v) else v for v in c.inputs]
    )


@DEEPLIFT.rule("Mul", broadcasts=True)
def mul(c: Context, gy: ir.Value) -> Values:
    """m_a = gy * (b + b_ref)/2 and the reverse: both orders of moving the operands, averaged.

    Source: delta(a*b) = delta(a)*(b + b_ref)/2 + delta(b)*(a + a_ref)/2.
    """
    return tuple(_gradient(_averaged(c), gy))


@DEEPLIFT.rule("MatMul", "Gemm", "Conv", "ConvTranspose")
def product(c: Context, gy: ir.Value) -> Values:
    """As Mul, for every bilinear operator: the gradient with the other operand at the middle of the two passes."""
    return tuple(_gradient(_averaged(c), gy))


@DEEPLIFT.rule("Einsum")
def einsum(c: Context, gy: ir.Value) -> Values:
    """As Mul where at most two operands move. Source: as `mul`."""
    if sum(moves(c, v) for v in c.inputs) > 2:
        raise c.refuse("more than two of its operands depend on the input", "Use integrated gradients.")
    return tuple(_gradient(_averaged(c), gy))


@DEEPLIFT.rule("Div", broadcasts=True)
def div(c: Context, gy: ir.Value) -> Values:
    """a * (1/b): m_a = gy*(1/b + 1/b_ref)/2, m_b = -gy*(a + a_ref)/2 / (b*b_ref). Source: `mul` and `rescale`."""
    a, b = c.operand(0), c.operand(1)
    ra, rb = c.reference(a), c.reference(b)
    half = c.op.Mul(gy, 0.5)
    ga = c.op.Add(c.op.Div(half, b), c.op.Div(half, rb)) if c.wants(0) else None
    gb = c.op.Neg(c.op.Div(c.op.Mul(half, c.op.Add(a, ra)), c.op.Mul(b, rb))) if c.wants(1) else None
    return ga, gb


@DEEPLIFT.rule("Where", broadcasts=True)
def where(c: Context, gy: ir.Value) -> Values:
    """The gradient's rule, where both passes choose alike. Source: ONNX Where-16."""
    if moves(c, c.operand(0)):
        raise c.refuse(
            "its condition depends on the input, so that the two passes may choose differently",
            "Use integrated gradients.",
        )
    return tuple(_gradient(c, gy))


@DEEPLIFT.rule("MaxPool", "GlobalMaxPool", "ReduceMax")
def maximum(c: Context, gy: ir.Value, *rest: ir.Value | None) -> Values:
    """A rise of the maximum is due to the input's largest entry, a fall to the reference's; overlapping windows add up.

    With z = max(y, y_ref): contribution = route(gy*(z - y_ref)) at the input + route(gy*(y - z)) at the reference, where
    route is the gradient's; m = contribution / (x - x_ref). Source: the paper's released implementation, with windows
    accumulated.
    """
    x, y = c.operand(0), c.output
    rx, ry = c.reference(x), c.reference(y)
    top = c.op.Max(y, ry)
    up = _gradient(c, c.op.Mul(gy, c.op.Sub(top, ry)))[0]
    down = _gradient(c.on_reference(), c.op.Mul(gy, c.op.Sub(y, top)))[0]
    slope = _gradient(c, gy)[0]
    assert up is not None
    assert down is not None
    assert slope is not None
    m = ratio(c, c.op.Add(up, down), c.op.Sub(x, rx), x, slope)
    return (m, *(None,) * (len(c.inputs) - 1))


@DEEPLIFT.rule("Softmax")
def softmax(c: Context, gy: ir.Value) -> Values:
    """y_j = e_j/s with e = exp(x - k), s = sum(e): the rules of exp and of a quotient, exact for every row.

    k is the larger of the two rows' maxima. Source: `rescale` and `div`, ONNX Softmax-13.
    """
    axis = [c.attr("axis", -1)]
    e, r, slope = _exponentials(c, axis)
    s, rs = c.op.ReduceSum(e, axis, keepdims=1), c.op.ReduceSum(r, axis, keepdims=1)
    half = c.op.Mul(gy, 0.5)
    to_e = c.op.Add(c.op.Div(half, s), c.op.Div(half, rs))
    mixed = c.op.ReduceSum(c.op.Mul(half, c.op.Add(e, r)), axis, keepdims=1)
    return (c.op.Mul(c.op.Sub(to_e, c.op.Div(mixed, c.op.Mul(s, rs))), slope),)


@DEEPLIFT.rule("LogSoftmax")
def log_softmax(c: Context, gy: ir.Value) -> Values:
    """y_j = (x_j - k) - log(s): the rules of exp and log, exact for every row. Source: `softmax`."""
    axis = [c.attr("axis", -1)]
    e, r, slope = _exponentials(c, axis)
    s, rs = c.op.ReduceSum(e, axis, keepdims=1), c.op.ReduceSum(r, axis, keepdims=1)
    log_slope = ratio(c, c.op.Sub(c.op.Log(s), c.op.Log(rs)), c.op.Sub(s, rs), s, c.op.Reciprocal(s))
    total = c.op.ReduceSum(gy, axis, keepdims=1)
    return (c.op.Sub(gy, c.op.Mul(c.op.Mul(total, log_slope), slope)),)


def _exponentials(c: Context, axis: list[int]) -> tuple[ir.Value, ir.Value, ir.Value]:
    """exp(x - k), exp(x_ref - k), and the multiplier of the one by x."""
    x = c.operand(0)
    rx = c.reference(x)
    k = c.op.ReduceMax(c.op.Max(x, rx), axis, keepdims=1)
    e, r = c.op.Exp(c.op.Sub(x, k)), c.op.Exp(c.op.Sub(rx, k))
    return e, r, ratio(c, c.op.Sub(e, r), c.op.Sub(x, rx), x, e)


@DEEPLIFT.rule("LayerNormalization")
def layer_normalization(c: Context, gy: ir.Value, *rest: ir.Value | None) -> Values:
    """y = gamma*u*v + beta, u = x - mean(x), v = (mean(u^2) + eps)^(-1/2): the rules of products and of a power.

    Source: `mul`, `rescale`, ONNX LayerNormalization-17.
    """
    if any(moves(c, v) for v in c.inputs[1:]) or any(g is not None for g in rest):
        raise c.refuse("its scale, or its mean or deviation outputs, are on the path", "Use integrated gradients.")
    x = c.operand(0)
    rank = c.rank(x)
    axis = c.attr("axis", -1)
    if rank is None and axis >= 0:
        raise c.refuse("the rank of its input is not known")
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis - (rank or 0), 0))
    op, eps = c.op, c.attr("epsilon", 1e-5)
    u, v, var = _normalised(c, x, axes, eps)
    ru, rv, rvar = _normalised(c, c.reference(x), axes, eps)
    g = op.Mul(gy, c.operand(1))
    to_u = op.Mul(g, op.Mul(op.Add(v, rv), 0.5))
    to_v = op.ReduceSum(op.Mul(g, op.Mul(op.Add(u, ru), 0.5)), axes, keepdims=1)
    cube = op.Mul(op.Mul(op.Mul(v, v), v), -0.5)
    to_var = op.Mul(to_v, ratio(c, op.Sub(v, rv), op.Sub(var, rvar), var, cube))
    one = np.ones((), c.dtype(x).numpy())
    count = op.ReduceSum(op.Expand(one, op.Shape(u)), axes, keepdims=1)
    to_u = op.Add(to_u, op.Mul(op.Div(to_var, count), op.Add(u, ru)))
    gx = op.Sub(to_u, op.ReduceMean(to_u, axes, keepdims=1))
    return (gx, *(None,) * (len(c.inputs) - 1))


def _normalised(c: Context, x: ir.Value, axes: list[int], eps: float) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Centred values, inverse deviation and variance."""
    u = c.op.Sub(x, c.op.ReduceMean(x, axes, keepdims=1))
    var = c.op.ReduceMean(c.op.Mul(u, u), axes, keepdims=1)
    return u, c.op.Reciprocal(c.op.Sqrt(c.op.Add(var, eps))), var
