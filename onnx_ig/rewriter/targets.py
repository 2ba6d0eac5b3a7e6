"""The target of a served model as graph nodes: which entry of the output is explained, and its cotangent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.errors import OptionError
from onnx_ig.graph.emit import Emitter
from onnx_ig.paths import compute_type, to_type

__all__ = ["GraphTarget", "target_nodes"]


@dataclass(frozen=True)
class GraphTarget:
    """What a target is in a graph.

    `index` int64 [N, max(rank-1, 1)] ([1, max(rank, 1)] without a batch), `cotangent` of the output's shape, `picked` the
    score that it selects, [N, 1], float32 or float64.
    """

    index: ir.Value
    cotangent: ir.Value
    picked: ir.Value


def target_nodes(
    op: Emitter, y: ir.Value, target: str | int | tuple[int, ...] | ir.Value, batched: bool
) -> GraphTarget:
    """Select one entry of `y` a row, whose leading axis is the batch where `batched`.

    `target`: "predicted" (arg max over all non-batch axes), an index, a tuple of indices, or an int64 value
    [N, rank-1], negative entries counted from the end. `picked` is read by an operator that fails where the index is out of
    range, so that a wrong index never explains nothing, or another entry, in silence.
    Raises OptionError where an index does not fit the output's known axes.
    """
    shape = op.Shape(y)
    rank = 1  # of the axes that an index goes into; an output of unknown rank counts as one axis
    sizes: list[ir.Value] = []
    if y.shape is not None:
        rank = len(y.shape) - batched
        sizes = [op.Slice(shape, [i], [i + 1]) for i in range(batched, len(y.shape))]
    elif batched:
        raise OptionError(
            f"the rank of the output {y.name!r} is not known, so no entry of it can be chosen in the graph"
        )
    strides = _strides(op, sizes)
    lead = op.Slice(shape, [0], [1]) if batched else np.ones(1, np.int64)
    flat = op.Reshape(y, op.Concat(lead, [-1], axis=0))
    if isinstance(target, ir.Value):
        index = _from_start(op, target, sizes or [op.Slice(op.Shape(flat), [1], [2])])
        position = _position(op, index, strides)
    elif target == "predicted":
        position = op.ArgMax(to_type(op, flat, compute_type(y)), axis=1, keepdims=1)
        index = position if rank <= 1 else op.Mod(op.Div(position, strides), op.Concat(*sizes, axis=0))
    else:
        entries = _checked(target, y, batched)
        index = op.Expand(np.asarray([entries or (0,)], np.int64), op.Concat(lead, [1], axis=0))
        position = _position(op, index, strides)
    entry = op.Range(0, op.Gather(op.Shape(flat), 1), 1)
    cotangent = op.Reshape(op.Cast(op.Equal(entry, position), to=y.dtype.value), shape)  # type: ignore[union-attr]
    cotangent.shape = y.shape
    asked = target if isinstance(target, ir.Value) else index  # what is out of range stays so
    if rank <= 1 or target == "predicted":
        picked = op.GatherElements(to_type(op, flat, compute_type(y)), asked if rank <= 1 else position, axis=1)
    else:  # reads axis by axis: a flat position would hide an index that is out of range along one of them
        picked = op.Reshape(op.GatherND(to_type(op, y, compute_type(y)), asked, batch_dims=int(batched)), [-1, 1])
    return GraphTarget(index, cotangent, picked)


def _checked(target: str | int | tuple[int, ...], y: ir.Value, batched: bool) -> tuple[int, ...]:
    if isinstance(target, str):
        raise OptionError(f"target={target!r}: give 'predicted', 'input', an index or a tuple of indices")
    entries = target if isinstance(target, tuple) else (target,)
    if any(isinstance(i, bool) or not isinstance(i, int | np.integer) for i in entries):
        raise OptionError(f"target={target!r}: indices are whole numbers")
    entries = tuple(map(int, entries))
    if y.shape is None:
        raise OptionError("target: the output's rank is not known, so an index cannot be placed; use 'predicted'")
    sizes = list(y.shape)[1:] if batched else list(y.shape)
    if not sizes and entries == (0,):
        return ()
    told = f"the output {y.name!r} has the shape {y.shape}"
    if len(entries) != len(sizes):
        wanted = {0: "0 or ()", 1: "one index"}.get(len(sizes), f"a tuple of {len(sizes)} indices")
        raise OptionError(f"target={target}: {told}; give {wanted}")
    placed = []
    for axis, (entry, size) in enumerate(zip(entries, sizes, strict=True), int(batched)):
        if isinstance(size, int):
            if not -size <= entry < size:
                raise OptionError(
                    f"target: {entry} is out of range; {told}, and an index along axis {axis} goes from {-size} to {size - 1}"
                )
            entry %= size
        elif entry < 0:
            raise OptionError(f"target: {entry} counts from the end of axis {axis}; {told}, so count from the start")
        placed.append(entry)
    return tuple(placed)


def _strides(op: Emitter, sizes: list[ir.Value]) -> ir.Value | None:
    """[prod(sizes[1:]), ..., sizes[-1], 1] at run time; None for fewer than two axes."""
    if len(sizes) < 2:
        return None
    strides: list[ir.Value] = [op.constant(np.ones(1, np.int64))]
    for size in reversed(sizes[1:]):
        strides.insert(0, op.Mul(strides[0], size))
    return op.Concat(*strides, axis=0)


def _from_start(op: Emitter, index: ir.Value, sizes: list[ir.Value]) -> ir.Value:
    """Indices [N, rank-1] with negative ones counted from the start."""
    return op.Where(op.Less(index, 0), op.Add(index, op.Concat(*sizes, axis=0)), index)


def _position(op: Emitter, index: ir.Value, strides: ir.Value | None) -> ir.Value:
    """Flat position [N, 1] of indices [N, rank-1]."""
    return index if strides is None else op.ReduceSum(op.Mul(index, strides), [1], keepdims=1)
