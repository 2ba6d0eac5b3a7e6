"""Checking what is fed against what a model takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_ig.errors import FeedError
from onnx_ig.runtime.session import Array

__all__ = ["Port", "check_feeds", "check_ids", "ports_of", "samples_in"]

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint64)": np.uint64,
    "tensor(uint32)": np.uint32,
    "tensor(uint16)": np.uint16,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


@dataclass(frozen=True)
class Port:
    """An input of a session. `type` as ONNX Runtime writes it; `shape` None where the file does not say the rank."""

    name: str
    type: str
    shape: Sequence[int | str | None] | None


def ports_of(inputs: Mapping[str, Any], unranked: Collection[str] | None = None) -> dict[str, Port]:
    """What a session says of its inputs.

    ONNX Runtime gives a scalar and an input of unknown rank the same shape, []; `unranked` names the latter, None: all
    that look so may be of any rank.
    """
    return {
        n: Port(n, i.type, None if not i.shape and (unranked is None or n in unranked) else i.shape)
        for n, i in inputs.items()
    }


def check_feeds(
    inputs: Mapping[str, Port],
    feeds: Mapping[str, Any] | Any,
    axes: Mapping[str, int | None] | None = None,
    defaults: Collection[str] = (),
) -> dict[str, Array]:
    """The feeds as arrays of the types that the model takes.

    `inputs` maps names to ports (`ports_of`). A bare array stands for the only input.
    Floats of another width and integers that fit are converted; anything else is an error, as are missing and unknown
    names, ranks and fixed dimensions that do not fit (but along the batch axis that `axes` gives: any number of rows is
    brought to the number that a run takes), NaN and inf. `defaults` are inputs of the file that have a value in it: they
    are constants here, and not fed.

    Raises FeedError.
    """
    if not isinstance(feeds, Mapping):
        if len(inputs) != 1:
            raise FeedError(
                f"the model has {len(inputs)} inputs; feed a dictionary with {', '.join(map(repr, inputs))}"
            )
        feeds = {next(iter(inputs)): feeds}
    unknown = [n for n in feeds if n not in inputs]
    if unknown and unknown[0] in defaults:
        raise FeedError(
            f"the input {unknown[0]!r} has a value in the file (an initializer of its name), which is a constant of the "
            "model here: leave it out of the feeds, or feed it after taking that initializer out of the file"
        )
    if unknown:
        raise FeedError(f"the model has no input {unknown[0]!r}; its inputs are {', '.join(map(repr, inputs))}")
    missing = [n for n in inputs if n not in feeds]
    if missing:
        raise FeedError(
            f"nothing is fed for the input {missing[0]!r}; the model's inputs are {', '.join(map(repr, inputs))}"
        )
    return {name: _check(inputs[name], feeds[name], (axes or {}).get(name)) for name in inputs}


def _check(declared: Port, given: Any, batch: int | None) -> Array:
    name = declared.name
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise FeedError(f"input {name!r}: what is fed is not an array ({error})") from error
    wanted = _TYPES.get(declared.type)
    if wanted is not None and array.dtype != wanted:
        array = _convert(name, array, np.dtype(wanted))
    shape = declared.shape
    if shape is not None and array.ndim != len(shape):
        raise FeedError(f"input {name!r} has {len(shape)} axes {_dims(shape)}, and what is fed has shape {array.shape}")
    for axis, dim in enumerate(shape or ()):
        if isinstance(dim, int) and dim > 0 and array.shape[axis] != dim and axis != batch:
            raise FeedError(
                f"input {name!r} takes {dim} along axis {axis} ({_dims(shape)}), and what is fed has shape {array.shape}"
            )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise FeedError(f"input {name!r} holds NaN or infinity, first at index {where}")
    return array


def check_ids(feeds: Mapping[str, Array], counts: Mapping[str, int], axes: Mapping[str, int | None]) -> None:
    """Raises FeedError where ids are fed that their table does not have; `counts` tells how many rows it has."""
    for name, count in counts.items():
        if name not in feeds:
            continue
        wrong = (feeds[name] >= count) | (feeds[name] < -count)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            axis = axes.get(name)
            sample = "" if axis is None else f" of sample {place[axis]}"
            raise FeedError(
                f"input {name!r} holds the id {feeds[name][place]}{sample}, first at index {list(place)}; its table has "
                f"{count} rows, so ids go from 0 to {count - 1} (or from {-count}, counted from the end)"
            )


def _convert(name: str, array: Array, wanted: np.dtype[Any]) -> Array:
    if array.dtype.kind in "fiub" and wanted.kind == "f":
        with np.errstate(over="ignore"):
            narrow = array.astype(wanted)
        if not np.isfinite(narrow).all() and np.isfinite(array).all():
            raise FeedError(f"input {name!r} is {wanted}, and what is fed holds numbers too large for it")
        return narrow
    if array.dtype.kind in "iu" and wanted.kind in "iu":
        converted = array.astype(wanted)
        if (converted == array).all():
            return converted
        raise FeedError(f"input {name!r} is {wanted}, and what is fed does not fit into it")
    raise FeedError(f"input {name!r} is {wanted}, and what is fed is {array.dtype}")


def _dims(shape: Any) -> str:
    return "[" + ", ".join(str(d) if d is not None else "?" for d in shape) + "]"


def samples_in(feeds: Mapping[str, Array], axes: Mapping[str, int | None]) -> int:
    """The number of samples: the length of the batch axes. Raises FeedError where inputs disagree."""
    counts = {name: feeds[name].shape[axis] for name, axis in axes.items() if axis is not None and name in feeds}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} in {name!r}" for name, count in counts.items())
        raise FeedError(f"the inputs hold different numbers of samples: {told}")
    return next(iter(counts.values()), 1)
