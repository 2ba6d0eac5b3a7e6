"""Convolutions: Conv and ConvTranspose over any number of spatial axes.

Shapes: x [N, C, L...], weights of Conv [M, C/g, K...], of ConvTranspose [C, M/g, K...], y [N, M, n...].
The two are adjoint in x over the same weights, and both have the same derivative by the weights with data and cotangent
exchanged. Source: Dumoulin & Visin 2016, "A guide to convolution arithmetic for deep learning"; ONNX Conv-11,
ConvTranspose-11.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import Vector, dims, joined, known_dims, product
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.windows import (
    Windows,
    conv_windows,
    crop,
    extents_at_run_time,
    halves,
    pad_spatial,
    same_pads,
    spatial_axes,
    spatial_shape,
)

Values = tuple[ir.Value | None, ...]


@gradient("Conv")
def conv(c: Context, gy: ir.Value) -> Values:
    """gx = gy transposed-convolved with w, gw = x convolved with gy, gb = sum of gy over all but channels.

    gx[N, C, L...], gw[M, C/g, K...], gb[M]. Source: ONNX Conv-11.
    """
    x, w = c.operand(0), c.operand(1)
    windows = conv_windows(c)
    windows = windows.with_lengths(known_dims(x, 2))
    if windows.is_open and windows.slack is None and windows.extents is not None:
        windows = windows.with_totals([e - 1 for e in windows.extents])  # SAME at stride 1 asks for no length
    gx = gw = gb = None
    if c.wants(0):
        turned = windows.turned_pads if c.lowering.conv_stride1 == "flipped" else None
        gx = _scattered(c, gy, x, w, windows) if turned is None else _flipped(c, gy, w, windows, turned)
    if c.wants(1):
        pads = _same(c, windows, x, gy, w) if windows.is_open else None
        gw = _weight_gradient(c, x, gy, w, windows, pads)
    if c.wants(2):
        gb = _bias_gradient(c, gy, windows)
    return gx, gw, gb


@gradient("ConvTranspose")
def conv_transpose(c: Context, gy: ir.Value) -> Values:
    """gx = gy convolved with w, gw = gy convolved with x, gb = sum of gy over all but channels.

    gx[N, C, L...], gw[C, M/g, K...], gb[M]. Source: ONNX ConvTranspose-11.
    """
    x, w = c.operand(0), c.operand(1)
    windows = conv_windows(c)
    windows, pads = _transpose_pads(c, windows, x, w)
    data = gy if pads is None else pad_spatial(c.op, gy, *pads)
    gx = gw = gb = None
    if c.wants(0):
        gx = c.op.Conv(
            data, w, group=c.attr("group", 1), strides=windows.strides, dilations=windows.dilations, pads=windows.pads
        )
        if _rests(c, windows):
            gx = crop(c.op, gx, None, x, windows.rank)
    if c.wants(1):
        gw = _weight_gradient(c, data, x, w, windows, None)
    if c.wants(2):
        gb = _bias_gradient(c, gy, windows)
    return gx, gw, gb


def _flipped(c: Context, gy: ir.Value, w: ir.Value, windows: Windows, pads: tuple[int, ...]) -> ir.Value:
    """Stride 1: a Conv of gy with the flipped weights, in and out exchanged within each group.

    The weights are derived in the graph: the runtime folds them at load and the file does not grow. A Conv keeps the
    runtime's blocked layout, which ConvTranspose does not (measured 1.8 to 4.9 times faster a layer).
    """
    kernel, group = windows.kernel or (), c.attr("group", 1)
    flip = [axis for axis, k in enumerate(kernel, start=2) if k != 1]
    if flip:
        w = c.op.Slice(w, [-1] * len(flip), [np.iinfo(np.int64).min] * len(flip), flip, [-1] * len(flip))
    w = _exchanged(c, w, group, len(kernel))
    return c.op.Conv(gy, w, group=group, kernel_shape=kernel, dilations=windows.dilations, pads=pads)


def _exchanged(c: Context, w: ir.Value, group: int, rank: int) -> ir.Value:
    """[g*A, B, K...] as [g*B, A, K...]."""
    source = c.operand(1)
    if group == 1:
        return c.op.Transpose(w, perm=[1, 0, *range(2, rank + 2)])
    if known_dims(source, 0, 2) == [group, 1]:
        return w
    outer, inner, kernel = _divided(c, dims(c.op, source, 0, 1), group), dims(c.op, source, 1, 2), dims(c.op, source, 2)
    parts = c.op.Reshape(w, joined(c.op, [group], outer, inner, kernel))
    turned = c.op.Transpose(parts, perm=[0, 2, 1, *range(3, rank + 3)])
    return c.op.Reshape(turned, joined(c.op, _times(c, inner, group), outer, kernel))


def _scattered(c: Context, gy: ir.Value, x: ir.Value, w: ir.Value, windows: Windows) -> ir.Value:
    """Any stride: ConvTranspose, long enough to reach every position of x and cropped to its shape at run time."""
    op, group, strides, dilations = c.op, c.attr("group", 1), windows.strides, windows.dilations
    if windows.is_open:
        begins, _ = _same(c, windows, x, gy, w)
        full = op.ConvTranspose(
            gy, w, group=group, strides=strides, dilations=dilations, output_padding=windows.slack
        )  # fmt: skip
        return crop(op, full, begins, x, windows.rank)
    rest = windows.rest(known_dims(x, 2))
    extra = windows.slack if rest is None else rest
    gx = op.ConvTranspose(
        gy, w, group=group, strides=strides, dilations=dilations, pads=windows.pads,
        output_padding=extra if extra and any(extra) else None,
    )  # fmt: skip
    return gx if rest is not None or windows.slack is None else crop(op, gx, None, x, windows.rank)


def _same(c: Context, windows: Windows, x: ir.Value, gy: ir.Value, w: ir.Value) -> tuple[ir.Value, ir.Value]:
    return same_pads(c.op, windows, spatial_shape(c.op, w), spatial_shape(c.op, x), spatial_shape(c.op, gy))


def _weight_gradient(
    c: Context,
    data: ir.Value,
    cotangent: ir.Value,
    w: ir.Value,
    windows: Windows,
    pads: tuple[ir.Value, ir.Value] | None,
) -> ir.Value:
    """gw[m, c, k] = sum over N and n of cotangent[N, m, n] * data[N, c, n*stride + k*dilation - begin].

    That is a Conv over the batch as channels, strides and dilations exchanged; groups stand side by side.
    """
    op, group = c.op, c.attr("group", 1)
    if pads is not None:
        data = pad_spatial(op, data, *pads)
    batch, inner, outer = dims(op, cotangent, 0, 1), dims(op, data, 1, 2), dims(op, cotangent, 1, 2)
    inner = _divided(c, inner, group)
    rows = _regrouped(c, data, group, [2, 1, 0, 3], [inner, _times(c, batch, group)])
    kernel = _regrouped(c, cotangent, group, [1, 2, 0, 3], [outer, batch])
    gw = op.Conv(rows, kernel, group=group, strides=windows.dilations, dilations=windows.strides, pads=windows.pads)
    gw = _regrouped(c, gw, 1, [2, 1, 0, 3], [outer, inner])
    return gw if windows.slack is None else crop(op, gw, None, w, windows.rank)


def _regrouped(c: Context, value: ir.Value, group: int, order: list[int], leading: list[Vector]) -> ir.Value:
    """[A, g*B, L...] as [A, g, B, all L], its axes in `order`, reshaped to [*leading, L...]; at any rank."""
    op, lengths = c.op, dims(c.op, value, 2)
    channels = _divided(c, dims(op, value, 1, 2), group)
    parts = joined(op, dims(op, value, 0, 1), [group], channels, product(op, lengths))
    turned = op.Transpose(op.Reshape(value, parts, allowzero=1), perm=order)
    return op.Reshape(turned, joined(op, *leading, lengths), allowzero=1)


def _divided(c: Context, size: Vector, group: int) -> Vector:
    return [size[0] // group] if isinstance(size, list) else c.op.Div(size, [group])


def _times(c: Context, size: Vector, group: int) -> Vector:
    return [size[0] * group] if isinstance(size, list) else c.op.Mul(size, [group])


def _bias_gradient(c: Context, gy: ir.Value, windows: Windows) -> ir.Value:
    axes = spatial_axes(c.op, gy, windows.rank)
    axes = [0, *axes] if isinstance(axes, list) else c.op.Concat([0], axes, axis=0)
    return c.op.ReduceSum(gy, axes, keepdims=0)


def _transpose_pads(
    c: Context, windows: Windows, x: ir.Value, w: ir.Value
) -> tuple[Windows, tuple[ir.Value, ir.Value] | None]:
    """Pads of a ConvTranspose: in the windows where they are known, else at run time.

    total = stride*(length-1) + output_padding + extent - output_shape, and output_shape is stride*length under SAME;
    what would be negative is zero. Source: ONNX ConvTranspose-11; halves as ONNX Runtime has them.
    """
    op = c.op
    target, upper = c.attr("output_shape"), windows.auto_pad == "SAME_UPPER"
    if target is None and windows.auto_pad in ("NOTSET", "VALID"):
        return windows, None
    strides = list(windows.strides or (1,))
    extra = c.attr("output_padding") or (0,) * len(strides)
    target = None if target is None else list(target[-len(strides) :])
    beyond = list(np.subtract(extra, strides))
    lengths = known_dims(x, 2)
    if windows.extents is not None and (target is None or lengths is not None):
        totals = np.add(windows.extents, beyond)
        if target is not None and lengths is not None:
            totals = totals + np.multiply(strides, lengths) - target
        return windows.with_totals(np.maximum(totals, 0).tolist(), upper), None
    total = op.Add(extents_at_run_time(op, windows, spatial_shape(op, w)), beyond)
    if target is not None:
        total = op.Sub(op.Add(total, op.Mul(spatial_shape(op, x), strides)), target)
    return replace(windows, auto_pad="VALID"), halves(op, op.Max(total, 0), upper)


def _rests(c: Context, windows: Windows) -> bool:
    """Whether a Conv back over the output could find room for more windows than the input has."""
    if c.attr("output_shape") is not None:
        return True
    extra = c.attr("output_padding")
    return bool(extra) and any(p >= s for p, s in zip(extra, windows.strides or (), strict=True))
