"""Pooling over regions of an image: RoiAlign and MaxRoiPool.

Both act axis by axis, and what they do along one axis is asked of the operator itself, run on an identity along that
axis and a single element along the other.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import Vector, dims, joined, product
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.separable import identity

Values = tuple[ir.Value | None, ...]


@gradient("RoiAlign")
def roi_align(c: Context, gy: ir.Value) -> Values:
    """y[r] = Ay[r] x[batch of r] Ax[r]^T, the means of bilinear samples: gx = sum of Ay^T gy Ax over the regions of an image.

    By the regions: samples move with the corners, d/dy1 = scale (1-u) and d/dy2 = scale u at height u of the region.
    x [N, C, H, W], rois [R, 4] as (x1, y1, x2, y2), y [R, C, oH, oW]. Source: He et al. 2017; ONNX RoiAlign-16.
    """
    if c.attr("mode", "avg") != "avg":
        raise c.refuse(
            "runtimes disagree about the maximum (ONNX Runtime takes it over weighted elements, not over samples)",
            "Export the layer with mode avg.",
        )
    op = c.op
    ax, ay = _interpolation(c, 1), _interpolation(c, 0)  # [R, W, oW], [R, H, oH]
    gx = grois = None
    if c.wants(0):
        gx = _image_gradient(c, gy, ay, ax)
    if c.wants(1):
        corners: list[ir.Value | None] = [None] * 4
        for axis, other in ((0, ax), (1, ay)):
            corners[1 - axis], corners[3 - axis] = _corner_gradients(c, gy, other, axis)
        grois = op.Concat(*(op.Unsqueeze(v, [1]) for v in corners), axis=1)
    return gx, grois, None


def _interpolation(c: Context, axis: int) -> ir.Value:
    """[R, L, o]: the weights of the elements along one axis in each output of each region."""
    op, x, rois = c.op, c.operand(0), c.operand(1)
    names = ("spatial_scale", "sampling_ratio", "coordinate_transformation_mode")
    size = c.attr(("output_height", "output_width")[axis], 1)
    dtype = c.dtype(rois).numpy()
    inside = np.asarray([[0.0, 0.5 / c.attr("spatial_scale", 1.0)]], dtype)  # within the one element of the other axis
    there = op.Expand(inside, op.Concat(op.Shape(rois, end=1), [2], axis=0))
    low, high = op.Split(there, outputs=2, axis=1, num_outputs=2)
    x1, y1, x2, y2 = op.Split(rois, outputs=4, axis=1, num_outputs=4)
    corners = (x1, low, x2, high) if axis else (low, y1, high, y2)
    images, length = _identity_images(c, x, axis)
    weights = op.RoiAlign(
        images, op.Concat(*corners, axis=1), op.Sub(c.operand(2), c.operand(2)),
        output_height=1 if axis else size, output_width=size if axis else 1, **{n: c.attr(n) for n in names},
    )  # fmt: skip
    return op.Reshape(weights, joined(op, dims(op, rois, 0, 1), length, [size]), allowzero=1)


def _identity_images(c: Context, x: ir.Value, axis: int) -> tuple[ir.Value, Vector]:
    """One image whose channels are the unit vectors along an axis, [1, L, L, 1] or [1, L, 1, L]."""
    op = c.op
    length = dims(op, x, 2 + axis, 3 + axis)
    shape = joined(op, [1], length, [1], length) if axis else joined(op, [1], length, length, [1])
    return op.Reshape(identity(op, length, c.dtype(x)), shape), length


def _image_gradient(c: Context, gy: ir.Value, ay: ir.Value, ax: ir.Value) -> ir.Value:
    """One product over all regions: [N*H, R*oH] times [R*oH, C*W], the first 0 where the region is of another image."""
    op, x = c.op, c.operand(0)
    n, channels, height, width = (dims(op, x, i, i + 1) for i in range(4))
    regions, tall = dims(op, gy, 0, 1), dims(op, gy, 2, 3)
    rows = op.MatMul(gy, op.Unsqueeze(op.Transpose(ax, perm=[0, 2, 1]), [1]))  # [R, C, oH, W]
    both = product(op, joined(op, regions, tall))
    across = product(op, joined(op, channels, width))
    rows = op.Reshape(op.Transpose(rows, perm=[0, 2, 1, 3]), joined(op, both, across), allowzero=1)
    count = n[0] if isinstance(n, list) else op.Squeeze(n, [0])
    images = op.Unsqueeze(op.Range(0, count, 1), [1])
    belongs = op.Equal(images, op.Cast(c.operand(2), to=ir.DataType.INT64.value))  # [N, R]
    own = op.Unsqueeze(op.Cast(belongs, to=c.dtype(x).value), [1, 3])
    weights = op.Mul(own, op.Transpose(ay, perm=[1, 0, 2]))  # [N, H, R, oH]
    weights = op.Reshape(weights, joined(op, product(op, joined(op, n, height)), both), allowzero=1)
    images_gradient = op.Reshape(op.MatMul(weights, rows), joined(op, n, height, channels, width), allowzero=1)
    return op.Transpose(images_gradient, perm=[0, 2, 1, 3])


def _corner_gradients(c: Context, gy: ir.Value, other: ir.Value, axis: int) -> tuple[ir.Value, ir.Value]:
    """Cotangents [R] of the low and the high corner along one axis; `other` [R, L', o'] interpolates the other axis."""
    op, x, dtype = c.op, c.operand(0), c.dtype(c.operand(1))
    if axis:
        x, gy = op.Transpose(x, perm=[0, 1, 3, 2]), op.Transpose(gy, perm=[0, 1, 3, 2])
    own = op.Gather(x, c.operand(2), axis=0)  # [R, C, L, L']
    across = op.MatMul(own, op.Unsqueeze(other, [1]))  # [R, C, L, o']
    reads = op.ReduceSum(op.MatMul(gy, op.Transpose(across, perm=[0, 1, 3, 2])), [1], keepdims=0)  # [R, o, L]
    u, position, share, grows = _samples(c, axis)
    length = dims(op, c.operand(0), 2 + axis, 3 + axis)
    elements = op.Cast(
        op.Range(0, length[0] if isinstance(length, list) else op.Squeeze(length, [0]), 1), to=dtype.value
    )
    last = op.Sub(op.Cast(_operand(c, length), to=dtype.value), 1.0)
    moving = op.And(op.Greater(position, 0.0), op.Less(position, last))
    first = op.Unsqueeze(op.Floor(position), [3])
    above, below = op.Equal(elements, op.Add(first, 1.0)), op.Equal(elements, first)
    slopes = op.Sub(op.Cast(above, to=dtype.value), op.Cast(below, to=dtype.value))  # [R, o, S, L]
    moved = op.ReduceSum(op.Mul(slopes, op.Unsqueeze(reads, [2])), [3], keepdims=0)  # [R, o, S]
    moved = op.Mul(op.Mul(moved, op.Where(moving, share, 0.0)), c.attr("spatial_scale", 1.0))
    high = op.Mul(moved, u if grows is None else op.Mul(u, grows))
    return op.ReduceSum(op.Sub(moved, high), [1, 2], keepdims=0), op.ReduceSum(high, [1, 2], keepdims=0)


def _samples(c: Context, axis: int) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value | None]:
    """Samples [R, o, S] along one axis: height u in the region, position, share of the mean (0 for those too many).

    The fourth is 1 where the region is larger than the least extent that mode output_half_pixel gives it.
    """
    op, rois = c.op, c.operand(1)
    dtype = c.dtype(rois)
    size, ratio = int(c.attr(("output_height", "output_width")[axis], 1)), int(c.attr("sampling_ratio", 0))
    corners = op.Unsqueeze(op.Mul(rois, c.attr("spatial_scale", 1.0)), [2])
    low = op.Slice(corners, [1 - axis], [2 - axis], [1])  # [R, 1, 1]
    extent = op.Sub(op.Slice(corners, [3 - axis], [4 - axis], [1]), low)
    grows = None
    if c.attr("coordinate_transformation_mode", "half_pixel") == "output_half_pixel":
        grows, extent = op.Cast(op.Greater(extent, 1.0), to=dtype.value), op.Max(extent, 1.0)
    else:
        low = op.Sub(low, 0.5)
    zero = op.Sub(extent, extent)
    number = op.Add(zero, float(ratio)) if ratio > 0 else op.Ceil(op.Mul(extent, 1.0 / size))
    most = op.ReduceMax(op.Concat(op.Reshape(number, [-1]), np.ones(1, dtype.numpy()), axis=0), keepdims=0)
    sample = op.Cast(op.Range(0, op.Cast(most, to=ir.DataType.INT64.value), 1), to=dtype.value)  # [S]
    divisor = op.Max(number, 1.0)
    share = op.Div(op.Cast(op.Less(sample, number), to=dtype.value), divisor)
    bins = np.arange(size, dtype=dtype.numpy())[:, None]
    u = op.Mul(op.Add(op.Div(op.Add(sample, 0.5), divisor), bins), 1.0 / size)
    return u, op.Add(op.Mul(u, extent), low), share, grows


def _operand(c: Context, length: Vector) -> ir.Value:
    return c.op.constant(np.asarray(length, np.int64)) if isinstance(length, list) else length


@gradient("MaxRoiPool")
def max_roi_pool(c: Context, gy: ir.Value) -> Values:
    """gx = gy at the first maximum of each bin of each region; empty bins have none. Regions are rounded: no gradient.

    x [N, C, H, W], rois [R, 5] as (image, x1, y1, x2, y2), y [R, C, oH, oW]. Source: Girshick 2015; ONNX MaxRoiPool-1.
    """
    op, x, rois = c.op, c.operand(0), c.operand(1)
    rows, columns = _bins(c, 0), _bins(c, 1)  # [R, H, oH], [R, W, oW]
    image = op.Cast(op.Slice(rois, [0], [1], [1]), to=ir.DataType.INT64.value)
    own = op.Gather(x, op.Squeeze(image, [1]), axis=0)  # [R, C, H, W]
    lowest = np.asarray(-np.inf, c.dtype(x).numpy())
    width = dims(op, x, 3, 4)
    places, values, filled = [], [], []
    for j in range(c.attr("pooled_shape")[1]):
        column = op.Slice(columns, [j], [j + 1], [2])  # [R, W, 1]
        inside = op.Unsqueeze(op.Transpose(op.Greater(column, 0.0), perm=[0, 2, 1]), [1])
        part = op.Where(inside, own, lowest)
        first = op.ArgMax(part, axis=3, keepdims=1)  # [R, C, H, 1]
        places.append(first)
        values.append(op.GatherElements(part, first, axis=3))
        filled.append(op.ReduceMax(column, [1], keepdims=1))
    place, value = op.Concat(*places, axis=3), op.Concat(*values, axis=3)  # [R, C, H, oW]
    flat, kept = [], []
    some = op.Concat(*filled, axis=2)  # [R, 1, oW]
    for i in range(c.attr("pooled_shape")[0]):
        row = op.Slice(rows, [i], [i + 1], [2])  # [R, H, 1]
        part = op.Where(op.Unsqueeze(op.Greater(row, 0.0), [1]), value, lowest)
        first = op.ArgMax(part, axis=2, keepdims=1)  # [R, C, 1, oW]
        flat.append(op.Add(op.Mul(first, width), op.GatherElements(place, first, axis=2)))
        kept.append(op.Greater(op.Mul(some, op.ReduceMax(row, [1], keepdims=1)), 0.0))
    at = op.Concat(*flat, axis=2)  # [R, C, oH, oW]
    g = op.Where(op.Unsqueeze(op.Concat(*kept, axis=1), [1]), gy, 0.0)
    channels = dims(op, x, 1, 2)
    count = channels[0] if isinstance(channels, list) else op.Squeeze(channels, [0])
    plane = op.Add(op.Mul(image, channels), op.Range(0, count, 1))  # [R, C]
    at = op.Add(at, op.Unsqueeze(op.Mul(plane, product(op, dims(op, x, 2))), [2, 3]))
    zeros = op.ConstantOfShape(op.Reshape(op.Size(x), [1]), value=ir.tensor(np.zeros(1, c.dtype(x).numpy())))
    gx = op.ScatterElements(zeros, op.Reshape(at, [-1]), op.Reshape(g, [-1]), axis=0, reduction="add")
    return c.reshape_like(gx, x), None


def _bins(c: Context, axis: int) -> ir.Value:
    """[R, L, o]: 1 where an element lies in a bin of a region along one axis."""
    op, x, rois = c.op, c.operand(0), c.operand(1)
    size = c.attr("pooled_shape")[axis]
    _, x1, y1, x2, y2 = op.Split(rois, outputs=5, axis=1, num_outputs=5)
    zero = op.Sub(x1, x1)
    corners = (zero, x1, zero, x2, zero) if axis else (zero, zero, y1, zero, y2)
    images, length = _identity_images(c, x, axis)
    inside = op.MaxRoiPool(
        images, op.Concat(*corners, axis=1), spatial_scale=c.attr("spatial_scale", 1.0),
        pooled_shape=[1, size] if axis else [size, 1],
    )  # fmt: skip
    return op.Reshape(inside, joined(op, dims(op, rois, 0, 1), length, [size]), allowzero=1)
