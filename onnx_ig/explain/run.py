"""One target's attributions: from arrays and sessions to numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_ig.errors import OnnxIgWarning
from onnx_ig.explain.integral import MARGIN, fixed_steps, norms
from onnx_ig.explain.looking import ForwardLook, Look
from onnx_ig.explain.models import Models
from onnx_ig.explain.refine import Goal, Refinement
from onnx_ig.graph.sources import Source
from onnx_ig.rewriter.batching import Batching
from onnx_ig.runtime.session import Array
from onnx_ig.runtime.sizing import Split
from onnx_ig.runtime.targets import Target, scores_of

__all__ = ["Answer", "Job", "attribute_target"]


@dataclass
class Job:
    """What is asked for, as arrays that fit together; the same for every target.

    `starts` holds one {source: baseline or None} for each reference; `path` {source: (midpoints, increments)}. With a
    `goal` there are no fixed steps.
    """

    feeds: dict[str, Array]
    n: int
    alphas: Array
    weights: Array
    split: Split
    held: dict[str, Array]
    gradients: bool
    goal: Goal | None = None
    starts: list[dict[str, Array | None]] = field(default_factory=list)
    path: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    cotangent: Array | None = None
    report: Callable[[int], object] | None = None
    close: Callable[[], object] = lambda: None

    def follow(self, progress: Callable[[int, int], None] | bool | None, targets: int) -> None:
        """Set up the progress report: rows done of all rows; samples done of all samples where there is a goal."""
        total = self.n * (len(self.alphas) if self.goal is None else 1) * len(self.starts) * targets
        if progress is None or progress is False:
            return
        if progress is True:
            from tqdm import tqdm

            bar = tqdm(total=total, unit="row", leave=False)
            self.report, self.close = bar.update, bar.close
            return
        done = 0

        def report(rows: int) -> None:
            nonlocal done
            done += rows
            progress(done, total)

        self.report = report

    def tiled(self, values: Array) -> Array:
        """[m] for every sample: [N, m]."""
        return np.broadcast_to(values.astype(np.float64), (self.n, len(values)))


@dataclass
class Answer:
    """Attributions of one target, by source."""

    attributions: dict[str, Array]
    full: dict[str, Array]
    curves: dict[str, Array]
    prediction: Array
    baseline_prediction: Array
    delta: Array
    error: Array
    gradients: Array
    forwards: Array
    unmet: Array
    stalled: Array


def attribute_target(models: Models, batching: Batching, job: Job, target: Target, prediction: Array) -> Answer:
    """Run the method for one target, over all its references."""
    cotangent = job.cotangent = target.cotangent
    totals: dict[str, Array] = {}
    difference: dict[str, Array] | None = {}
    curves: dict[str, Array] = {}
    before, error = np.zeros(job.n), np.zeros(job.n)
    unmet, stalled = np.zeros(job.n, bool), np.zeros(job.n, bool)
    gradients, forwards = np.zeros(job.n, np.int64), np.zeros(job.n, np.int64)
    types = {s.name: s.values[0].dtype.numpy() for s in models.subject.moved if s.values[0].dtype is not None}
    for start in job.starts:
        plan = models.plan(batching, start, job.held, job.gradients)
        feeds: dict[str, Array] = {**job.feeds, "ig:cotangent": cotangent}
        feeds.update({f"ig:baseline:{k}": v for k, v in start.items() if v is not None})
        feeds.update({f"ig:hold:{k}": v for k, v in job.held.items()})
        for name, (points, moves) in job.path.items():
            dtype = types.get(name, points.dtype)
            feeds[f"ig:points:{name}"] = points.astype(dtype)
            feeds[f"ig:increments:{name}"] = moves.astype(np.float64 if dtype == np.float64 else np.float32)
        if models.method.complete:
            score = _score_at(models, batching, job, start, target, feeds, plan)
            before += score
            forwards += 1
        if job.goal is None:
            found = fixed_steps(models.steps(plan), plan, feeds, job)
            curves.update(_curves(models, plan.moved, found.given, job))
        else:
            look: Look = (
                ForwardLook(models, batching, job, start, target)
                if all(s.kind == "float" for s in models.subject.moved)
                else models.probe(replace(plan, gradients=False))
            )
            found = Refinement(
                models.steps(plan), look, plan, models.subject.moved, feeds, job, (score, prediction), job.goal
            ).run()  # fmt: skip
            curves = found.given if len(job.starts) == 1 else {}
        _add(totals, found.totals)
        gradients += found.gradients
        forwards += found.forwards
        if found.error is not None and found.unmet is not None and found.stalled is not None:
            error += found.error
            unmet |= found.unmet
            stalled |= found.stalled
        if found.difference is None:
            difference = None
        elif difference is not None:
            _add(difference, found.difference)
    count = len(job.starts)
    if job.goal is None:
        error = _error(difference, batching, job, models)
    attributions, full = {}, {}
    for source in models.subject.moved:
        attributions[source.name], whole = _of_source(source, {k: v / count for k, v in totals.items()}, job)
        if whole is not None:
            full[source.name] = whole
    error /= count
    if not models.method.complete:
        nothing = np.full(job.n, np.nan)
        return Answer(
            attributions, full, curves, prediction, nothing, nothing, error, gradients, forwards, unmet, stalled
        )
    before /= count
    delta = sum(_total(attributions[s.name], batching.axis(s.name)) for s in models.subject.moved) - (
        prediction - before
    )
    features = max(1, sum(a.size for a in attributions.values()) // job.n)
    error = np.maximum(error, MARGIN * np.abs(delta) / np.sqrt(features))  # no error of that sum is smaller
    return Answer(attributions, full, curves, prediction, before, delta, error, gradients, forwards, unmet, stalled)


def _add(totals: dict[str, Array], shares: Mapping[str, Array]) -> None:
    for name, share in shares.items():
        totals[name] = totals[name].astype(np.float64) + share if name in totals else share


def _error(difference: dict[str, Array] | None, batching: Batching, job: Job, models: Models) -> Array:
    """Estimated norm of the error of the sum over all references, from two rules of fixed steps; NaN where there is one."""
    if not difference:
        return np.full(job.n, np.nan)
    axes = {name: batching.axis(name) for name in difference}
    return MARGIN * norms(difference, models.subject.moved, axes, job.n)


def _of_source(source: Source, totals: Mapping[str, Array], job: Job) -> tuple[Array, Array | None]:
    """(attribution of the shape that is fed, the same with the embedding axis or None), in the value's own type."""
    parts = []
    for value in source.values:
        dtype = value.dtype.numpy() if value.dtype is not None else np.float32
        total = totals[value.name or ""]
        with np.errstate(over="ignore", under="ignore"):
            parts.append(total.astype(dtype))
        if total.any() and not parts[-1].any():
            warnings.warn(
                f"attributions of {source.name!r} are too small for the model's {np.dtype(dtype).name} (the largest is "
                f"{np.abs(total).max():.1e}) and come out as zeros; attribute a float32 copy of the model",
                OnnxIgWarning,
                stacklevel=5,
            )
    if source.kind != "tokens":
        return parts[0], None
    whole = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
    flat = whole.sum(axis=-1, dtype=np.float64).astype(whole.dtype)
    shape = job.feeds[source.name].shape
    return (flat.reshape(shape) if flat.size == np.prod(shape) else flat), whole


def _total(attribution: Array, axis: int | None) -> Array:
    if axis is None:
        return attribution.sum(dtype=np.float64).reshape(1)
    return attribution.sum(axis=tuple(a for a in range(attribution.ndim) if a != axis), dtype=np.float64)


def _curves(models: Models, moved: Any, given: Mapping[str, Array], job: Job) -> dict[str, Array]:
    curves: dict[str, Array] = {}
    if models.method.curves:
        curves = {"alphas": job.tiled(job.alphas).copy(), "scores": given["ig:scores"]}
        curves.update({f"norms:{m.source}": given[f"ig:norms:{m.value}"] for m in moved})
        curves["slopes"] = np.asarray(sum(given[f"ig:slopes:{m.value}"].astype(np.float64) for m in moved))
    if job.gradients:
        curves.update({f"gradients:{m.source}": given[f"ig:gradients:{m.value}"] for m in moved})
    return curves


def _score_at(
    models: Models,
    batching: Batching,
    job: Job,
    start: Mapping[str, Array | None],
    target: Target,
    feeds: Mapping[str, Array],
    plan: Any,
) -> Array:
    """F at the start of the path, [N]: by the forward model where the start can be fed to it, else by a probe model."""
    if all(s.kind == "float" for s in models.subject.moved):
        fed = dict(job.feeds)
        for source in models.subject.moved:
            given, baseline = job.feeds[source.name], start.get(source.name)
            begin = np.zeros_like(given) if baseline is None else baseline
            fed[source.name] = np.where(job.held[source.name], given, begin) if source.name in job.held else begin
        outputs = models.predict(fed, batching, job.split)
        models.extra_forwards += job.n
        return scores_of(outputs[plan.output], target, plan.output_axis)
    line = replace(plan, gradients=False)
    if models.method.path == "points":
        first = {f"ig:points:{k}": take_first(v, m.axis) for m in plan.moved for k, v in [(m.source, start[m.source])]}
        scored = models.probe(line).run({**feeds, **first}, np.ones((job.n, 1)), None, job.split)
    else:
        scored = models.probe(line).run(feeds, np.zeros((job.n, 1)), None, job.split)
    return scored["ig:scores"].astype(np.float64)[:, 0]


def take_first(start: Array | None, axis: int | None) -> Array:
    """The start of a path as its only point."""
    assert start is not None
    return start[None, None] if axis is None else np.expand_dims(start, axis + 1)
