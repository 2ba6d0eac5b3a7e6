"""Micro-batches over samples and steps: running a step model in chunks and folding what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from onnx_ig.runtime.session import Array, Session

__all__ = ["Chunking", "Progress", "StepRunner", "chunking", "take"]

Progress: TypeAlias = "Callable[[int, int], None] | None"

_ROW_ELEMENTS = 2_000_000
_MOST_ROWS = 512


@dataclass(frozen=True)
class Chunking:
    """How many samples and steps go into one run. `padded`: a run always holds exactly `samples` samples."""

    samples: int
    steps: int
    padded: bool = False


def chunking(
    samples: int, steps: int, internal_batch_size: int | None, elements: int, fixed: int | None = None
) -> Chunking:
    """Split `samples` x `steps` rows into runs of at most `internal_batch_size` rows.

    None bounds a run by the size of its input (`elements` a row), so that memory grows with neither samples nor steps.
    `fixed`: the model takes exactly that many rows, which are then one step of that many samples.
    """
    if fixed is not None:
        return Chunking(fixed, 1, padded=True)
    rows = internal_batch_size
    if rows is None:
        rows = max(1, min(_MOST_ROWS, _ROW_ELEMENTS // max(1, elements)))
    if rows >= steps:
        return Chunking(max(1, min(samples, rows // max(1, steps))), steps)
    return Chunking(1, rows)


def take(array: Array, axis: int | None, start: int, stop: int, length: int | None = None) -> Array:
    """Rows start..stop along `axis` (all where it is None), the last one repeated up to `length`."""
    if axis is None:
        return array
    stop = min(stop, array.shape[axis])
    index = np.arange(start, stop)
    if length is not None and len(index) < length:
        index = np.concatenate([index, np.full(length - len(index), stop - 1)])
    elif start == 0 and stop == array.shape[axis]:
        return array
    return np.take(array, index, axis=axis)


@dataclass
class StepRunner:
    """Runs a step model over N samples and m steps.

    `axes` the batch axis of every feed (None: the same for all samples); `step_axes` the step axis of feeds that have
    one; `gives` the batch axis of every output. `batched` False: one sample and one step a run, as two leading axes of 1.
    `rows` counts what was evaluated.
    """

    session: Session
    axes: Mapping[str, int | None]
    gives: Mapping[str, int | None]
    step_axes: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0

    def run(
        self,
        feeds: Mapping[str, Array],
        alphas: Array,
        weights: Array | None,
        chunk: Chunking,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, Array]:
        """Attributions summed over the steps in float64, per-step outputs side by side.

        `alphas` and `weights` are [N, m]. Returns the outputs of the step model over all N samples and m steps.
        """
        n, m = alphas.shape
        parts: list[dict[str, Array]] = []
        for first in range(0, max(n, 1), chunk.samples):
            last = min(first + chunk.samples, n)
            count = chunk.samples if chunk.padded else last - first
            part = {
                name: take(array, self.axes.get(name), first, last, count if chunk.padded else None)
                for name, array in feeds.items()
            }
            folded: dict[str, list[Array]] = {}
            for begin, end in _spans(m, chunk.steps):
                stepped = {
                    k: take(a, self.step_axes[k], begin, end) if k in self.step_axes else a for k, a in part.items()
                }
                stepped["ig:alphas"] = take(alphas, 0, first, last, count)[:, begin:end]
                if weights is not None:
                    stepped["ig:weights"] = take(weights, 0, first, last, count)[:, begin:end]
                for name, value in self.session.run(stepped).items():
                    folded.setdefault(name, []).append(value)
                    if name.startswith("ig:attribution:") and len(folded[name]) == 2:
                        folded[name] = [folded[name][0].astype(np.float64) + folded[name][1]]
                self.rows += count * (end - begin)
                if progress is not None:
                    progress((last - first) * (end - begin))
            parts.append({name: self._steps(name, values, last - first) for name, values in folded.items()})
        return {name: self._samples(name, [p[name] for p in parts]) for name in parts[0]}

    def _steps(self, name: str, values: list[Array], count: int) -> Array:
        """The chunks of one run over the steps: sums are one already, per-step values are joined."""
        axis = self.gives.get(name)
        step_axis = 1 if axis is None else axis + 1
        joined = values[0] if name.startswith("ig:attribution:") else np.concatenate(values, axis=step_axis)
        return joined if axis is None else take(joined, axis, 0, count)

    def _samples(self, name: str, values: list[Array]) -> Array:
        axis = self.gives.get(name)
        return values[0] if len(values) == 1 or axis is None else np.concatenate(values, axis=axis)


def _spans(length: int, size: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, length, size):
        yield begin, min(begin + size, length)
