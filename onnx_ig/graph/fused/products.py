"""Products of matrices and convolutions with scales, transposes, layouts, sums and activations fused into them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.fused.activations import activated
from onnx_ig.graph.fused.table import Fused, Unexpanded, fused

_INTERNAL = "com.ms.internal.nhwc"
_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "storage_order", "strides")


@fused("FusedMatMul", "TransposeMatMul")
def fused_matmul(f: Fused) -> None:
    """alpha * op(A) @ op(B); op swaps the last two axes (trans), after moving the first behind the others (transBatch)."""
    a = _operand(f, f.x, int(f.attr("transA", 0)), int(f.attr("transBatchA", 0)))
    b = _operand(f, f.need(1), int(f.attr("transB", 0)), int(f.attr("transBatchB", 0)))
    y, alpha = f.op.MatMul(a, b), float(f.attr("alpha", 1.0))
    f.replace(y if alpha == 1 else f.op.Mul(y, f.like(alpha, f.x)))


def _operand(f: Fused, value: ir.Value, swap: int, move: int) -> ir.Value:
    if not swap and not move:
        return value
    rank = f.ranked(value)
    if rank < 2:  # ONNX Runtime takes a vector as it is
        return value
    axes = list(range(rank))
    if move:
        axes = [*axes[1:-1], 0, axes[-1]]
    if swap:
        axes[-2:] = axes[-1], axes[-2]
    return f.op.Transpose(value, perm=axes)


@fused("FusedGemm")
def fused_gemm(f: Fused) -> None:
    """activation(alpha * op(A) @ op(B) + beta * C)."""
    keep = {n: f.attr(n) for n in ("alpha", "beta", "transA", "transB") if f.attr(n) is not None}
    y = f.op.Gemm(f.x, f.need(1), f.operand(2), **keep)
    name = f.attr("activation", "")
    parameters = [f.attr(f"activation_{p}") for p in ("alpha", "beta", "gamma")]
    if name == "Selu":
        parameters = [parameters[0], parameters[2]]
    f.replace(activated(f, y, name, parameters))


@fused("FusedConv")
def fused_conv(f: Fused) -> None:
    """activation(Conv(x, w, b) + z)."""
    f.replace(_activated(f, _convolved(f, f.x), f.operand(3)))


@fused("NhwcConv", "NhwcFusedConv")
def nhwc_conv(f: Fused) -> None:
    """As FusedConv, the channels of x, z and the result last; w [M, C/group, k...]."""
    rank = f.ranked(f.need(1))
    y = f.op.Transpose(_convolved(f, channels_first(f, f.x, rank)), perm=_last(rank))
    f.replace(_activated(f, y, f.operand(3)))


@fused("Conv", domain=_INTERNAL)
def internal_conv(f: Fused) -> None:
    """Conv, channels of x and y last."""
    nhwc_conv(f)


@fused("NhwcMaxPool")
@fused("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", domain=_INTERNAL)
def nhwc_pool(f: Fused) -> None:
    """A pooling operator, channels of x and y last."""
    if f.used(1):
        raise Unexpanded(
            "its indices count positions with channels last", "Save the model at optimisation level BASIC."
        )
    kernel = f.attr("kernel_shape")
    rank = len(kernel) + 2 if kernel is not None else f.ranked(f.x)
    keep = {n: f.attr(n) for n in _POOL if f.attr(n) is not None}
    y = f.op.node(f.node.op_type.removeprefix("Nhwc"), (channels_first(f, f.x, rank),), keep)
    f.replace(f.op.Transpose(y, perm=_last(rank)))


def channels_first(f: Fused, x: ir.Value, rank: int) -> ir.Value:
    """[N, ..., C] -> [N, C, ...]."""
    return f.op.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)])


def channels_last(f: Fused, x: ir.Value, rank: int) -> ir.Value:
    """[N, C, ...] -> [N, ..., C]."""
    return f.op.Transpose(x, perm=_last(rank))


def _last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _convolved(f: Fused, x: ir.Value) -> ir.Value:
    keep = {n: f.attr(n) for n in _CONV if f.attr(n) is not None}
    return f.op.Conv(x, f.need(1), f.operand(2), **keep)


def _activated(f: Fused, y: ir.Value, added: ir.Value | None) -> ir.Value:
    if added is not None:
        y = f.op.Add(y, added)
    return activated(f, y, f.attr("activation", ""), list(f.attr("activation_params", ())))
