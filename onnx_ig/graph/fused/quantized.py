"""Operators on quantised tensors, as dequantise, compute, quantise: what they are defined by.

ONNX Runtime fuses these triples again where it runs the result, so the forward pass stays in integers where it was. The
rules of QuantizeLinear and DequantizeLinear are all that the backward needs.
Source: ONNX QLinearConv-10, QLinearMatMul-21; the schemas of com.microsoft.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.fused.attention import self_attention
from onnx_ig.graph.fused.products import channels_first, channels_last
from onnx_ig.graph.fused.table import Fused, Unexpanded, fused

_INTERNAL = "com.ms.internal.nhwc"
_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def dequantized(f: Fused, index: int, axis: int | None = None) -> ir.Value:
    """Operand `index` as floats, its scale and zero point the next two operands; a vector of scales lies along `axis`."""
    x, scale, zero = f.need(index), f.need(index + 1), f.operand(index + 2)
    along = axis if scale.shape is None or len(scale.shape) == 1 else None
    if scale.shape is not None and len(scale.shape) > 1:
        wide = f.cast(x, f.dtype(scale))
        wide = wide if zero is None else f.op.Sub(wide, f.cast(zero, f.dtype(scale)))
        return f.op.Mul(wide, scale)
    return f.op.DequantizeLinear(x, scale, zero, axis=along)


def quantized(f: Fused, y: ir.Value, index: int, like: ir.Value) -> ir.Value:
    """`y` by the scale and zero point at `index`, in the type of the zero point or else of `like`."""
    scale, zero = f.need(index), f.operand(index + 1)
    if scale.shape is not None and len(scale.shape) > 1:
        raise Unexpanded("the scale of its result has several axes", "Quantise with one scale a tensor.")
    if zero is None:
        zero = f.op.constant(np.zeros((), f.dtype(like).numpy()))
    return f.op.QuantizeLinear(y, scale, zero)


@fused("QLinearConv", domain="")
@fused("QLinearConv")
@fused("QLinearConv", domain=_INTERNAL)
def qlinear_conv(f: Fused) -> None:
    """Operands x, w [M, C/group, K...], y's scale and zero point, bias int32 [M] in steps of scale(x) scale(w)."""
    op, rank = f.op, f.ranked(f.need(3))
    x, w = dequantized(f, 0), dequantized(f, 3, 0)
    last = bool(f.attr("channels_last", 0)) or f.node.domain == _INTERNAL
    if last:
        x = channels_first(f, x, rank)
    bias = f.operand(8)
    if bias is not None:
        steps = op.Mul(f.need(1), f.need(4))
        bias = op.DequantizeLinear(bias, steps, axis=0)
    y = op.Conv(x, w, bias, **{n: f.attr(n) for n in _CONV if f.attr(n) is not None})
    f.replace(quantized(f, channels_last(f, y, rank) if last else y, 6, f.x))


@fused("QLinearMatMul", domain="")
def qlinear_matmul(f: Fused) -> None:
    """a [..., M, K] with scales a row, b [..., K, N] with scales a column."""
    y = f.op.MatMul(dequantized(f, 0, -2), dequantized(f, 3, -1))
    f.replace(quantized(f, y, 6, f.x))


@fused("QGemm")
def qgemm(f: Fused) -> None:
    """Operands A, B, C int32 in steps of alpha scale(A) scale(B), y's scale and zero point; floats without these."""
    op, across = f.op, int(f.attr("transB", 0))
    keep = {n: f.attr(n) for n in ("alpha", "transA", "transB") if f.attr(n) is not None}
    bias = f.operand(6)
    if bias is not None:
        steps = op.Mul(op.Mul(f.need(1), f.need(4)), f.like(float(f.attr("alpha", 1.0)), f.need(1)))
        bias = op.Mul(f.cast(bias, f.dtype(f.need(1))), steps)
    y = op.Gemm(dequantized(f, 0), dequantized(f, 3, 0 if across else 1), bias, **keep)
    f.replace(y if f.operand(7) is None else quantized(f, y, 7, f.x))


def _of_one(f: Fused, function: Callable[[ir.Value], ir.Value]) -> None:
    f.replace(quantized(f, function(dequantized(f, 0)), 3, f.x))


@fused("QLinearSigmoid")
def qlinear_sigmoid(f: Fused) -> None:
    """Sigmoid."""
    _of_one(f, lambda x: f.op.Sigmoid(x))


@fused("QLinearLeakyRelu")
def qlinear_leaky_relu(f: Fused) -> None:
    """LeakyRelu."""
    _of_one(f, lambda x: f.op.LeakyRelu(x, alpha=f.attr("alpha")))


@fused("QLinearSoftmax")
def qlinear_softmax(f: Fused) -> None:
    """Softmax along `axis` (from opset 13 on), or over all axes from it on."""
    axis = int(f.attr("axis", -1))
    if int(f.attr("opset", 13)) < 13 and axis not in (-1, f.ranked(f.x) - 1):
        shape = f.op.Shape(f.x)
        _of_one(f, lambda x: f.op.Reshape(f.op.Softmax(f.op.Flatten(x, axis=axis), axis=1), shape))
        return
    _of_one(f, lambda x: f.op.Softmax(x, axis=axis))


@fused("QLinearReduceMean")
def qlinear_reduce_mean(f: Fused) -> None:
    """ReduceMean over `axes`."""
    axes = [int(a) for a in f.attr("axes", ())]
    _of_one(f, lambda x: f.op.ReduceMean(x, axes or None, keepdims=int(f.attr("keepdims", 1))))


@fused("QLinearGlobalAveragePool")
def qlinear_global_average_pool(f: Fused) -> None:
    """GlobalAveragePool, channels first or last."""
    _of_one(f, lambda x: _pooled(f, x, lambda v: f.op.GlobalAveragePool(v)))


@fused("QLinearAveragePool")
@fused("QLinearAveragePool", domain=_INTERNAL)
def qlinear_average_pool(f: Fused) -> None:
    """AveragePool, channels first or last."""
    keep = {n: f.attr(n) for n in _POOL if f.attr(n) is not None}
    _of_one(f, lambda x: _pooled(f, x, lambda v: f.op.AveragePool(v, **keep)))


def _pooled(f: Fused, x: ir.Value, pool: Callable[[ir.Value], ir.Value]) -> ir.Value:
    if not f.attr("channels_last", 0) and f.node.domain != _INTERNAL:
        return pool(x)
    rank = f.ranked(f.x)
    return channels_last(f, pool(channels_first(f, x, rank)), rank)


@fused("QLinearAdd")
def qlinear_add(f: Fused) -> None:
    """a + b."""
    f.replace(quantized(f, f.op.Add(dequantized(f, 0), dequantized(f, 3)), 6, f.x))


@fused("QLinearMul")
def qlinear_mul(f: Fused) -> None:
    """a * b."""
    f.replace(quantized(f, f.op.Mul(dequantized(f, 0), dequantized(f, 3)), 6, f.x))


@fused("QLinearWhere")
def qlinear_where(f: Fused) -> None:
    """x or y by a condition."""
    f.replace(quantized(f, f.op.Where(f.x, dequantized(f, 1), dequantized(f, 4)), 7, f.need(1)))


@fused("QLinearConcat")
def qlinear_concat(f: Fused) -> None:
    """Tensors side by side, each a triple of operands behind the scale and zero point of the result."""
    parts = [dequantized(f, k) for k in range(2, len(f.node.inputs), 3)]
    f.replace(quantized(f, f.op.Concat(*parts, axis=int(f.attr("axis"))), 0, f.need(2)))


@fused("MatMulIntegerToFloat")
def matmul_integer_to_float(f: Fused) -> None:
    """(A - a) (B - b) scale(A) scale(B) + bias, scales one number or one a column."""
    f.replace(_scaled_product(f, f.need(0), f.need(1), f.need(2), f.need(3), f.operand(4), f.operand(5), f.operand(6)))


@fused("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(f: Fused) -> None:
    """A quantised by its own range, then as MatMulIntegerToFloat."""
    q, scale, zero = f.op.DynamicQuantizeLinear(f.x, outputs=3)
    f.replace(_scaled_product(f, q, f.need(1), scale, f.need(2), zero, f.operand(3), f.operand(4)))


def _scaled_product(
    f: Fused,
    a: ir.Value,
    b: ir.Value,
    scale_a: ir.Value,
    scale_b: ir.Value,
    zero_a: ir.Value | None,
    zero_b: ir.Value | None,
    bias: ir.Value | None,
) -> ir.Value:
    product = f.op.MatMulInteger(a, b, zero_a, zero_b)
    y = f.op.Mul(f.cast(product, f.dtype(scale_a)), f.op.Mul(scale_a, scale_b))
    return y if bias is None else f.op.Add(y, bias)


@fused("QAttention")
def qattention(f: Fused) -> None:
    """Attention whose projection is a product of integers; bias, scores and values are floats."""
    projected = _scaled_product(f, f.x, f.need(1), f.need(3), f.need(4), f.operand(6), f.operand(7), f.operand(2))
    self_attention(f, projected, f.dim(f.need(1), 1), f.operand(5), f.operand(8), None)


@fused("QuantizeLinear")
def quantize_linear(f: Fused) -> None:
    """The standard operator; without `axis` one scale for all. 16 and 4 bits came with opset 21."""
    _standard(f)


@fused("DequantizeLinear")
def dequantize_linear(f: Fused) -> None:
    """As QuantizeLinear."""
    _standard(f)


def _standard(f: Fused) -> None:
    narrow = f.x if f.node.op_type == "DequantizeLinear" else f.operand(2)
    if narrow is not None and f.dtype(narrow) not in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32):
        f.at_least(21)
    axis = f.attr("axis")
    f.replace(f.op.node(f.node.op_type, tuple(f.node.inputs), {} if axis is None else {"axis": int(axis)}))
