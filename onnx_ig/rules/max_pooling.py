"""Pooling by maximum: the cotangent goes to the first maximum of each window.

Shapes: x [N, C, L...], y [N, C, n...].
"""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.adding import add_elements
from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import difference, dims, joined
from onnx_ig.rules.pooling import spread_taps
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.windows import pad_spatial, pads_of, pool_counts, pool_windows, reach

Values = tuple[ir.Value | None, ...]


@gradient("MaxPool")
def max_pool(c: Context, gy: ir.Value, gindices: ir.Value | None = None) -> Values:
    """gx[i] = sum of gy over the windows whose first maximum is at i; ties go to the first in row-major order.

    Source: ONNX MaxPool-12, whose Indices count over the whole of [N, C, L...].
    """
    if c.lowering.max_pool == "windows":
        return (_by_windows(c, gy),)
    op, x = c.op, c.operand(0)
    flat_gy, flat = op.Reshape(gy, [-1]), op.Reshape(_indices(c), [-1])
    if max(c.attr("dilations") or (1,)) > 1:  # a dilated window may hold padding alone, and its index is -1
        outside = op.Less(flat, 0)
        flat_gy, flat = op.Where(outside, 0.0, flat_gy), op.Where(outside, 0, flat)
    return (c.reshape_like(add_elements(op, op.Reshape(op.Size(x), [1]), flat, flat_gy), x),)


def _indices(c: Context) -> ir.Value:
    """Row-major Indices: of the node itself, which costs less than a second MaxPool (measured 88 against 97 to 104 ms
    for Conv, Relu, MaxPool, Conv and the backward of the pooling); else, for column-major ones, of a second node.
    """
    if c.attr("storage_order", 0) == 0:
        return c.ask_output(1, ir.DataType.INT64)
    names = ("kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode")
    return c.op.MaxPool(c.operand(0), outputs=2, **{name: c.attr(name) for name in names})[1]


def _by_windows(c: Context, gy: ir.Value) -> ir.Value:
    """Without scatter: the taps of all windows side by side [N*C, K, n...], the first maximum marked, spread back.

    The taps are slices, not a convolution: they must compare equal to the maximum to the last bit.
    """
    op, x, y, windows = c.op, c.operand(0), c.output, pool_windows(c)
    kernel, strides, dilations = windows.kernel or (), windows.strides or (), windows.dilations or ()
    begins, counts = pads_of(op, windows, x, y)[0], pool_counts(c, windows)
    ends = difference(op, difference(op, reach(op, windows, counts), begins), dims(op, x, 2))
    padded = pad_spatial(op, x, begins, ends, np.asarray(-np.inf, c.dtype(x).numpy()))
    width = difference(op, reach(op, windows, counts), [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)])
    axes = list(range(2, len(kernel) + 2))
    marked = []
    seen: ir.Value | None = None
    for tap in itertools.product(*map(range, kernel)):
        start = [t * d for t, d in zip(tap, dilations, strict=True)]
        end = difference(op, width, [-t for t in start])
        values = op.Slice(padded, start, end, axes, list(strides))
        hit = op.Equal(values, y)
        new = hit if seen is None else op.And(hit, op.Not(seen))
        seen = hit if seen is None else op.Or(seen, hit)
        marked.append(op.Unsqueeze(op.Where(new, gy, 0.0), [2]))
    taps = op.Concat(*marked, axis=2)
    taps = op.Reshape(taps, joined(op, [-1, len(marked)], counts))
    one_each = np.eye(len(marked), dtype=c.dtype(x).numpy()).reshape(len(marked), 1, *kernel)
    return spread_taps(c, taps, one_each, x, windows)


@gradient("GlobalMaxPool")
def global_max_pool(c: Context, gy: ir.Value) -> Values:
    """gx = gy at the first maximum of each channel, 0 elsewhere. x [N, C, L...], y [N, C, 1...].

    Source: ONNX GlobalMaxPool-1.
    """
    op, x = c.op, c.operand(0)
    rows = op.Flatten(x, axis=2)
    first = op.ArgMax(rows, axis=1, keepdims=1)
    positions = op.Range(0, op.Squeeze(op.Shape(rows, start=1), [0]), 1)
    gx = op.Where(op.Equal(first, positions), op.Flatten(gy, axis=2), 0.0)
    return (c.reshape_like(gx, x),)


@gradient("MaxUnpool")
def max_unpool(c: Context, gy: ir.Value) -> Values:
    """gx = gy at the indices, where the element is the last one written there. x and indices [N, C, n...].

    The indices count over the whole of the output, as ONNX Runtime reads them with output_shape too. Source: ONNX
    MaxUnpool-11.
    """
    op, indices = c.op, _flat(c, c.operand(1))
    written = op.ConstantOfShape(op.Reshape(op.Size(gy), [1]), value=ir.tensor(np.full(1, -1, np.int64)))
    order = op.Range(0, op.Size(indices), 1)
    written = op.ScatterElements(written, indices, order, axis=0)
    last = op.Equal(op.Gather(written, indices, axis=0), order)
    gx = op.Where(last, op.Gather(_flat(c, gy), indices, axis=0), 0.0)
    return c.reshape_like(gx, c.operand(0)), None, None


def _flat(c: Context, value: ir.Value) -> ir.Value:
    return c.op.Reshape(value, [-1])
