"""DeformConv: a convolution whose taps are read at positions of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import Vector, dims, entry, joined, product
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.sampling import Image, Tap, axis_taps

Values = tuple[ir.Value | None, ...]


@dataclass(frozen=True)
class _Sizes:
    """Vectors of one: N, groups G of weights and O of offsets, taps K, positions Q of the output, channels C and M."""

    n: Vector
    k: Vector
    q: Vector
    c: Vector
    m: Vector
    groups: int
    offsets: int


@gradient("DeformConv")
def deform_conv(c: Context, gy: ir.Value) -> Values:
    """y[m, q] = sum over c, k of w[m, c, k] mask[k, q] s[c, k, q] + b[m], with s = x read at the position of tap k plus
    offset[k, q], bilinear, zeros outside.

    gs = mask (w^T gy); gx adds weight gs at each element read, goffset = sum over channels of slope x gs,
    gmask = sum over channels of s (w^T gy), gw = gy times (mask s), gb = sum of gy.
    x [N, C, H, W], w [M, C/G, kH, kW], offset [N, O*K*2, oH, oW], mask [N, O*K, oH, oW], y [N, M, oH, oW].
    Source: Dai et al. 2017, Zhu et al. 2018; ONNX DeformConv-19.
    """
    op, x, w, mask = c.op, c.operand(0), c.operand(1), c.input(4)
    sizes = _sizes(c, gy)
    image = Image(
        op, x, product(op, joined(op, sizes.n, [sizes.offsets])), _share(c, sizes.c, sizes.offsets), dims(op, x, 2)
    )
    taps = list(_taps(c, image, sizes, gy))
    gain = None if mask is None else op.Reshape(_rows(c, mask, sizes, []), [-1, 1])
    gx = gw = goffset = gb = gmask = None
    gcolumns = None
    if c.wants(0) or c.wants(2) or c.wants(4):
        gcolumns = _columns_gradient(c, gy, w, sizes)
    if gcolumns is not None and (c.wants(0) or c.wants(2)):
        gread = gcolumns if gain is None else op.Mul(gcolumns, gain)
        if c.wants(0):
            gx = image.added([(tap.row, op.Mul(gread, op.Unsqueeze(tap.weight, [1]))) for tap in taps])
            gx = c.reshape_like(gx, x)
        if c.wants(2):
            goffset = _offset_gradient(c, image, taps, gread, sizes)
    if c.wants(1):
        read = _read(c, image, taps)
        gw = _weight_gradient(c, gy, w, read if gain is None else op.Mul(read, gain), sizes)
    if c.wants(3):
        gb = op.ReduceSum(gy, [0, 2, 3], keepdims=0)
    if c.wants(4) and mask is not None:
        gmask = op.ReduceSum(op.Mul(gcolumns, _read(c, image, taps)), [1], keepdims=0)
        gmask = c.reshape_like(gmask, mask)
    return gx, gw, goffset, gb, gmask


def _read(c: Context, image: Image, taps: list[Tap]) -> ir.Value:
    """What the samples read, s, as rows [N*O*K*Q, C/O]."""
    parts = [c.op.Mul(image.read(tap.row), c.op.Unsqueeze(tap.weight, [1])) for tap in taps]
    total = parts[0]
    for part in parts[1:]:
        total = c.op.Add(total, part)
    return total


def _sizes(c: Context, gy: ir.Value) -> _Sizes:
    op, w = c.op, c.operand(1)
    kernel = c.attr("kernel_shape")
    taps = product(op, list(kernel) if kernel else dims(op, w, 2))
    return _Sizes(
        n=dims(op, gy, 0, 1), k=taps, q=product(op, dims(op, gy, 2)), c=dims(op, c.operand(0), 1, 2),
        m=dims(op, gy, 1, 2), groups=c.attr("group", 1), offsets=c.attr("offset_group", 1),
    )  # fmt: skip


def _share(c: Context, size: Vector, parts: int) -> Vector:
    return [size[0] // parts] if isinstance(size, list) else c.op.Div(size, [parts])


def _rows(c: Context, value: ir.Value, sizes: _Sizes, last: list[int]) -> ir.Value:
    """[N, O*K*..., oH, oW] as [N*O, K*Q, ...], the last axes moved behind the positions."""
    op = c.op
    batch = product(op, joined(op, sizes.n, [sizes.offsets]))
    parts = op.Reshape(value, joined(op, batch, sizes.k, last, sizes.q), allowzero=1)
    if last:
        parts = op.Transpose(parts, perm=[0, 1, 3, 2])
    return op.Reshape(parts, joined(op, batch, product(op, joined(op, sizes.k, sizes.q)), last), allowzero=1)


def _taps(c: Context, image: Image, sizes: _Sizes, gy: ir.Value) -> list[Tap]:
    op, offset = c.op, c.operand(2)
    dtype = c.dtype(c.operand(0))
    moved = _rows(c, offset, sizes, [2])
    axes = []
    for axis in range(2):
        fixed = _regular_positions(c, gy, axis)
        position = op.Add(op.Squeeze(op.Slice(moved, [axis], [axis + 1], [2]), [2]), fixed)
        length = entry(op, image.lengths, axis)
        size = (
            op.constant(np.asarray(length, dtype.numpy()))
            if isinstance(length, list)
            else op.Cast(length, to=dtype.value)
        )
        axes.append(axis_taps(op, position, size, "linear", "zeros"))
    return list(image.taps(axes))


def _regular_positions(c: Context, gy: ir.Value, axis: int) -> ir.Value:
    """Positions [K*Q] along an axis where the offsets are 0: output*stride - pad + tap*dilation."""
    op, w = c.op, c.operand(1)
    ones, zeros = (1, 1), (0, 0, 0, 0)
    stride, dilation = c.attr("strides", ones)[axis], c.attr("dilations", ones)[axis]
    begin = c.attr("pads", zeros)[axis]
    kernel = list(c.attr("kernel_shape") or ()) or dims(op, w, 2)
    taps, outputs = entry(op, kernel, axis), dims(op, gy, 2 + axis, 3 + axis)
    tap = op.Mul(op.Range(0, _number(c, taps), 1), dilation)
    output = op.Sub(op.Mul(op.Range(0, _number(c, outputs), 1), stride), begin)
    ends = ([1, -1, 1, 1], [1, 1, 1, -1]) if axis else ([-1, 1, 1, 1], [1, 1, -1, 1])
    both = op.Add(op.Reshape(tap, ends[0]), op.Reshape(output, ends[1]))
    whole = op.Expand(both, joined(op, kernel, dims(op, gy, 2)))
    return op.Cast(op.Reshape(whole, [-1]), to=c.dtype(c.operand(0)).value)


def _number(c: Context, size: Vector) -> int | ir.Value:
    return size[0] if isinstance(size, list) else c.op.Squeeze(size, [0])


def _columns_gradient(c: Context, gy: ir.Value, w: ir.Value, sizes: _Sizes) -> ir.Value:
    """w^T gy as rows [N*O*K*Q, C/O]."""
    op, groups = c.op, [sizes.groups]
    inner, outer = _share(c, sizes.c, sizes.groups), _share(c, sizes.m, sizes.groups)
    width = product(op, joined(op, inner, sizes.k))
    weights = op.Transpose(op.Reshape(w, joined(op, groups, outer, width)), perm=[0, 2, 1])
    cotangents = op.Reshape(gy, joined(op, sizes.n, groups, outer, sizes.q), allowzero=1)
    columns = op.MatMul(weights, cotangents)  # [N, G, C/G*K, Q]
    batch, channels = product(op, joined(op, sizes.n, [sizes.offsets])), _share(c, sizes.c, sizes.offsets)
    across = product(op, joined(op, sizes.k, sizes.q))
    rows = op.Transpose(op.Reshape(columns, joined(op, batch, channels, across), allowzero=1), perm=[0, 2, 1])
    return op.Reshape(rows, joined(op, product(op, joined(op, batch, across)), channels), allowzero=1)


def _offset_gradient(c: Context, image: Image, taps: list[Tap], gread: ir.Value, sizes: _Sizes) -> ir.Value:
    op = c.op
    totals: list[ir.Value | None] = [None, None]
    for tap in taps:
        along = op.ReduceSum(op.Mul(gread, image.read(tap.row)), [1], keepdims=0)
        for axis, slope in enumerate(tap.slopes):
            term, total = op.Mul(along, slope), totals[axis]
            totals[axis] = term if total is None else op.Add(total, term)
    shape = joined(op, product(op, joined(op, sizes.n, [sizes.offsets], sizes.k)), [1], sizes.q)
    both = op.Concat(*(op.Reshape(t, shape, allowzero=1) for t in totals), axis=1)
    return c.reshape_like(both, c.operand(2))


def _weight_gradient(c: Context, gy: ir.Value, w: ir.Value, columns: ir.Value, sizes: _Sizes) -> ir.Value:
    op, groups = c.op, [sizes.groups]
    batch, channels = product(op, joined(op, sizes.n, [sizes.offsets])), _share(c, sizes.c, sizes.offsets)
    inner, outer = _share(c, sizes.c, sizes.groups), _share(c, sizes.m, sizes.groups)
    across = product(op, joined(op, sizes.k, sizes.q))
    parts = op.Transpose(op.Reshape(columns, joined(op, batch, across, channels), allowzero=1), perm=[0, 2, 1])
    width = product(op, joined(op, inner, sizes.k))
    parts = op.Reshape(parts, joined(op, sizes.n, groups, width, sizes.q), allowzero=1)
    cotangents = op.Reshape(gy, joined(op, sizes.n, groups, outer, sizes.q), allowzero=1)
    products = op.MatMul(cotangents, op.Transpose(parts, perm=[0, 1, 3, 2]))
    return c.reshape_like(op.ReduceSum(products, [0], keepdims=0), w)
