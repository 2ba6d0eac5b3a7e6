"""Images read at real positions: which elements a sample reads, with which weights, and how the weights change.

Positions count elements along an axis, 0 at the first. Source: Jaderberg et al. 2015, "Spatial Transformer Networks",
equations 5 to 8; ONNX GridSample-20.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.adding import narrow, wide, zeros
from onnx_ig.rules.dims import Vector, dims, entry, joined, product

__all__ = ["AxisTap", "Image", "Tap", "axis_taps", "reflected"]

_CUBIC = -0.75


@dataclass(frozen=True)
class AxisTap:
    """One element along one axis, for samples [B, Q]: its place (always inside), its weight, its slope.

    `slope` is the derivative of the weight by the position. Both are 0 where the element lies outside and reads as 0.
    """

    place: ir.Value
    weight: ir.Value
    slope: ir.Value


@dataclass(frozen=True)
class Tap:
    """One element of samples [B*Q]: its row among all rows of the images, its weight, its slope along each axis."""

    row: ir.Value
    weight: ir.Value
    slopes: tuple[ir.Value, ...]


class Image:
    """Images [B, C, L...] as rows [B*P, C], P positions each: a sample reads all channels of a position at once.

    `lengths` are those of the axes L; `batch` and `channels` vectors of one.
    """

    def __init__(self, op: Emitter, x: ir.Value, batch: Vector, channels: Vector, lengths: Vector):
        self.op, self.batch, self.channels, self.lengths = op, batch, channels, lengths
        self.positions = product(op, lengths)
        flat = op.Reshape(x, joined(op, batch, channels, self.positions), allowzero=1)
        count = product(op, joined(op, batch, self.positions))
        self.rows = op.Reshape(op.Transpose(flat, perm=[0, 2, 1]), joined(op, count, channels), allowzero=1)

    @staticmethod
    def of(op: Emitter, x: ir.Value) -> Image:
        """x [N, C, L...] as it is."""
        return Image(op, x, dims(op, x, 0, 1), dims(op, x, 1, 2), dims(op, x, 2))

    def read(self, row: ir.Value) -> ir.Value:
        """Values [samples, C] at rows [samples]."""
        return self.op.Gather(self.rows, row, axis=0)

    def added(self, parts: Sequence[tuple[ir.Value, ir.Value]]) -> ir.Value:
        """The sum of values [samples, C] at rows [samples] over all parts, as images [B, C, P]."""
        op = self.op
        total = zeros(op, op.Shape(self.rows), self.rows)
        for row, values in parts:
            total = op.ScatterND(total, op.Unsqueeze(row, [1]), wide(op, values), reduction="add")
        images = op.Reshape(
            narrow(op, total, self.rows), joined(op, self.batch, self.positions, self.channels), allowzero=1
        )
        return op.Transpose(images, perm=[0, 2, 1])

    def taps(self, axes: Sequence[Sequence[AxisTap]]) -> Iterator[Tap]:
        """All elements that samples read: the products of the taps along each axis."""
        op = self.op
        batch = self.batch[0] if isinstance(self.batch, list) else op.Squeeze(self.batch, [0])
        starts = op.Unsqueeze(op.Mul(op.Range(0, batch, 1), self.positions), [1])
        for combination in itertools.product(*axes):
            row = starts
            stride: Vector = [1]
            for axis in reversed(range(len(axes))):
                place = op.Cast(combination[axis].place, to=ir.DataType.INT64.value)
                row = op.Add(row, op.Mul(place, stride))
                stride = product(op, joined(op, stride, entry(op, self.lengths, axis)))
            factors = [tap.weight for tap in combination]
            slopes = [
                _product(op, [tap.slope if other == axis else w for other, w in enumerate(factors)])
                for axis, tap in enumerate(combination)
            ]
            flat = [op.Reshape(v, [-1]) for v in (row, _product(op, factors), *slopes)]
            yield Tap(flat[0], flat[1], tuple(flat[2:]))


def _product(op: Emitter, factors: Sequence[ir.Value]) -> ir.Value:
    total = factors[0]
    for factor in factors[1:]:
        total = op.Mul(total, factor)
    return total


def axis_taps(
    op: Emitter, position: ir.Value, length: ir.Value, mode: str, padding: str, low: float = -0.5
) -> list[AxisTap]:
    """Elements that samples at `position` read along an axis of `length` (a number of the type of `position`).

    mode "nearest", "linear" or "cubic"; padding "zeros", "border" or "reflection", which folds at `low` and at
    length-1-low.
    """
    assert position.dtype is not None
    one = op.ConstantOfShape(op.Shape(position), value=ir.tensor(np.ones(1, position.dtype.numpy())))
    if mode == "nearest":
        pieces = [(op.Round(position), one, op.Sub(one, one))]
    else:
        first = op.Floor(position)
        f = op.Sub(position, first)
        if mode == "linear":
            pieces = [(first, op.Sub(1.0, f), op.Neg(one)), (op.Add(first, 1.0), f, one)]
        else:
            pieces = _cubic_pieces(op, first, f)
    last = op.Sub(length, 1.0)
    taps = []
    for place, weight, slope in pieces:
        if padding == "zeros":
            inside = op.And(op.GreaterOrEqual(place, 0.0), op.LessOrEqual(place, last))
            weight, slope = op.Where(inside, weight, 0.0), op.Where(inside, slope, 0.0)
        elif padding == "reflection":
            place, _ = reflected(op, place, low, last)
        taps.append(AxisTap(op.Max(op.Min(place, last), 0.0), weight, slope))
    return taps


def _cubic_pieces(op: Emitter, first: ir.Value, f: ir.Value) -> list[tuple[ir.Value, ir.Value, ir.Value]]:
    """Keys 1981 with a = -0.75: the elements at -1, 0, 1, 2 from the first, their weights and slopes."""
    a = _CUBIC
    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    pieces = []
    for step, distance, sign, (p, q, r, s) in (
        (-1.0, op.Add(f, 1.0), 1.0, far),
        (0.0, f, 1.0, near),
        (1.0, op.Sub(1.0, f), -1.0, near),
        (2.0, op.Sub(2.0, f), -1.0, far),
    ):
        weight = op.Add(op.Mul(op.Add(op.Mul(op.Add(op.Mul(distance, p), q), distance), r), distance), s)
        slope = op.Add(op.Mul(op.Add(op.Mul(distance, 3 * p * sign), 2 * q * sign), distance), r * sign)
        pieces.append((op.Add(first, step), weight, slope))
    return pieces


def reflected(op: Emitter, x: ir.Value, low: float, last: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x folded by reflections into [low, last-low], and the derivative of that: 1 or -1, and 0 where that is a point."""
    high = op.Sub(last, low)
    span = op.Sub(high, low)
    point = op.Equal(span, 0.0)
    safe = op.Where(point, 1.0, span)
    distance = op.Abs(op.Sub(x, low))
    turns = op.Floor(op.Div(distance, safe))
    rest = op.Sub(distance, op.Mul(turns, safe))
    odd = op.Equal(op.Mul(op.Floor(op.Mul(turns, 0.5)), 2.0), op.Sub(turns, 1.0))
    folded = op.Where(odd, op.Sub(high, rest), op.Add(rest, low))
    falling = op.Xor(op.Less(x, low), odd)
    slope = op.Add(op.Mul(op.Cast(falling, to=x.dtype.value), -2.0), 1.0)  # type: ignore[union-attr]
    return op.Where(point, op.Mul(rest, 0.0), folded), op.Where(point, 0.0, slope)
