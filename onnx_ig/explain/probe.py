"""The batch probe: two rows together and each alone settle what dataflow left open or got wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from onnx_ig.errors import RunError
from onnx_ig.rewriter.batching import Batching
from onnx_ig.runtime.session import Array

__all__ = ["Shapes", "probe", "shapes_of_rows"]

_CLOSE = {2: 3e-2, 4: 2e-4, 8: 1e-9}
"""Largest relative difference of rows that agree, by bytes of the float type."""

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def shapes_of_rows(batching: Batching, feeds: Mapping[str, Array]) -> Shapes:
    """Shapes of the feeds beside the number of rows: what a probe shows holds for feeds of these.

    A graph of one node passes for a batch of one; the next graph has other edges.
    """
    shapes = []
    for name, array in sorted(feeds.items()):
        axis = batching.axes[name]
        shapes.append((name, array.shape if axis is None else array.shape[:axis] + array.shape[axis + 1 :]))
    return tuple(shapes)


def probe(batching: Batching, output: str, feeds: Mapping[str, Array], run: Run) -> Batching:
    """Run two rows together and each alone, and settle what dataflow left open or got wrong.

    `run` evaluates the forward model. Rows that agree confirm a batch. Rows that differ are run one at a time, or as many
    at a time as the file fixes. Rows that cannot be run alone are no batch at all: the feeds are one sample.
    """
    if batching.mode == "single" or (batching.rows is not None and not batching.candidate):
        return batching
    first = {n: a if batching.axes[n] is None else np.take(a, [0], batching.axes[n]) for n, a in feeds.items()}
    second = {n: _other(a, feeds[n], batching.axes[n]) for n, a in first.items()}
    axis = batching.axis(output) or 0
    try:
        alone = [np.asarray(run(row)[output]) for row in (first, second)]
    except RunError as error:
        if batching.opened:
            return replace(batching, candidate=False)
        reason = f"its rows cannot be run alone ({error})"
        return Batching(dict.fromkeys(batching.axes), mode="single", reason=reason)
    if not batching.opened and any(a.ndim <= axis or a.shape[axis] != 1 for a in alone):
        return Batching(
            dict.fromkeys(batching.axes), mode="single", reason="a row alone does not give one row of output"
        )
    try:
        both = run(
            {
                n: a if batching.axes[n] is None else np.concatenate([a, second[n]], batching.axes[n])
                for n, a in first.items()
            }
        )
        together = np.asarray(both[output])
        agree = together.shape[axis] == 2 and all(_agree(np.take(together, [i], axis), alone[i]) for i in range(2))
    except RunError:
        agree = False
    if agree:
        return Batching(batching.axes, batching.values, "free", None, "")
    reason = batching.reason or "rows together give other results than rows alone"
    return Batching(batching.axes, batching.values, "rows", batching.rows or 1, reason)


def _other(row: Array, whole: Array, axis: int | None) -> Array:
    """A second row: the next of the feeds, or the first one changed."""
    if axis is None:
        return row
    if whole.shape[axis] > 1:
        following = np.take(whole, [1], axis)
        if not np.array_equal(following, row):
            return following
    if row.dtype.kind == "f":
        return (row * 0.5 + 0.25 * np.abs(row).mean()).astype(row.dtype) if row.size else row
    return np.flip(row, -1) if row.ndim > 1 else row


def _agree(a: Array, b: Array) -> bool:
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all())
    limit = _CLOSE.get(a.dtype.itemsize, 2e-4)
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return False
    scale = max(1e-6, float(np.abs(b[finite]).max(initial=0.0)))
    return bool((np.abs(a[finite] - b[finite]) <= limit * scale).all())
