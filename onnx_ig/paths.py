"""Paths as graph nodes: samples x steps as rows of one batch, points between baseline and input, sums over the steps."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.errors import OptionError
from onnx_ig.graph.emit import Emitter

__all__ = ["Grid", "Single", "compute_type", "to_type"]


def compute_type(value: ir.Value) -> ir.DataType:
    """The type in which paths and sums over steps are computed: float64 for float64, else float32."""
    return ir.DataType.DOUBLE if value.dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT


def to_type(op: Emitter, value: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    """`value` cast to `dtype` where it has another type."""
    if dtype is None or value.dtype == dtype:
        return value
    cast = op.Cast(value, to=dtype.value)
    cast.shape = value.shape
    return cast


class Grid:
    """n samples x s steps as n*s rows: row i*s + j is step j of sample i.

    `alphas` and whatever is given per step are [n, s]. A value of a sample has its batch axis at `axis`; so have rows.
    """

    def __init__(self, op: Emitter, alphas: ir.Value):
        self.op = op
        self.shape = op.Shape(alphas)
        self.steps = op.Slice(self.shape, [1], [2])
        self.rows = op.ReduceProd(self.shape, keepdims=1)

    def repeat(self, value: ir.Value, axis: int) -> ir.Value:
        """Every sample s times: [.., n, ..] -> [.., n*s, ..], any type."""
        if value.shape is None:
            samples = self.op.Range(0, self.op.Squeeze(self.op.Slice(self.shape, [0], [1])), 1)
            every = self.op.Reshape(self.op.Expand(self.op.Unsqueeze(samples, [1]), self.shape), [-1])
            return self.op.Gather(value, every, axis=axis)
        rank = _rank(value)
        wide = self.op.Unsqueeze(value, [axis + 1])
        shape = self.op.Concat([1] * (axis + 1), self.steps, [1] * (rank - axis - 1), axis=0)
        return self.merge(self.op.Expand(wide, shape), axis, value)

    def points(self, x: ir.Value, baseline: ir.Value | None, alphas: ir.Value, axis: int) -> ir.Value:
        """baseline + alpha * (x - baseline) at every alpha, as rows; None is the zero baseline.

        Computed in float32 or float64 and given in the type of `x`.
        """
        op, dtype = self.op, compute_type(x)
        wide = op.Unsqueeze(to_type(op, x, dtype), [axis + 1])
        alpha = self.per_step(alphas, x, axis)
        if baseline is None:
            moved = op.Mul(wide, alpha)
        else:
            start = op.Unsqueeze(to_type(op, baseline, dtype), [axis + 1])
            moved = op.Add(start, op.Mul(op.Sub(wide, start), alpha))
        return to_type(op, self.merge(moved, axis, x), x.dtype)

    def per_step(self, values: ir.Value, like: ir.Value, axis: int) -> ir.Value:
        """[n, s] shaped to broadcast against [.., n, s, ..] of `like`'s rank, in its compute type."""
        rank = _rank(like)
        shape = self.op.Concat([1] * axis, self.shape, [1] * (rank - axis - 1), axis=0)
        return self.op.Reshape(to_type(self.op, values, compute_type(like)), shape)

    def merge(self, value: ir.Value, axis: int, like: ir.Value) -> ir.Value:
        """[.., n, s, ..] -> [.., n*s, ..]; `like` is one sample's value, whose rank and other dimensions it has."""
        shape = self.op.Shape(value)
        parts = [*([self.op.Slice(shape, [0], [axis])] if axis else []), self.rows]
        if _rank(like) > axis + 1:
            parts.append(self.op.Slice(shape, [axis + 2], [_rank(like) + 1]))
        rows = self.op.Reshape(value, self.op.Concat(*parts, axis=0), allowzero=1)
        rows.shape = _with_rows(like, axis)
        return rows

    def split(self, rows: ir.Value, axis: int, like: ir.Value) -> ir.Value:
        """[.., n*s, ..] -> [.., n, s, ..]."""
        shape = self.op.Shape(rows)
        parts = [*([self.op.Slice(shape, [0], [axis])] if axis else []), self.shape]
        if _rank(like) > axis + 1:
            parts.append(self.op.Slice(shape, [axis + 1], [_rank(like)]))
        return self.op.Reshape(rows, self.op.Concat(*parts, axis=0), allowzero=1)

    def weighted_sum(self, rows: ir.Value, weights: ir.Value, axis: int, like: ir.Value) -> ir.Value:
        """Sum over the steps of weight * row: [.., n*s, ..] and [n, s] -> [.., n, ..], in the compute type."""
        op = self.op
        steps = self.split(to_type(op, rows, compute_type(like)), axis, like)
        total = op.ReduceSum(op.Mul(steps, self.per_step(weights, like, axis)), [axis + 1], keepdims=0)
        total.shape = like.shape
        return total

    def norms(self, rows: ir.Value, axis: int, like: ir.Value) -> ir.Value:
        """Euclidean norm of every row: [.., n*s, ..] -> [n, s]."""
        op, rank = self.op, _rank(like)
        squares = op.Mul(*[to_type(op, rows, compute_type(like))] * 2)
        axes = [a for a in range(rank) if a != axis]
        sums = op.ReduceSum(squares, axes, keepdims=0) if axes else squares
        return op.Reshape(op.Sqrt(sums), self.shape)

    def slopes(self, rows: ir.Value, factor: ir.Value, axis: int, like: ir.Value) -> ir.Value:
        """Sum of every row times its sample's factor: [.., n*s, ..] and [.., n, ..] -> [n, s]."""
        op, rank = self.op, _rank(like)
        steps = self.split(to_type(op, rows, compute_type(like)), axis, like)
        axes = [a for a in range(rank + 1) if a not in (axis, axis + 1)]
        products = op.Mul(steps, op.Unsqueeze(factor, [axis + 1]))
        return op.ReduceSum(products, axes, keepdims=0) if axes else products


def _rank(value: ir.Value) -> int:
    if value.shape is None:
        raise OptionError(
            f"the rank of {value.name!r} is not known, and samples are batched along one of its axes: give its shape in the "
            "file, or leave batch_axes out, and what is fed is one sample"
        )
    return len(value.shape)


def _with_rows(like: ir.Value, axis: int) -> ir.Shape:
    dims = list(like.shape)  # type: ignore[arg-type]
    dims[axis] = ir.SymbolicDim("ig_rows") if not isinstance(dims[axis], int) else dims[axis]
    return ir.Shape(dims)


class Single:
    """One sample and one step a run, every value in its own shape: the grid of models that take no batch.

    The interface of `Grid`; `alphas`, weights, scores and norms are [1, 1].
    """

    def __init__(self, op: Emitter):
        self.op = op

    def repeat(self, value: ir.Value, axis: int | None) -> ir.Value:
        return value

    def points(self, x: ir.Value, baseline: ir.Value | None, alphas: ir.Value, axis: int | None) -> ir.Value:
        op, dtype = self.op, compute_type(x)
        alpha = op.Reshape(to_type(op, alphas, dtype), np.zeros(0, np.int64))
        given = to_type(op, x, dtype)
        if baseline is None:
            moved = op.Mul(given, alpha)
        else:
            start = to_type(op, baseline, dtype)
            moved = op.Add(start, op.Mul(op.Sub(given, start), alpha))
        moved.shape = x.shape
        return to_type(op, moved, x.dtype)

    def merge(self, value: ir.Value, axis: int | None, like: ir.Value) -> ir.Value:
        rows = self.op.Squeeze(value, [0, 1])
        rows.shape = like.shape
        return rows

    def split(self, rows: ir.Value, axis: int | None, like: ir.Value) -> ir.Value:
        return self.op.Unsqueeze(rows, [0, 1])

    def weighted_sum(self, rows: ir.Value, weights: ir.Value, axis: int | None, like: ir.Value) -> ir.Value:
        op, dtype = self.op, compute_type(like)
        weight = op.Reshape(to_type(op, weights, dtype), np.zeros(0, np.int64))
        return op.Mul(to_type(op, rows, dtype), weight)

    def norms(self, rows: ir.Value, axis: int | None, like: ir.Value) -> ir.Value:
        op = self.op
        squares = op.Mul(*[to_type(op, rows, compute_type(like))] * 2)
        return op.Reshape(op.Sqrt(op.ReduceSum(squares, keepdims=0)), [1, 1])

    def slopes(self, rows: ir.Value, factor: ir.Value, axis: int | None, like: ir.Value) -> ir.Value:
        op = self.op
        products = op.Mul(to_type(op, rows, compute_type(like)), factor)
        return op.Reshape(op.ReduceSum(products, keepdims=0), [1, 1])
