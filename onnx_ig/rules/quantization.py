"""Quantisation: straight through the rounding, and nothing where it clips.

The derivative of a rounding is zero by mathematics and tells nothing. The straight-through estimator takes the rounding
for the identity and keeps the clipping, which is a real gate: quantisers fold a Relu into the zero point. The forward
pass stays as it is, in integers, so gradients are taken at the quantised activations. Cotangents of integers are those of
the floats that they stand for, in steps of the scale.
Source: Bengio, Léonard, Courville, "Estimating or Propagating Gradients Through Stochastic Neurons", 2013; Jacob et al.,
"Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018; for scales Esser et
al., "Learned Step Size Quantization", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.convolution import conv
from onnx_ig.rules.gates import gate
from onnx_ig.rules.matmul import matmul
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]

STRAIGHT = "straight-through estimate, clipped at the range"

_SLACK = {ir.DataType.FLOAT16: 0.25, ir.DataType.BFLOAT16: 0.25}
"""How far, in steps, a value may lie outside the range and still count as inside: the largest value that was calibrated is
the last step itself, and division by the scale rounds."""
_FINE = 1 / 64

_LARGEST = {
    ir.DataType.FLOAT8E4M3FN: 448.0, ir.DataType.FLOAT8E4M3FNUZ: 240.0, ir.DataType.FLOAT8E5M2: 57344.0,
    ir.DataType.FLOAT8E5M2FNUZ: 57344.0, ir.DataType.FLOAT4E2M1: 6.0,
}  # fmt: skip


@dataclass
class _Steps:
    """Scale and zero point of a node, shaped to broadcast against the data."""

    scale: ir.Value
    zero: ir.Value | None
    blocked: bool = False

    @classmethod
    def of(cls, c: Context) -> _Steps:
        scale, zero = c.operand(1), c.input(2)
        if c.attr("block_size", 0):
            return cls(_over_blocks(c, scale), None if zero is None else _over_blocks(c, scale, zero), True)
        number = None if zero is None else c.op.Cast(zero, to=c.dtype(scale).value)
        if number is not None:
            number.shape = zero.shape  # type: ignore[union-attr]
        return cls(_along_axis(c, scale), None if number is None else _along_axis(c, number))


def _along_axis(c: Context, vector: ir.Value) -> ir.Value:
    """A scalar, or one entry for each place on the axis: [C] as [C, 1, ...]."""
    op, x = c.op, c.operand(0)
    if c.rank(vector) is None:
        raise c.refuse(
            f"the rank of its scale {vector.name!r} is not known", "Declare the shapes of the model's inputs."
        )
    if c.rank(vector) == 0:
        return vector
    if c.static_shape(vector) == (1,):
        return op.Reshape(vector, np.zeros(0, np.int64))
    axis, rank = int(c.attr("axis", 1)), c.rank(x)
    if axis < 0:
        behind = -axis - 1
    elif rank is not None:
        behind = rank - axis - 1
    else:
        ones = op.Expand([1], op.Reshape(op.Sub(op.Size(op.Shape(x)), axis + 1), [1]))
        return op.Reshape(vector, op.Concat([-1], ones, axis=0))
    return op.Reshape(vector, [-1, *[1] * behind])


def _over_blocks(c: Context, scale: ir.Value, zero: ir.Value | None = None) -> ir.Value:
    """Scales [.., blocks, ..] (or zero points) repeated over their blocks, by dequantising ones (zeros) with them."""
    op, x = c.op, c.operand(0)
    one = np.asarray([1], np.int8)
    shape = op.Shape(x)
    attributes = {"axis": int(c.attr("axis", 1)), "block_size": int(c.attr("block_size"))}
    wide: ir.Value = op.DequantizeLinear(op.ConstantOfShape(shape, value=ir.tensor(one)), scale, **attributes)
    if zero is None:
        return wide
    start: ir.Value = op.DequantizeLinear(op.CastLike(op.ConstantOfShape(shape), zero), scale, zero, **attributes)
    return op.Neg(op.Div(start, wide))  # (0 - zero) scale / scale


def _range(dtype: ir.DataType) -> tuple[float, float]:
    if dtype.is_integer():
        bits, signed = dtype.bitwidth, dtype.name.startswith("INT")
        return (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
    return -_LARGEST[dtype], _LARGEST[dtype]


@gradient("QuantizeLinear", carries=(0,), estimate=STRAIGHT)
def quantize_linear(c: Context, gy: ir.Value) -> Values:
    """y = clip(round(x / s) + z): gx = gy / s, gs = -sum(gy x / s^2), both where x / s + z lies in the range, else 0.

    x [...], s one number, [C] along an axis, or a number for each block. Source: ONNX QuantizeLinear-21, and above.
    """
    op, x = c.op, c.operand(0)
    steps = _Steps.of(c)
    low, high = _range(c.dtype(c.own(c.output)))
    slack = _SLACK.get(c.dtype(c.own(x)), _FINE)
    inside = op.And(
        op.GreaterOrEqual(x, _bound(c, low - slack, steps)), op.LessOrEqual(x, _bound(c, high + slack, steps))
    )
    gx = gate(c, _in_steps(c, gy, steps.scale), inside)
    gs = None
    if c.wants(1):
        _refuse_blocks(c, steps)
        gs = op.Neg(_summed(c, op.Mul(gx, op.Div(x, steps.scale)), steps))
    return gx, gs, None


def _bound(c: Context, place: float, steps: _Steps) -> ir.Value:
    """The number that lies at `place` in the range: small, and folded at load, where comparing places is not."""
    steps_away = c.op.Sub(place, steps.zero) if steps.zero is not None else None
    return c.op.Mul(steps.scale, place) if steps_away is None else c.op.Mul(steps_away, steps.scale)


def _in_steps(c: Context, g: ir.Value, scale: ir.Value) -> ir.Value:
    """`g / scale`; what DequantizeLinear has just multiplied with the same scale as it was before."""
    node = g.producer()
    if node is not None and node.op_type == "Mul" and node.inputs[1] is scale and node.inputs[0] is not None:
        return node.inputs[0]
    return c.op.Div(g, scale)


@gradient("DequantizeLinear")
def dequantize_linear(c: Context, gy: ir.Value) -> Values:
    """y = (x - z) s: gx = gy s, gs = sum(gy (x - z)). Exact: the integers are taken for numbers.

    Source: ONNX DequantizeLinear-21.
    """
    op, steps = c.op, _Steps.of(c)
    gx = op.Mul(gy, steps.scale) if c.wants(0) else None
    gs = None
    if c.wants(1):
        _refuse_blocks(c, steps)
        x = op.Cast(c.operand(0), to=c.dtype(gy).value)
        gs = _summed(c, op.Mul(gy, x if steps.zero is None else op.Sub(x, steps.zero)), steps)
    return gx, gs, None


def _summed(c: Context, g: ir.Value, steps: _Steps) -> ir.Value:
    """`g` of the shape of the data, summed to that of the scale."""
    return c.reshape_like(c.sum_to(g, c.operand(0).shape, steps.scale), c.operand(1))


def _refuse_blocks(c: Context, steps: _Steps) -> None:
    if steps.blocked:
        raise c.refuse("scales of blocks depend on the input", "Choose values behind it.")


@gradient("DynamicQuantizeLinear", carries=(0, 1), estimate=STRAIGHT)
def dynamic_quantize_linear(c: Context, gy: ir.Value | None, gs: ir.Value | None = None, *_: ir.Value | None) -> Values:
    """y = round(x / s) + z with s, z from the range of x, which clips nothing: gx = gy / s.

    s and z are taken for constants: what flows back through s from y = q s is (q - x / s) times its cotangent, an error of
    rounding. Where s alone is explained its derivative is exact: s = (max(x, 0) - min(x, 0)) / 255, ties share.
    Source: ONNX DynamicQuantizeLinear-11, and above.
    """
    op, x = c.op, c.operand(0)
    if gy is not None:
        return (op.Div(gy, c.outputs[1]),)
    if gs is None:
        return (None,)
    top, bottom = op.ReduceMax(x, keepdims=0), op.ReduceMin(x, keepdims=0)
    share = op.Div(gs, 255.0)
    above = _shared(c, op.And(op.Equal(x, top), op.Greater(top, 0.0)), share)
    return (op.Sub(above, _shared(c, op.And(op.Equal(x, bottom), op.Less(bottom, 0.0)), share)),)


def _shared(c: Context, chosen: ir.Value, g: ir.Value) -> ir.Value:
    """`g`, a number, in equal parts where `chosen`, 0 elsewhere."""
    mask = c.mask(chosen, g)
    return c.op.Div(c.op.Mul(mask, g), c.op.Max(c.op.ReduceSum(mask, keepdims=0), 1.0))


@gradient("MatMulInteger")
def matmul_integer(c: Context, gy: ir.Value) -> Values:
    """Y = (A - a) (B - b): the derivative of MatMul, a product of numbers that happen to be integers.

    a one number or one a row [m], b one number or one a column [n]. Source: ONNX MatMulInteger-10.
    """
    zero = c.input(2)
    if zero is not None and c.rank(zero) == 1 and c.static_shape(zero) != (1,):
        zero = c.op.Unsqueeze(zero, [1])
    a, b = _centred(c, 0, zero), _centred(c, 1, c.input(3))
    return *matmul(c.with_inputs([a, b]), gy), None, None


@gradient("ConvInteger")
def conv_integer(c: Context, gy: ir.Value) -> Values:
    """Y = Conv(x - a, w - b): the derivative of Conv. a one number, b one number or one a channel [M].

    Source: ONNX ConvInteger-10.
    """
    zero = c.input(3)
    if zero is not None and c.rank(zero) == 1 and c.static_shape(zero) != (1,):
        rank = c.rank(c.operand(1))
        if rank is None:
            raise c.refuse("the rank of its weights is not known", "Declare the shapes of the model's inputs.")
        zero = c.op.Reshape(zero, [-1, *[1] * (rank - 1)])
    x, w = _centred(c, 0, c.input(2)), _centred(c, 1, zero)
    gx, gw, _ = conv(c.with_inputs([x, w]), gy)
    return gx, gw, None, None


def _centred(c: Context, index: int, zero: ir.Value | None) -> ir.Value:
    """Operand minus its zero point, as floats."""
    op, value = c.op, c.operand(index)
    wide = value if c.is_float(value) else op.Cast(value, to=ir.DataType.FLOAT.value)
    if zero is not None:
        wide = op.Sub(wide, op.Cast(zero, to=ir.DataType.FLOAT.value))
    wide.shape = value.shape
    return wide
