"""Running a step model over samples and steps, and folding what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from onnx_ig.runtime.session import Array, Session
from onnx_ig.runtime.sizing import Estimate, Sizer, Split, sizer_of

__all__ = ["StepRunner", "run_rows", "take"]


def take(array: Array, axis: int | None, start: int, stop: int, length: int | None = None) -> Array:
    """Rows start..stop along `axis` (all where it is None), the last one repeated up to `length`."""
    if axis is None:
        return array
    stop = min(stop, array.shape[axis])
    if length is None or length <= stop - start:
        return array[(slice(None),) * axis + (slice(start, stop),)]
    index = np.concatenate([np.arange(start, stop), np.full(length - (stop - start), stop - 1)])
    return np.take(array, index, axis=axis)


class _Joined:
    """Blocks of samples, written behind each other into arrays made when the first one comes."""

    def __init__(self, n: int, axes: Mapping[str, int | None]):
        self.n = n
        self.axes = axes
        self.arrays: dict[str, Array] = {}

    def put(self, first: int, last: int, block: Mapping[str, Array]) -> None:
        for name, value in block.items():
            axis = self.axes.get(name)
            if axis is None or (first == 0 and last == self.n):
                self.arrays.setdefault(name, value if axis is None else take(value, axis, 0, last))
                continue
            if name not in self.arrays:
                self.arrays[name] = np.empty((*value.shape[:axis], self.n, *value.shape[axis + 1 :]), value.dtype)
            self.arrays[name][(slice(None),) * axis + (slice(first, last),)] = take(value, axis, 0, last - first)


def run_rows(
    session: Session,
    feeds: Mapping[str, Array],
    axes: Mapping[str, int | None],
    gives: Mapping[str, int | None],
    n: int,
    split: Split,
    estimate: Estimate | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Array]:
    """All outputs of a model for n samples, a row each, in as many runs as memory asks for.

    `axes` and `gives`: batch axes of feeds and outputs; None: the same for all samples. Raises RunError.
    """
    sizer = sizer_of(session, feeds, axes, split, estimate)
    joined, first = _Joined(n, gives), 0
    while first < n:
        rows = sizer.rows()
        last = min(first + rows, n)
        count = rows if split.padded else last - first
        part = {k: partial(take, a, axes.get(k), first, last, count) for k, a in feeds.items()}
        given = sizer.run(partial(_made, part), count)
        if given is None:
            continue
        joined.put(first, last, given)
        first = last
        if progress is not None:
            progress(first, n)
    return joined.arrays


@dataclass
class StepRunner:
    """Runs a step model over N samples and m steps.

    `axes` the batch axis of every feed (None: the same for all samples); `step_axes` the step axis of feeds that have
    one; `gives` the batch axis of every output; `estimate` the bytes of a row. `rows` counts what was evaluated.
    """

    session: Session
    axes: Mapping[str, int | None]
    gives: Mapping[str, int | None]
    step_axes: Mapping[str, int] = field(default_factory=dict)
    estimate: Estimate | None = None
    rows: int = 0

    def run(
        self,
        feeds: Mapping[str, Array],
        alphas: Array,
        weights: Array | None,
        split: Split,
        progress: Callable[[int], object] | None = None,
    ) -> dict[str, Array]:
        """Attributions summed over the steps in float64, per-step outputs side by side.

        `alphas` and `weights` are [N, m]. Returns the outputs of the step model over all N samples and m steps. Memory
        beside that result grows with neither: a run holds as many rows as `split` allows, whole samples where they fit.
        Raises RunError.
        """
        n = len(alphas)
        sizer = sizer_of(self.session, _shaped(feeds, self.step_axes), self.axes, split, self.estimate)
        joined, first = _Joined(n, self.gives), 0
        while first < n:
            samples, block = self._block(sizer, feeds, alphas, weights, first, progress)
            last = min(first + samples, n)
            joined.put(first, last, block)
            first = last
        return joined.arrays

    def points(
        self, feeds: Mapping[str, Array], samples: Array, alphas: Array, split: Split
    ) -> Iterator[tuple[int, int, dict[str, Array]]]:
        """Single points of the paths, in runs of any of them: (first, last, outputs of points first..last).

        `samples` and `alphas` are [r]: which sample each point belongs to, and where on its path it lies. Outputs have
        the points as their first axis: `ig:attribution:<value>` is what the point alone contributes with weight 1.
        Raises RunError.
        """
        r, sizer = len(alphas), sizer_of(self.session, feeds, self.axes, split, self.estimate)
        first = 0
        while first < r:
            rows = sizer.rows()
            last = min(first + rows, r)
            count = rows if split.padded else last - first
            at = np.minimum(np.arange(first, first + count), last - 1)
            given = sizer.run(partial(self._at, feeds, samples[at], alphas[at]), count)
            if given is None:
                continue
            self.rows += last - first
            yield first, last, {k: _leading(a, self.gives.get(k))[: last - first] for k, a in given.items()}
            first = last

    def _at(self, feeds: Mapping[str, Array], samples: Array, alphas: Array) -> dict[str, Array]:
        """Feeds of single points."""
        part = {k: a if self.axes.get(k) is None else np.take(a, samples, self.axes[k]) for k, a in feeds.items()}
        return part | {"ig:alphas": alphas[:, None].astype(np.float64), "ig:weights": np.ones((len(alphas), 1))}

    def _block(
        self,
        sizer: Sizer,
        feeds: Mapping[str, Array],
        alphas: Array,
        weights: Array | None,
        first: int,
        progress: Callable[[int], object] | None,
    ) -> tuple[int, dict[str, Array]]:
        """(how many samples from `first` on were done, what they give). Steps already summed are kept when memory runs out."""
        (n, m), fixed = alphas.shape, sizer.split.fixed
        fold, begin, samples, part = _Fold(self.gives), 0, 0, dict[str, Array]()
        while begin < m:
            rows = sizer.rows()
            wanted = samples if begin else fixed or max(1, min(n - first, rows // m))
            if wanted != samples:
                samples, last = wanted, min(first + wanted, n)
                part = {k: take(a, self.axes.get(k), first, last, samples) for k, a in feeds.items()}
                if rows < samples * m:
                    part = {**part, **self.session.place({k: a for k, a in part.items() if k not in self.step_axes})}
            end = min(m, begin + (1 if fixed else max(1, rows // samples)))
            stepped = {k: take(a, self.step_axes[k], begin, end) if k in self.step_axes else a for k, a in part.items()}
            stepped["ig:alphas"] = take(alphas, 0, first, first + samples, samples)[:, begin:end]
            if weights is not None:
                stepped["ig:weights"] = take(weights, 0, first, first + samples, samples)[:, begin:end]
            given = sizer.run(partial(dict, stepped), samples * (end - begin))
            if given is None:
                continue
            fold.add(given)
            self.rows += samples * (end - begin)
            if progress is not None:
                progress((min(first + samples, n) - first) * (end - begin))
            begin = end
        return samples, fold.result()


class _Fold:
    """Chunks of steps: attributions are summed in float64, what is given per step is joined."""

    def __init__(self, gives: Mapping[str, int | None]):
        self.gives = gives
        self.first: dict[str, Array] = {}
        self.sums: dict[str, Array] = {}
        self.steps: dict[str, list[Array]] = {}

    def add(self, given: Mapping[str, Array]) -> None:
        for name, value in given.items():
            if not name.startswith("ig:attribution:"):
                self.steps.setdefault(name, []).append(value)
            elif name not in self.first:
                self.first[name] = value
            else:
                if name not in self.sums:
                    self.sums[name] = self.first[name].astype(np.float64)
                self.sums[name] += value

    def result(self) -> dict[str, Array]:
        """Sums in the type of the chunks."""
        done = {name: self.sums[name].astype(a.dtype) if name in self.sums else a for name, a in self.first.items()}
        for name, values in self.steps.items():
            axis = self.gives.get(name)
            done[name] = np.concatenate(values, axis=1 if axis is None else axis + 1) if len(values) > 1 else values[0]
        return done


def _made(parts: Mapping[str, Callable[[], Array]]) -> dict[str, Array]:
    return {name: part() for name, part in parts.items()}


def _leading(array: Array, axis: int | None) -> Array:
    """With the axis of the points first."""
    return array[None] if axis is None else np.moveaxis(array, axis, 0)


def _shaped(feeds: Mapping[str, Array], step_axes: Mapping[str, int]) -> dict[str, Array]:
    """Feeds whose shapes say what a row is: those with steps by one of them."""
    return {k: take(a, step_axes[k], 0, 1) if k in step_axes else a for k, a in feeds.items()}
