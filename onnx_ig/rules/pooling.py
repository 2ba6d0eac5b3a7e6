"""Pooling by mean and by p-norm, over windows and over everything.

Shapes: x [N, C, L...], y [N, C, n...] or [N, C, 1...]. A sum over windows is linear; its adjoint, here `spread`, gives
each position the sum over the windows that hold it.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import difference, dims, entry, joined, known_dims
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.windows import Windows, crop, pad_spatial, pads_of, pool_counts, pool_windows, reach

__all__ = ["spread", "spread_taps"]

Values = tuple[ir.Value | None, ...]


@gradient("AveragePool")
def average_pool(c: Context, gy: ir.Value) -> Values:
    """gx = sum over the windows that hold a position of gy / count.

    `count` is the number of positions of the window inside x (count_include_pad=0) or inside the padded x, so that what
    ceil_mode adds behind the pads never counts. Source: ONNX AveragePool-19.
    """
    x, windows = c.operand(0), pool_windows(c)
    whole = math.prod(windows.kernel or ())
    padded = windows.begins is None or windows.pads is not None
    if c.attr("ceil_mode", 0) == 0 and (c.attr("count_include_pad", 0) == 1 or not padded):
        return (spread(c, gy, x, windows, 1.0 / whole),)
    counts = _counts(c, x, windows)
    if isinstance(counts, np.ndarray):
        if (counts == whole).all():
            return (spread(c, gy, x, windows, 1.0 / whole),)
        return (spread(c, c.op.Mul(gy, (1.0 / counts).astype(c.dtype(gy).numpy())), x, windows, 1.0),)
    for count in counts:
        gy = c.op.Div(gy, count)
    return (spread(c, gy, x, windows, 1.0),)


@gradient("LpPool")
def lp_pool(c: Context, gy: ir.Value) -> Values:
    """y = (sum |x|^p)^(1/p): gx = sign(x) |x|^(p-1) times the spread of gy y^(1-p); 0 where all of a window is 0.

    Source: ONNX LpPool-18; pads count as zeros.
    """
    x, p = c.operand(0), _order(c)
    if p > 1:
        gy = c.op.Mul(gy, _power(c, _without_zeros(c, c.output), 1 - p))
    spreaded = spread(c, gy, x, pool_windows(c), 1.0)
    return (c.op.Mul(spreaded, _signed_power(c, x, p)),)


@gradient("GlobalLpPool")
def global_lp_pool(c: Context, gy: ir.Value) -> Values:
    """gx = gy sign(x) (|x|/y)^(p-1); 0 where the whole channel is 0. x [N, C, L...], y [N, C, 1...].

    Source: ONNX GlobalLpPool-2.
    """
    x = c.operand(0)
    return (c.op.Mul(gy, _signed_power(c, c.op.Div(x, _without_zeros(c, c.output)), _order(c))),)


@gradient("GlobalAveragePool")
def global_average_pool(c: Context, gy: ir.Value) -> Values:
    """gx = gy / (number of positions of a channel), at each of them. x [N, C, L...], y [N, C, 1...].

    Source: ONNX GlobalAveragePool-1.
    """
    op, x = c.op, c.operand(0)
    lengths = known_dims(x, 2)
    if lengths is not None:
        scaled = op.Mul(gy, 1.0 / math.prod(lengths))
    else:
        count = op.Cast(op.ReduceProd(op.Shape(x, start=2), [0], keepdims=0), to=c.dtype(gy).value)
        scaled = op.Div(gy, count)
    return (op.Expand(scaled, op.Shape(x)),)


def spread(c: Context, g: ir.Value, x: ir.Value, windows: Windows, scale: float) -> ir.Value:
    """Adjoint of the sum over windows, times `scale`: at each position of x the sum of g over the windows that hold it.

    At stride 1 that is again a pooling, and over windows that do not overlap an upsampling; both keep the runtime's
    blocked layout (measured 2.5 against 7 ms and 0.35 against 1.5 ms for the general form, a transposed convolution).
    """
    kernel, turned = windows.kernel or (), windows.turned_pads
    if turned is not None and all(pad < k for pad, k in zip(turned, (*kernel, *kernel), strict=True)):
        means = c.op.AveragePool(
            g, kernel_shape=kernel, dilations=_unless_ones(windows.dilations), pads=turned, count_include_pad=1
        )
        factor = scale * math.prod(kernel)
        return means if abs(factor - 1) < 1e-9 else c.op.Mul(means, factor)
    side_by_side = windows.kernel == windows.strides and windows.begins is not None and not any(windows.begins)
    if side_by_side and _unless_ones(windows.dilations) is None:
        return _upsampled(c, g, x, windows, scale)
    ones = np.full((1, 1, *kernel), scale, c.dtype(g).numpy())
    rows = c.op.Reshape(g, joined(c.op, [-1, 1], dims(c.op, c.output, 2)))
    return spread_taps(c, rows, ones, x, windows)


def spread_taps(c: Context, taps: ir.Value, weights: np.ndarray, x: ir.Value, windows: Windows) -> ir.Value:
    """taps [N*C, K, n...] and weights [K, 1, kernel...] to the shape of x [N, C, L...], any number of channels."""
    op, lengths = c.op, known_dims(x, 2)
    begins, _ = pads_of(op, windows, x, c.output)
    span = reach(op, windows, pool_counts(c, windows))
    pads, extra = [0] * (2 * len(windows.kernel or ())), list(windows.slack or ())
    exact = False
    if isinstance(begins, list):
        pads[: len(begins)] = begins
        if isinstance(span, list) and lengths is not None:
            exact = True
            beyond = [r - b - n for r, b, n in zip(span, begins, lengths, strict=True)]
            pads[len(begins) :] = [max(r, 0) for r in beyond]
            extra = [max(-r, 0) for r in beyond]
    full = op.ConvTranspose(
        taps, weights, strides=windows.strides, dilations=windows.dilations,
        pads=pads if any(pads) else None, output_padding=extra if any(extra) else None,
    )  # fmt: skip
    if not exact:
        full = crop(op, full, begins if isinstance(begins, ir.Value) else None, x, windows.rank)
    return c.reshape_like(full, x)


def _upsampled(c: Context, g: ir.Value, x: ir.Value, windows: Windows, scale: float) -> ir.Value:
    op, kernel = c.op, windows.kernel or ()
    scaled = g if scale == 1 else op.Mul(g, scale)
    large = op.Resize(
        scaled, None, np.asarray([1, 1, *kernel], np.float32),
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip
    rest = difference(op, dims(op, x, 2), reach(op, windows, pool_counts(c, windows)))
    if isinstance(rest, list) and not any(rest):
        return large
    return pad_spatial(op, large, [0] * len(kernel), rest)


def _unless_ones(values: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if values is None or all(v == 1 for v in values) else values


def _counts(c: Context, x: ir.Value, windows: Windows) -> np.ndarray | list[ir.Value]:
    """Positions of each window that count: one array over all axes, or one factor an axis at run time."""
    op, include = c.op, c.attr("count_include_pad", 0) == 1
    lengths, number = known_dims(x, 2), pool_counts(c, windows)
    axes = list(zip(windows.kernel or (), windows.strides or (), windows.dilations or (), strict=True))
    if isinstance(number, list) and lengths and windows.begins is not None and windows.ends is not None:
        whole = np.ones(())
        for (kernel, stride, dilation), n, length, b, e in zip(
            axes, number, lengths, windows.begins, windows.ends, strict=True
        ):
            tap = np.arange(n)[:, None] * stride + np.arange(kernel) * dilation - b
            inside = (tap >= (-b if include else 0)) & (tap < length + (e if include else 0))
            whole = whole[..., None] * np.maximum(inside.sum(1), 1)
        return whole
    begins, ends = pads_of(op, windows, x, c.output)
    factors = []
    for i, (kernel, stride, dilation) in enumerate(axes):
        first, beyond, size = (entry(op, v, i) for v in (begins, ends, dims(op, x, 2)))
        last = op.Squeeze(entry(op, number, i), [0])
        at = op.Add(
            op.Unsqueeze(op.Mul(op.Range(0, last, 1), stride), [1]), np.arange(kernel, dtype=np.int64) * dilation
        )
        at = op.Sub(at, first)
        low = difference(op, [0], first) if include else [0]
        high = op.Add(size, beyond) if include else size
        within = op.And(op.GreaterOrEqual(at, low), op.Less(at, high))
        here = op.Max(op.ReduceSum(op.Cast(within, to=c.dtype(x).value), [1], keepdims=0), 1.0)
        factors.append(op.Reshape(here, [-1] + [1] * (len(axes) - 1 - i)))
    return factors


def _order(c: Context) -> int:
    p = int(c.attr("p", 2))
    if p < 1:
        raise c.refuse(f"p={p} is no norm", "Use p of 1 or above.")
    return p


def _without_zeros(c: Context, y: ir.Value) -> ir.Value:
    """y, and 1 where y is 0: there all of x is 0 and so is its gradient."""
    return c.op.Where(c.op.Equal(y, 0.0), 1.0, y)


def _signed_power(c: Context, x: ir.Value, p: int) -> ir.Value:
    """sign(x) |x|^(p-1)."""
    if p == 1:
        return c.op.Sign(x)
    if p == 2:
        return x
    return c.op.Mul(c.op.Sign(x), _power(c, c.op.Abs(x), p - 1))


def _power(c: Context, x: ir.Value, exponent: int) -> ir.Value:
    return c.op.Pow(x, np.asarray(exponent, c.dtype(x).numpy()))
