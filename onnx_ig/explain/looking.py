"""Scores along the path without gradients: by the forward model itself where points of the path can be fed to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from onnx_ig.rewriter.batching import Batching
from onnx_ig.runtime.session import Array
from onnx_ig.runtime.sizing import Split, sizer_of
from onnx_ig.runtime.targets import Target, scores_of

if TYPE_CHECKING:
    from onnx_ig.explain.models import Models
    from onnx_ig.explain.run import Job

__all__ = ["ForwardLook", "Look"]


class Look(Protocol):
    """What gives `ig:scores` at single points of the paths: `ForwardLook`, or a `StepRunner` of a probe model."""

    def points(
        self, feeds: Mapping[str, Array], samples: Array, alphas: Array, split: Split
    ) -> Iterator[tuple[int, int, dict[str, Array]]]: ...


class ForwardLook:
    """Points between float inputs and their baselines are made here and fed to the forward model.

    Spares another session, with weights of its own, that would make them inside.
    """

    def __init__(self, models: Models, batching: Batching, job: Job, start: Mapping[str, Array | None], target: Target):
        self.models, self.batching, self.job, self.start, self.target = models, batching, job, start, target
        self.cotangent = job.cotangent if job.cotangent is not None else target.cotangent

    def points(
        self, feeds: Mapping[str, Array], samples: Array, alphas: Array, split: Split
    ) -> Iterator[tuple[int, int, dict[str, Array]]]:
        """(first, last, {"ig:scores"}) in runs of any points, as `StepRunner.points` does it. Raises RunError."""
        models, axes = self.models, self.batching.axes if self.batching.batched else {}
        own = {k: a for k, a in feeds.items() if k in models.inputs}
        sizer = sizer_of(models.forward_session, own, axes, split, models.forward_bytes)
        output, axis = models.subject.output, self.batching.axis(models.subject.output)
        first = 0
        while first < len(alphas):
            rows = sizer.rows()
            last = min(first + rows, len(alphas))
            count = rows if split.padded else last - first
            at = np.minimum(np.arange(first, first + count), last - 1)
            given = sizer.run(partial(self._at, own, axes, samples[at], alphas[at]), count)
            if given is None:
                continue
            models.extra_forwards += last - first
            cotangent = Target(None, partial(_rows, self.cotangent, axis, samples[at]))
            yield first, last, {"ig:scores": scores_of(given[output], cotangent, axis)[: last - first]}
            first = last

    def _at(
        self, own: Mapping[str, Array], axes: Mapping[str, int | None], samples: Array, alphas: Array
    ) -> dict[str, Array]:
        """Feeds of single points."""
        part = {k: _rows(a, axes.get(k), samples) for k, a in own.items()}
        for source in self.models.subject.moved:
            part[source.name] = self._moved(source.name, part[source.name], axes.get(source.name), samples, alphas)
        return part

    def _moved(self, name: str, x: Array, axis: int | None, samples: Array, alphas: Array) -> Array:
        """baseline + alpha * (x - baseline) for rows of one input, held positions as they are."""
        wide = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
        start = self.start.get(name)
        shape = [1] * x.ndim
        if axis is not None:
            shape[axis] = len(alphas)
        end, alpha = np.asarray(x, wide), np.asarray(alphas, wide).reshape(shape)
        begin = np.zeros_like(end) if start is None else np.asarray(_rows(start, axis, samples), wide)
        moved = np.asarray(begin + (end - begin) * alpha)
        if name in self.job.held:
            moved = np.where(_rows(self.job.held[name], axis, samples), x, moved)
        return moved.astype(x.dtype)


def _rows(array: Array, axis: int | None, samples: Array) -> Array:
    return array if axis is None else np.take(array, samples, axis)
