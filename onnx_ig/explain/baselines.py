"""Baselines, held positions, references and paths, brought to arrays that fit the feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx_ig.arrays import as_array, converted
from onnx_ig.errors import OptionError
from onnx_ig.graph.sources import Source, check_ids
from onnx_ig.runtime.session import Array

__all__ = ["baseline_arrays", "held_masks", "path_arrays", "reference_arrays"]


def _by_name(given: Any, moved: Sequence[Source], argument: str) -> dict[str, Any]:
    """{source: what was given for it}; a bare value stands for every source, an array for the only one."""
    names = [s.name for s in moved]
    if isinstance(given, Mapping):
        unknown = [n for n in given if n not in names]
        if unknown:
            raise OptionError(
                f"{argument}: {unknown[0]!r} is not attributed; attributed are {', '.join(map(repr, names))}"
            )
        return dict(given)
    if len(names) == 1 or as_array(given, argument).ndim == 0:
        return dict.fromkeys(names, given)
    raise OptionError(
        f"{argument}: several inputs are attributed; give a dictionary with {', '.join(map(repr, names))}"
    )


def baseline_arrays(
    given: Any, moved: Sequence[Source], shapes: Mapping[str, Array], axes: Mapping[str, int | None]
) -> dict[str, Array | None]:
    """{source: baseline of the shape and type of what is fed}; None is the zero baseline (zero embedding for tokens).

    For integers that are cast to floats zero is what feeding 0 means.

    `shapes` holds, for every source, the array that moves (what is fed, or an internal value at the input).
    Raises OptionError for unknown names, shapes that do not fit and types that do not.
    """
    named = {} if given is None else _by_name(given, moved, "baselines")
    result: dict[str, Array | None] = {}
    for source in moved:
        value = named.get(source.name)
        if source.kind == "numbers":
            result[source.name] = _whole(0 if value is None else value, source.name, shapes, axes)
            continue
        if value is None:
            result[source.name] = None
            continue
        what = f"baselines: that of {source.name!r}"
        array = as_array(value, what)
        like = shapes[source.name]
        if source.kind == "tokens" and array.dtype.kind not in "iu":
            if array.ndim == 0 and array == 0:
                result[source.name] = None
                continue
            raise OptionError(
                f"baselines: {source.name!r} holds token ids; its baseline is None (zero embedding) or integer ids"
            )
        if array.dtype.kind not in "fiub":
            raise OptionError(f"{what} is {array.dtype}, not numbers")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise OptionError(f"{what} holds NaN or infinity")
        if source.kind == "tokens":
            check_ids(array, source, what)
        elif not array.any():
            _fit(array, like, axes[source.name], what)
            result[source.name] = None
            continue
        result[source.name] = _fit(converted(array, like.dtype, what), like, axes[source.name], what)
    return result


def _whole(given: Any, name: str, shapes: Mapping[str, Array], axes: Mapping[str, int | None]) -> Array:
    """A baseline in the integer type that is fed. Raises OptionError where it does not fit into it."""
    what = f"baselines: that of {name!r}"
    array, like = as_array(given, what), shapes[name]
    if array.dtype.kind not in "fiub" or not (array == array.astype(like.dtype)).all():
        raise OptionError(f"{what} must hold numbers that fit into {like.dtype}, the type of what is fed")
    return _fit(array.astype(like.dtype), like, axes[name], what)


def _fit(array: Array, like: Array, axis: int | None, what: str) -> Array:
    """`array` (a scalar, one row, one row with a batch axis of 1, or one a sample) in the shape of `like`, not copied."""
    if array.ndim == 0 or array.shape == like.shape:
        return np.broadcast_to(array, like.shape)
    if axis is not None:
        row = like.shape[:axis] + like.shape[axis + 1 :]
        if array.shape == row:
            array = np.expand_dims(array, axis)
        if array.ndim == like.ndim and array.shape[axis] == 1 and array.shape[:axis] + array.shape[axis + 1 :] == row:
            return np.broadcast_to(array, like.shape)
        raise OptionError(
            f"{what} has shape {list(array.shape)}; it fits as a number, as {list(row)}, or as {list(like.shape)}"
        )
    raise OptionError(f"{what} has shape {list(array.shape)}; it fits as a number or as {list(like.shape)}")


def held_masks(
    given: Any, moved: Sequence[Source], shapes: Mapping[str, Array], axes: Mapping[str, int | None]
) -> dict[str, Array]:
    """{source: bool mask of the shape of what is fed}, True where it stays at the input. Raises OptionError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise OptionError("held: give a dictionary {input: bool mask}")
    result = {}
    for name, mask in _by_name(given, moved, "held").items():
        array = as_array(mask, f"held: the mask of {name!r}")
        if array.dtype != np.bool_:
            raise OptionError(f"held: the mask of {name!r} is bool, not {array.dtype}")
        result[name] = _fit(array, shapes[name], axes[name], f"held: the mask of {name!r}")
    return result


def reference_arrays(
    given: Any, moved: Sequence[Source], shapes: Mapping[str, Array], axes: Mapping[str, int | None]
) -> list[dict[str, Array | None]]:
    """One dictionary of baselines for each of the R references. Raises OptionError."""
    if given is None:
        raise OptionError("expected_gradients needs references={input: array [R, ...]}")
    named = {n: as_array(a, f"references: those of {n!r}") for n, a in _by_name(given, moved, "references").items()}
    missing = [s.name for s in moved if s.name not in named]
    if missing:
        raise OptionError(f"references: there are none for {missing[0]!r}")
    counts = {a.shape[0] if a.ndim else 0 for a in named.values()}
    if len(counts) != 1 or 0 in counts:
        raise OptionError("references: every input needs the same number R >= 1 of references, along the first axis")
    return [
        baseline_arrays({n: a[r] for n, a in named.items()}, moved, shapes, axes) for r in range(next(iter(counts)))
    ]


def path_arrays(
    given: Any, moved: Sequence[Source], shapes: Mapping[str, Array], axes: Mapping[str, int | None]
) -> tuple[dict[str, tuple[Array, Array]], dict[str, Array]]:
    """({source: (midpoints, increments)} with a step axis after the batch axis, {source: start}).

    A path is an array [m+1, *x.shape] from the baseline to the input, or alphas [m+1, *x.shape] or [m+1, *row] or [m+1]
    that rise from 0 to 1 (then from the zero baseline). Raises OptionError where its end is not the input.
    """
    if given is None:
        raise OptionError("path_integrated_gradients needs path=array [m+1, *x.shape]")
    steps: dict[str, tuple[Array, Array]] = {}
    starts: dict[str, Array] = {}
    for name, value in _by_name(given, moved, "path").items():
        given_path = as_array(value, f"path: that of {name!r}")
        if given_path.dtype.kind not in "fiub":
            raise OptionError(f"path: that of {name!r} is {given_path.dtype}, not numbers")
        points = _points(given_path.astype(np.float64), shapes[name], axes[name], name)
        axis = axes[name]
        where = 0 if axis is None else axis + 1
        middle = np.moveaxis((points[1:] + points[:-1]) / 2, 0, where)
        moves = np.moveaxis(np.diff(points, axis=0), 0, where)
        if axis is None:
            middle, moves = middle[None], moves[None]
        steps[name] = (middle, moves)
        given_type = shapes[name].dtype
        starts[name] = points[0].astype(given_type if given_type.kind == "f" else np.float32)
    lengths = {p.shape[1 if axes[n] is None else axes[n] + 1] for n, (p, _) in steps.items()}  # type: ignore[operator]
    if len(lengths) != 1 or len(steps) != len(moved):
        raise OptionError("path: every attributed input needs a path of the same number of points")
    return steps, starts


def _points(path: Array, x: Array, axis: int | None, name: str) -> Array:
    if path.ndim < 1 or path.shape[0] < 2:
        raise OptionError(f"path: that of {name!r} needs at least 2 points along its first axis")
    if not np.isfinite(path).all():
        raise OptionError(f"path: that of {name!r} holds NaN or infinity")
    wide = x.astype(np.float64)
    scale = max(1e-12, float(np.abs(wide).max(initial=0.0)))
    row = x.shape if axis is None else x.shape[:axis] + x.shape[axis + 1 :]
    shape = path.shape[1:]
    fits = shape == x.shape or (axis is not None and shape == row)
    if fits:
        full = path if shape == x.shape else np.expand_dims(path, axis + 1)  # type: ignore[operator]
        if np.abs(full[-1] - wide).max(initial=0.0) <= 1e-5 * scale:
            return np.broadcast_to(full, (len(path), *x.shape))
    if (shape == () or fits) and np.allclose(path[0], 0) and np.allclose(path[-1], 1):
        alphas = path.reshape(len(path), *(1,) * x.ndim) if shape == () else (
            path if shape == x.shape else np.expand_dims(path, axis + 1)  # type: ignore[operator]
        )  # fmt: skip
        return alphas * wide
    if fits:
        raise OptionError(f"path: that of {name!r} must end at the input (or rise from 0 to 1, as alphas)")
    raise OptionError(
        f"path: that of {name!r} has shape {list(path.shape)}; it fits as [m+1, {', '.join(map(str, x.shape))}]"
    )
