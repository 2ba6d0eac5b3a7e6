"""Which entry of the output is explained: targets as indices and as cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_ig.arrays import as_array, converted
from onnx_ig.errors import OptionError
from onnx_ig.runtime.session import Array

__all__ = ["Target", "check_target", "resolve_targets", "scores_of"]


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


def check_target(target: Any, shape: Sequence[int | None], axis: int | None) -> None:
    """Raise OptionError where `target` is none for an output of that shape, as `resolve_targets` would.

    `shape` is what is known of the output before the model runs: None for a dimension that is not; `axis` its batch axis.
    """
    if isinstance(target, list) and not target:
        raise OptionError("target=[]: the list of targets is empty")
    for one in target if isinstance(target, list) else [target]:
        if not _predicted(one):
            _check(one, shape, axis)


def resolve_targets(target: Any, output: Array, axis: int | None) -> tuple[list[Target], bool]:
    """The targets asked for, checked against `output`, and whether they were a list (a target axis K is wanted).

    `axis` is the batch axis of the output; None: one sample, and indices go into all axes. None and "predicted" are the
    arg max over all non-batch axes; an int or tuple is one index for all samples, negative ones counted from the end (0
    or () for an output of one value a sample); an integer array [N] or [N, rank-1] one for each; a list one target per
    entry; a float array a cotangent of the output's shape, or of one row's, with or without a batch axis of 1.

    Raises OptionError where a target is out of range or of the wrong rank.
    """
    check_target(target, output.shape, axis)
    if isinstance(target, list):
        return [_one(t, output, axis) for t in target], True
    return [_one(target, output, axis)], False


def _predicted(target: Any) -> bool:
    return target is None or (isinstance(target, str) and target == "predicted")


def _one(target: Any, output: Array, axis: int | None) -> Target:
    """A target that is checked, for every row."""
    rows = np.moveaxis(output, axis, 0) if axis is not None else output[None]
    n, sizes = len(rows), rows.shape[1:]
    if not _predicted(target):
        array = as_array(target, "target")
        if array.dtype.kind == "f" and array.size:
            return _cotangent(array, output, axis)
        index = array.astype(np.int64).reshape(-1, len(sizes)) if sizes else np.zeros((1, 0), np.int64)
        index = np.where(index < 0, index + np.asarray(sizes, np.int64), index)
        return _indexed(np.broadcast_to(index, (n, len(sizes))), rows, axis)
    flat = rows.reshape(n, -1)
    if n and not flat.shape[1]:
        raise OptionError(f"the output has shape {output.shape} and so no entry to explain")
    best = np.argmax(np.where(np.isnan(flat), -np.inf, flat), axis=1) if n else np.zeros(0, np.int64)
    found = np.stack(np.unravel_index(best, sizes), axis=1) if sizes else np.zeros((n, 0))
    return _indexed(found.astype(np.int64), rows, axis)


def _check(target: Any, shape: Sequence[int | None], axis: int | None) -> None:
    """Whether one target fits an output, as far as its shape is known."""
    if isinstance(target, str):
        raise OptionError(f"target={target!r}: give 'predicted', an index, a tuple of indices, an array or a list")
    array = as_array(target, "target")
    if array.dtype.kind == "f" and (array.size or not isinstance(target, tuple)):
        _check_cotangent(array, shape, axis)
        return
    if array.size and array.dtype.kind not in "iu":
        raise OptionError(f"target={_short(target)}: indices are whole numbers of 64 bits, not {array.dtype}")
    places = [a for a in range(len(shape)) if a != axis]
    rank, told = len(places), f"the output has the shape {_shown(shape, axis)}"
    if not rank and array.size <= 1 and not array.any():
        return  # 0, () and (0,) are the only value
    if isinstance(target, tuple) or array.ndim == 0:
        if (array.shape or (1,)) != (rank,):
            wanted = {0: "0 or ()", 1: "one index"}.get(rank, f"a tuple of {rank} indices")
            raise OptionError(f"target={target}: {told}; give {wanted}")
        array = array.reshape(1, rank)
    else:
        n = 1 if axis is None else shape[axis]
        if array.ndim == 1 and rank == 1:
            array = array[:, None]
        if not rank and array.shape in ((n,), (n, 1), (n, 0)) and not array.any():
            return
        if not rank:
            raise OptionError(f"target: {told}; give 0 or ()")
        if array.ndim != 2 or array.shape[1] != rank or n not in (None, len(array)):
            one = f"[{'N' if n is None else n}, {rank}]"
            raise OptionError(
                f"target: {told}; an array of an index for every sample has the shape {one}, not {list(np.shape(target))} "
                "(a list means several targets for every sample)"
            )
    for position, place in enumerate(places):
        size = shape[place]
        if size is None:
            continue
        bad = array[:, position][(array[:, position] >= size) | (array[:, position] < -size)]
        if len(bad):
            span = f"goes from {-size} to {size - 1}" if size else "there is none"
            raise OptionError(f"target: {bad[0]} is out of range; {told}, and an index along axis {place} {span}")


def _check_cotangent(array: Array, shape: Sequence[int | None], axis: int | None) -> None:
    wide = _widened(array, len(shape), axis)
    fits = wide.ndim == len(shape) and all(
        d is None or d == w or (a == axis and w == 1) for a, (d, w) in enumerate(zip(shape, wide.shape, strict=True))
    )
    if not fits:
        row = [d for a, d in enumerate(shape) if a != axis]
        also = "" if axis is None else f" or, for all samples alike, {_shown(row, None)}"
        raise OptionError(
            f"target: floats are a cotangent, of the output's shape {_shown(shape, axis)}{also}, not {list(array.shape)} "
            "(an index is a whole number)"
        )
    if not np.isfinite(array).all():
        raise OptionError("target: the cotangent holds NaN or infinity")


def _widened(array: Array, rank: int, axis: int | None) -> Array:
    """One row as a batch of one."""
    return np.expand_dims(array, axis) if axis is not None and array.ndim == rank - 1 else array


def _shown(shape: Sequence[int | None], axis: int | None) -> str:
    dims = ["N" if d is None and a == axis else "?" if d is None else str(d) for a, d in enumerate(shape)]
    return f"[{', '.join(dims)}]"


def _short(target: Any) -> str:
    text = repr(target)
    return text if len(text) <= 60 else text[:57] + "..."


def _indexed(index: Array, rows: Array, axis: int | None) -> Target:
    shape, dtype = rows.shape, rows.dtype

    def make() -> Array:
        cotangent = np.zeros(shape, dtype)
        cotangent[(np.arange(len(index)), *index.T)] = 1
        return np.moveaxis(cotangent, 0, axis) if axis is not None else np.asarray(cotangent[0])

    return Target(index, make)


def _cotangent(array: Array, output: Array, axis: int | None) -> Target:
    given = converted(_widened(array, output.ndim, axis), output.dtype, "target: the cotangent")
    whole = np.asarray(np.broadcast_to(given, output.shape), order="C")
    return Target(None, lambda: whole)


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
