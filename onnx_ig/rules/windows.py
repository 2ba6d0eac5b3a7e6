"""Where the windows of a convolution or a pooling lie over the spatial axes of [N, C, L1 ... Lr].

Window n of an axis reads the positions n*stride + tap*dilation - begin for tap = 0 ... kernel-1. `begin` and `end` are
the pads; auto_pad makes them depend on the length, which may be known at run time only.
Source: ONNX Conv-11, MaxPool-12, "auto_pad".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import Vector, joined, known_dims

__all__ = [
    "Windows",
    "conv_windows",
    "crop",
    "extents_at_run_time",
    "halves",
    "pad_spatial",
    "pads_of",
    "pool_counts",
    "pool_windows",
    "reach",
    "same_pads",
    "spatial_axes",
    "spatial_shape",
]

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """Geometry of the windows over `rank` spatial axes.

    `rank` is None where nothing tells it; strides and dilations are ones then. `kernel` is None where the weights give
    it at run time, `begins` and `ends` where a length does (auto_pad SAME_UPPER or SAME_LOWER).
    """

    rank: int | None
    kernel: Ints | None
    strides: Ints | None
    dilations: Ints | None
    begins: Ints | None
    ends: Ints | None
    auto_pad: str

    @property
    def extents(self) -> Ints | None:
        """Positions that a window spans, (kernel-1)*dilation + 1."""
        if self.kernel is None or self.dilations is None:
            return None
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def slack(self) -> Ints | None:
        """The most positions that can lie behind the last window, stride-1; None where there can be none."""
        if self.strides is None or max(self.strides, default=1) == 1:
            return None
        return tuple(s - 1 for s in self.strides)

    @property
    def pads(self) -> Ints | None:
        """The attribute `pads`; None where there are none, or where they are not known."""
        if self.begins is None or self.ends is None or not any((*self.begins, *self.ends)):
            return None
        return (*self.begins, *self.ends)

    @property
    def turned_pads(self) -> Ints | None:
        """Pads with which windows over the output see every window that holds a position, at stride 1; None where the
        strides are others, where the pads are not known or where one would have to be negative.
        """
        if self.slack is not None or self.extents is None or self.begins is None or self.ends is None:
            return None
        sides = ((*self.extents, *self.extents), (*self.begins, *self.ends))
        turned = tuple(extent - 1 - pad for extent, pad in zip(*sides, strict=True))
        return turned if min(turned, default=0) >= 0 else None

    def rest(self, lengths: Sequence[int] | None) -> Ints | None:
        """Positions behind the last window on axes of these lengths; None where that is not known."""
        if lengths is None or self.strides is None or self.extents is None or self.begins is None or self.ends is None:
            return None
        axes = zip(lengths, self.begins, self.ends, self.extents, self.strides, strict=True)
        return tuple((length + begin + end - extent) % s for length, begin, end, extent, s in axes)

    @property
    def is_open(self) -> bool:
        """Whether the pads depend on a length that is known at run time only."""
        return self.begins is None and self.auto_pad in ("SAME_UPPER", "SAME_LOWER")

    def with_lengths(self, lengths: Sequence[int] | None) -> Windows:
        """The same windows where the lengths of the axes are known, so that auto_pad is explicit."""
        extents = self.extents
        if self.begins is not None or lengths is None or extents is None or self.strides is None:
            return self
        totals = [
            max((-(-length // s) - 1) * s + extent - length, 0)
            for length, s, extent in zip(lengths, self.strides, extents, strict=True)
        ]
        return self.with_totals(totals)

    def with_totals(self, totals: Sequence[int], upper: bool | None = None) -> Windows:
        """Pads of `totals` in all, the odd one at the end for `upper` (default: as auto_pad says)."""
        upper = self.auto_pad == "SAME_UPPER" if upper is None else upper
        small = tuple(t // 2 for t in totals)
        large = tuple(t - t // 2 for t in totals)
        return replace(self, begins=small if upper else large, ends=large if upper else small)


def _windows(c: Context, rank: int | None, kernel: Ints | None) -> Windows:
    ones = None if rank is None else (1,) * rank
    auto_pad = c.attr("auto_pad", "NOTSET")
    begins = ends = None
    if auto_pad in ("NOTSET", "VALID") and rank is not None:
        pads = c.attr("pads") if auto_pad == "NOTSET" else None
        pads = pads or (0,) * (2 * rank)
        begins, ends = tuple(pads[:rank]), tuple(pads[rank:])
    return Windows(rank, kernel, c.attr("strides") or ones, c.attr("dilations") or ones, begins, ends, auto_pad)


def conv_windows(c: Context) -> Windows:
    """Windows of a Conv or ConvTranspose node; the rank from attributes or any operand that has one.

    ConvTranspose: pads that output_shape or SAME decide are left open.
    """
    kernel = c.attr("kernel_shape")
    weights = c.operand(1)
    known = known_dims(weights, 2)
    if kernel is None and known is not None:
        kernel = tuple(known)
    rank = None
    for given in (kernel, c.attr("strides"), c.attr("dilations"), c.attr("output_padding")):
        rank = len(given) if rank is None and given else rank
    if rank is None and c.attr("pads"):
        rank = len(c.attr("pads")) // 2
    for value in (c.operand(0), weights, c.output):
        rank = len(value.shape) - 2 if rank is None and value.shape is not None else rank
    return _windows(c, rank, kernel)


def pool_windows(c: Context) -> Windows:
    """Windows of a pooling node, whose kernel_shape is an attribute."""
    kernel = c.attr("kernel_shape")
    if not kernel:
        raise c.refuse("its attribute kernel_shape is missing", "The model is not valid ONNX.")
    windows = _windows(c, len(kernel), tuple(kernel))
    dilated = max(windows.dilations or (1,)) > 1
    if windows.is_open and (dilated or any(s > k + 1 for s, k in zip(windows.strides or (), kernel, strict=True))):
        raise c.refuse(
            f"runtimes disagree about auto_pad={windows.auto_pad} with strides {list(windows.strides or ())} and "
            f"dilations {list(windows.dilations or ())} over a kernel of {list(kernel)}",
            "Write its pads out.",
        )
    windows = windows.with_lengths(known_dims(c.operand(0), 2))
    if windows.is_open and windows.slack is None and windows.extents is not None:
        return windows.with_totals([e - 1 for e in windows.extents])  # SAME at stride 1 asks for no length
    return windows


def spatial_axes(op: Emitter, value: ir.Value, rank: int | None) -> Vector:
    """Axes 2 ... of `value`, at run time where the rank is not known."""
    if rank is not None:
        return list(range(2, rank + 2))
    return op.Range(2, op.Squeeze(op.Shape(op.Shape(value))), 1)


def spatial_shape(op: Emitter, value: ir.Value) -> ir.Value:
    """Lengths of the spatial axes as an int64 vector."""
    known = known_dims(value, 2)
    return op.Shape(value, start=2) if known is None else op.constant(np.asarray(known, np.int64))


def crop(op: Emitter, value: ir.Value, begins: ir.Value | None, like: ir.Value, rank: int | None) -> ir.Value:
    """`value` from `begins` (None: the first position) on, as long as `like` on every spatial axis."""
    lengths, axes = spatial_shape(op, like), spatial_axes(op, value, rank)
    if begins is not None:
        return op.Slice(value, begins, op.Add(begins, lengths), axes)
    starts = op.Sub(lengths, lengths) if rank is None else [0] * rank
    return op.Slice(value, starts, lengths, axes)


def pads_of(op: Emitter, windows: Windows, x: ir.Value, y: ir.Value) -> tuple[Vector, Vector]:
    """Pads before and behind the spatial axes of `x`, over which `y` has one entry a window."""
    if windows.begins is not None and windows.ends is not None:
        return list(windows.begins), list(windows.ends)
    kernel = op.constant(np.asarray(windows.kernel, np.int64))
    return same_pads(op, windows, kernel, spatial_shape(op, x), op.Shape(y, start=2))


def pool_counts(c: Context, windows: Windows) -> Vector:
    """Windows along each spatial axis of a pooling node."""
    lengths = known_dims(c.operand(0), 2)
    if lengths is None or windows.begins is None or windows.ends is None:
        return c.op.Shape(c.output, start=2)
    counts = []
    axes = zip(lengths, windows.begins, windows.ends, windows.extents or (), windows.strides or (), strict=True)
    for length, begin, end, extent, s in axes:
        room, up = length + begin + end - extent, c.attr("ceil_mode", 0) == 1
        count = (-(-room // s) if up else room // s) + 1
        if up and (count - 1) * s >= length + begin:
            raise c.refuse(
                "onnx's shape inference counts a window that its ceil_mode would start in the end pads, and runtimes "
                "leave it out",
                "Write the pads for ceil_mode=0.",
            )
        counts.append(count)
    return counts


def reach(op: Emitter, windows: Windows, counts: Vector) -> Vector:
    """Positions from the start of the first window to the end of the last, (count-1)*stride + extent."""
    strides, extents = list(windows.strides or ()), list(windows.extents or ())
    if isinstance(counts, list):
        return [(n - 1) * s + e for n, s, e in zip(counts, strides, extents, strict=True)]
    return op.Add(op.Mul(op.Sub(counts, 1), strides), extents)


def pad_spatial(
    op: Emitter,
    value: ir.Value,
    begins: Vector,
    ends: Vector,
    fill: np.ndarray | None = None,
) -> ir.Value:
    """Zeros (or `fill`) around the spatial axes; negative amounts crop."""
    return op.Pad(value, joined(op, [0, 0], begins, [0, 0], ends), fill)


def same_pads(
    op: Emitter, windows: Windows, kernel: ir.Value, lengths: ir.Value, count: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Pads (begin, end) that auto_pad SAME gives `count` windows over `lengths`, at run time."""
    strides: list[int] | int = list(windows.strides) if windows.strides else 1
    last = op.Mul(op.Sub(count, 1), strides)
    total = op.Max(op.Sub(op.Add(last, extents_at_run_time(op, windows, kernel)), lengths), 0)
    return halves(op, total, windows.auto_pad == "SAME_UPPER")


def extents_at_run_time(op: Emitter, windows: Windows, kernel: ir.Value) -> ir.Value:
    """(kernel-1)*dilation + 1 as an int64 vector."""
    if windows.extents is not None:
        return op.constant(np.asarray(windows.extents, np.int64))
    dilations: list[int] | int = list(windows.dilations) if windows.dilations else 1
    return op.Add(op.Mul(op.Sub(kernel, 1), dilations), 1)


def halves(op: Emitter, total: ir.Value, upper: bool) -> tuple[ir.Value, ir.Value]:
    """`total` (not negative) as (begin, end) pads, the odd one at the end for `upper`."""
    small = op.Div(total, 2)
    large = op.Sub(total, small)
    return (small, large) if upper else (large, small)
