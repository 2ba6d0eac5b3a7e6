"""Fourier transforms: linear, and each the adjoint of its inverse up to the number of points."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.adding import add_rows
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import declare_zero, gradient

Values = tuple[ir.Value | None, ...]

declare_zero("MelWeightMatrix", "BlackmanWindow", "HammingWindow", "HannWindow")


@gradient("DFT")
def dft(c: Context, gy: ir.Value) -> Values:
    """y = F x over n points of one axis; x [..., L, ..., 1 or 2], y [..., n or n//2+1, ..., 2 or 1].

    Forward: gx = F^H gy = conj(F conj(gy)), what onesided leaves out being 0. Inverse: gx = F gy / n. Inverse and
    onesided (complex half spectrum to real): gx_k = w_k/n (F gy)_k with w = 1 at k = 0 and n/2, 2 between.
    Then cropped or padded from n to L, and the real part where x is real. Source: ONNX DFT-20.
    """
    op, x = c.op, c.operand(0)
    inverse, onesided = c.attr("inverse", 0) == 1, c.attr("onesided", 0) == 1
    axis = c.input(2)
    axis = op.constant(np.asarray(-2, np.int64)) if axis is None else op.Cast(axis, to=ir.DataType.INT64.value)
    length = op.Gather(op.Shape(x), axis, axis=0)
    half = inverse and onesided
    if half:
        _check_half_spectrum(c, x)
    if c.input(1) is not None:
        points = op.Cast(c.operand(1), to=ir.DataType.INT64.value)
    else:
        points = op.Mul(op.Sub(length, 1), 2) if half else length
    if half:
        g = op.Mul(op.DFT(gy, None, axis, onesided=1), _mirror_weights(c, points, axis))
    elif inverse:
        g = op.Div(op.DFT(gy, None, axis), op.Cast(points, to=c.dtype(x).value))
    else:
        g = _adjoint(c, _fitted(c, gy, points, axis) if onesided else gy, axis, x)
    if half or c.input(1) is not None:
        g = _fitted(c, g, length, axis)
    return _parts_of(c, g, x), None, None


def _fitted(c: Context, g: ir.Value, length: ir.Value, axis: ir.Value) -> ir.Value:
    """g with zeros behind, or cropped, to `length` along an axis.

    dft_length would do the same; where it is computed shape inference takes it for the length of the operand.
    """
    op = c.op
    rest = op.Sub(length, op.Gather(op.Shape(g), axis, axis=0))
    return op.Pad(g, op.Concat([0], op.Reshape(rest, [1]), axis=0), None, op.Reshape(axis, [1]))


def _adjoint(c: Context, g: ir.Value, axis: ir.Value, x: ir.Value) -> ir.Value:
    """F^H g, by conjugation: ONNX Runtime's inverse transform scales by 1/n in float32 even of float64.

    Where x is known to be real the imaginary part is left as it comes, since nobody reads it.
    """
    conjugate = np.asarray([1, -1], c.dtype(x).numpy())
    turned = c.op.DFT(c.op.Mul(g, conjugate), None, axis)
    return turned if c.size(x, -1) == [1] else c.op.Mul(turned, conjugate)


def _check_half_spectrum(c: Context, x: ir.Value) -> None:
    """Refused where the bins are known not to be those of the points: ONNX Runtime neither pads nor crops them."""
    points, axis = c.constant(c.input(1)), c.constant(c.input(2))
    if points is None or x.shape is None or (c.input(2) is not None and axis is None):
        return
    bins, n = x.shape[-2 if axis is None else int(axis.item())], int(points.item())
    if isinstance(bins, int) and bins != n // 2 + 1:
        raise c.refuse(
            f"runtimes disagree about a half spectrum of {bins} bins for {n} points",
            f"Crop or pad it to {n // 2 + 1} bins before.",
        )


def _mirror_weights(c: Context, points: ir.Value, axis: ir.Value) -> ir.Value:
    """How often each bin of the half spectrum counts in the whole one, over n; along `axis`."""
    op, x = c.op, c.operand(0)
    bins = op.Range(0, op.Add(op.Div(points, 2), 1), 1)
    once = op.Or(op.Equal(bins, 0), op.Equal(op.Mul(bins, 2), points))
    one, two = (np.asarray(v, c.dtype(x).numpy()) for v in (1, 2))
    weights = op.Div(op.Where(once, one, two), op.Cast(points, to=c.dtype(x).value))
    rank = op.Size(op.Shape(x))
    place = op.Where(op.Less(axis, 0), op.Add(axis, rank), axis)
    return op.Reshape(weights, op.Where(op.Equal(op.Range(0, rank, 1), place), [-1], [1]))


def _parts_of(c: Context, g: ir.Value, x: ir.Value) -> ir.Value:
    """The real part of g where x is real; all of it where x is complex."""
    parts = c.size(x, -1)
    return g if parts == [2] else c.op.Slice(g, [0], parts, [-1])


@gradient("STFT")
def stft(c: Context, gy: ir.Value) -> Values:
    """Frames of the signal times the window, Fourier transformed: signal [B, L, 1 or 2], y [B, frames, bins, 2].

    gframe = F^H gy; gsignal = gframe * window, overlapping frames added; gwindow = sum of gframe * frame over batch and
    frames. Source: ONNX STFT-17.
    """
    op, signal, window = c.op, c.operand(0), c.input(2)
    x = signal if c.rank(signal) == 3 else op.Reshape(signal, [0, 0, -1])  # runtimes take [B, L] for real signals
    points = _frame_length(c, x)
    axis = op.constant(np.asarray(2, np.int64))
    frames = _parts_of(c, _adjoint(c, _fitted(c, gy, points, axis), axis, x), x)
    starts = op.Mul(op.Range(0, op.Gather(op.Shape(gy), 1, axis=0), 1), _integer(c, c.operand(1)))
    at = op.Add(op.Unsqueeze(starts, [1]), op.Range(0, points, 1))
    gsignal = gwindow = None
    if c.wants(0):
        weighted = frames if window is None else op.Mul(frames, op.Unsqueeze(window, [1]))
        gsignal = c.reshape_like(_overlapped(c, weighted, at, x), signal)
    if c.wants(2):
        gwindow = op.ReduceSum(op.Mul(frames, op.Gather(x, at, axis=1)), [0, 1, 3], keepdims=0)
    return gsignal, None, gwindow, None


def _frame_length(c: Context, x: ir.Value) -> ir.Value:
    window, given = c.input(2), c.input(3)
    if given is not None:
        return _integer(c, given)
    return c.op.Size(window) if window is not None else c.op.Gather(c.op.Shape(x), 1, axis=0)


def _integer(c: Context, value: ir.Value) -> ir.Value:
    return c.op.Cast(c.op.Reshape(value, np.zeros(0, np.int64)), to=ir.DataType.INT64.value)


def _overlapped(c: Context, frames: ir.Value, at: ir.Value, x: ir.Value) -> ir.Value:
    """frames [B, frames, n, parts] added up at positions `at` [frames, n] of [B, L, parts]."""
    op = c.op
    rows = op.Reshape(at, [-1, 1])
    sizes = op.Shape(x)
    batch, length, parts = (op.Slice(sizes, [i], [i + 1]) for i in range(3))
    width = op.Mul(batch, parts)
    updates = op.Transpose(frames, perm=[1, 2, 0, 3])
    updates = op.Reshape(updates, op.Concat(op.Shape(rows, end=1), width, axis=0), allowzero=1)
    added = add_rows(op, op.Concat(length, width, axis=0), rows, updates)
    return op.Transpose(op.Reshape(added, op.Concat(length, batch, parts, axis=0), allowzero=1), perm=[1, 0, 2])
