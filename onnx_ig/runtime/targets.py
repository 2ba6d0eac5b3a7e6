"""Which entry of the output is explained: targets as indices and as cotangents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_ig.arrays import as_array, converted
from onnx_ig.errors import OptionError
from onnx_ig.runtime.session import Array

__all__ = ["Target", "resolve_targets", "scores_of"]


@dataclass(frozen=True)
class Target:
    """One target for every sample.

    `index` int64 [N, rank-1] into the non-batch axes (None for a cotangent). `cotangent` of the output's shape is made
    when it is asked for: of many targets one at a time takes memory.
    """

    index: Array | None
    make: Callable[[], Array]

    @property
    def cotangent(self) -> Array:
        return self.make()


def resolve_targets(target: Any, output: Array, axis: int | None) -> tuple[list[Target], bool]:
    """The targets asked for, checked against `output`, and whether they were a list (a target axis K is wanted).

    `axis` is the batch axis of the output; None: one sample, and indices go into all axes. None and "predicted" are the
    arg max over all non-batch axes; an int or tuple is one index for all samples; an integer array [N] or [N, rank-1]
    one for each; a list one target per entry; a float array a cotangent of the output's shape (or of one row's).

    Raises OptionError where a target is out of range or of the wrong rank.
    """
    if isinstance(target, list):
        if not target:
            raise OptionError("target=[]: the list of targets is empty")
        return [_one(t, output, axis) for t in target], True
    return [_one(target, output, axis)], False


def _one(target: Any, output: Array, axis: int | None) -> Target:
    rows = np.moveaxis(output, axis, 0) if axis is not None else output[None]
    sizes = rows.shape[1:]
    n = rows.shape[0]
    if target is None or (isinstance(target, str) and target == "predicted"):
        flat = rows.reshape(n, -1)
        if n and not flat.shape[1]:
            raise OptionError(f"the output has shape {output.shape} and so no entry to explain")
        best = np.argmax(np.where(np.isnan(flat), -np.inf, flat), axis=1) if n else np.zeros(0, np.int64)
        index = np.stack(np.unravel_index(best, sizes), axis=1) if sizes else np.zeros((n, 0))
        return _indexed(index.astype(np.int64), rows, axis)
    if isinstance(target, str):
        raise OptionError(f"target={target!r}: give 'predicted', an index, a tuple of indices, an array or a list")
    array = as_array(target, "target")
    if array.dtype.kind == "f":
        return _cotangent(array, output, rows, axis)
    if array.dtype.kind not in "iu":
        raise OptionError(f"target: indices are whole numbers, not {array.dtype}")
    return _indexed(_indices(target, array, n, sizes), rows, axis)


def _indices(target: Any, array: Array, n: int, sizes: tuple[int, ...]) -> Array:
    """[n, rank-1] within range, negative ones counted from the end."""
    rank = len(sizes)
    if isinstance(target, tuple):
        if array.shape != (rank,):
            raise OptionError(
                f"target={target}: the output has {rank} axes beside the batch, {list(sizes)}; give {rank} indices"
            )
        index = np.broadcast_to(array, (n, rank))
    elif array.ndim == 0:
        if rank == 0:
            if array != 0:
                raise OptionError(f"target={int(array)}: the output has one value a sample; only 0 fits")
            index = np.zeros((n, 0), np.int64)
        elif rank == 1:
            index = np.broadcast_to(array, (n, 1))
        else:
            raise OptionError(
                f"target={int(array)}: the output has {rank} axes beside the batch, {list(sizes)}; give a tuple"
            )
    else:
        if array.ndim == 1 and rank <= 1:
            array = array[:, None]
        if rank == 0 and array.shape == (n, 1) and not array.any():
            array = np.zeros((n, 0), np.int64)
        if array.shape != (n, rank):
            raise OptionError(
                f"target: an array of indices for {n} samples and an output with axes {list(sizes)} beside the batch has shape "
                f"[{n}, {rank}], not {list(np.shape(target))} (a list means several targets for every sample)"
            )
        index = array
    for position, size in enumerate(sizes):
        bad = (index[:, position] >= size) | (index[:, position] < -size)
        if bad.any():
            wrong = int(index[np.argmax(bad), position])
            raise OptionError(
                f"target {wrong} is out of range: the output has {size} entries there (axes {list(sizes)})"
            )
    limits = np.asarray(sizes, np.int64)
    return np.where(index < 0, index + limits, index).astype(np.int64)


def _indexed(index: Array, rows: Array, axis: int | None) -> Target:
    shape, dtype = rows.shape, rows.dtype

    def make() -> Array:
        cotangent = np.zeros(shape, dtype)
        cotangent[(np.arange(len(index)), *index.T)] = 1
        return np.moveaxis(cotangent, 0, axis) if axis is not None else np.asarray(cotangent[0])

    return Target(index, make)


def _cotangent(array: Array, output: Array, rows: Array, axis: int | None) -> Target:
    if array.shape == rows.shape[1:] and axis is not None:
        array = np.moveaxis(np.broadcast_to(array, rows.shape), 0, axis)
    if array.shape != output.shape:
        raise OptionError(f"target: a cotangent has the output's shape {list(output.shape)}, not {list(array.shape)}")
    if not np.isfinite(array).all():
        raise OptionError("target: the cotangent holds NaN or infinity")
    given = np.asarray(converted(array, output.dtype, "target: the cotangent"), order="C")
    return Target(None, lambda: given)


def scores_of(output: Array, target: Target, axis: int | None) -> Array:
    """sum(output * cotangent) a sample, float64 [N]; entries of zero cotangent do not count."""
    if target.index is not None:
        rows = output[None] if axis is None else np.moveaxis(output, axis, 0)
        return np.asarray(rows[(np.arange(len(rows)), *target.index.T)], np.float64)
    wide, cotangent = output.astype(np.float64), target.cotangent
    with np.errstate(invalid="ignore"):
        product = np.where(cotangent == 0, 0.0, wide * cotangent.astype(np.float64))
    if axis is None:
        return product.sum(keepdims=False).reshape(1)
    return product.sum(axis=tuple(a for a in range(output.ndim) if a != axis))
