"""Integrals along straight paths to a tolerance: gradients go where a sample needs them, until two rules agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from onnx_ig.explain.integral import MARGIN, Integral
from onnx_ig.explain.looking import Look
from onnx_ig.explain.stalls import Stall
from onnx_ig.graph.sources import Source
from onnx_ig.refinement import Bisected, Need, Nested, Rule, cells_of
from onnx_ig.rewriter.step import StepPlan
from onnx_ig.runtime.session import Array
from onnx_ig.runtime.sizing import Split
from onnx_ig.runtime.steps import StepRunner

if TYPE_CHECKING:
    from onnx_ig.explain.run import Job

__all__ = ["AGREE", "CAP", "LEAST", "RANGE", "ROUNDING", "Goal", "Refinement"]

CAP = 1000
"""Most gradients of a sample where n_steps does not say."""

AGREE = 10
"""Two rules agree where they differ by no more than this many tolerances of the norm of the attributions. On
EfficientNet-Lite0 the answer is then as good as 50 uniform steps make it, for fewer gradients; see
tools/bench_convergence.py for other factors."""
RANGE = 0.05
"""Completeness is asked for no more closely than this many tolerances of the range of the score along the path."""
_PROBE = 8
"""Stretches of the path between scores that are looked at before gradients are placed."""
_CELLS = 4
LEAST = 2 * _CELLS + 1
"""Gradients of a sample without which there are no two rules to compare."""
_RIDGE = 0.5
"""A smooth score that changes by more than this share of all its change in one stretch gets cells of its own there."""
ROUNDING = 8.0
"""Roundings of the largest score, or of the norm of the attributions, that are no miss."""
_EXPECTED = 64
"""Values that a sample is expected to need, for how many samples are worked on at a time."""
_MOST_SAMPLES = 256


@dataclass(frozen=True)
class Goal:
    """`tolerance` of completeness and agreement, at most `cap` gradients a sample; `kinks` of the path, by operator."""

    tolerance: float
    cap: int
    kinks: Sequence[str]

    @property
    def rule_name(self) -> str:
        """What the result says of the rule."""
        return "adaptive trapezoid" if self.kinks else "nested fejer"

    def rule(self, alphas: Array, scores: Array) -> Rule:
        """The rule for one sample, placed by its scores along the path."""
        ends = float(scores[0]), float(scores[-1])
        if self.kinks:
            return Bisected(cells_of(alphas, scores, _CELLS), *ends)
        change = np.abs(np.diff(scores))
        cells = 3 if change.max() > _RIDGE * change.sum() and self.cap >= 3 * Nested.FIRST else 1
        return Nested(cells_of(alphas, scores, cells), *ends)


@dataclass
class _Sample:
    """A sample in progress.

    `floor` is the smallest delta that is asked for, `least` the change of the score below which attributions are as good as
    none; `track` holds alphas, scores and slopes.
    """

    index: int
    rule: Rule
    change: float
    floor: float
    least: float
    fresh: list[Array] = field(default_factory=list)
    scores: Array = field(default_factory=lambda: np.zeros(0))
    track: list[Array] = field(default_factory=list)
    stall: Stall = field(default_factory=Stall)


class _Layout:
    """Where each value lies in the one vector that a point contributes."""

    def __init__(self, plan: StepPlan, sources: Sequence[Source]):
        self.names = [m.value for m in plan.moved]
        self.axes = {m.value: m.axis for m in plan.moved}
        self.sources = [([v.name or "" for v in s.values], s.kind == "tokens") for s in sources]
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.slices: dict[str, slice] = {}
        self.dtype: np.dtype[np.float32] | np.dtype[np.float64] = np.dtype(np.float32)
        self.size = 0
        self.features = 0

    def learn(self, given: Mapping[str, Array]) -> None:
        """Shapes of rows, from the first points."""
        for name in self.names:
            row = given[f"ig:attribution:{name}"]
            self.shapes[name] = row.shape[1:]
            count = int(np.prod(row.shape[1:]))
            self.slices[name] = slice(self.size, self.size + count)
            self.size += count
            self.dtype = np.promote_types(self.dtype, row.dtype)
        for names, tokens in self.sources:
            self.features += int(np.prod(self.shapes[names[0]][:-1] if tokens else self.shapes[names[0]]))

    def rows(self, given: Mapping[str, Array]) -> Array:
        """[points, d]."""
        parts = [given[f"ig:attribution:{n}"].reshape(-1, s.stop - s.start) for n, s in self.slices.items()]
        return np.concatenate(parts, axis=1, dtype=self.dtype)

    def norm(self, vector: Array) -> float:
        """Over features: a token is one."""
        squares = 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            for names, tokens in self.sources:
                parts = [vector[self.slices[n]].reshape(self.shapes[n]) for n in names]
                features = sum(p.sum(axis=-1) for p in parts) if tokens else parts[0]
                squares += float((np.asarray(features) ** 2).sum())
        return float(np.sqrt(squares))


class Refinement:
    """Integrates each sample until the sum is within the tolerance of the change of its score and two rules agree.

    `ends`: scores at the start and the end of the path, [N]. Samples are worked on together, as many as memory allows,
    and leave when they are done.
    """

    def __init__(
        self,
        steps: StepRunner,
        look: Look,
        plan: StepPlan,
        sources: Sequence[Source],
        feeds: Mapping[str, Array],
        job: Job,
        ends: tuple[Array, Array],
        goal: Goal,
    ):
        self.steps, self.look, self.feeds, self.job, self.goal = steps, look, feeds, job, goal
        self.ends = ends
        self.split: Split = job.split
        self.layout = _Layout(plan, sources)
        self.totals: dict[str, Array] = {}
        self.tracks: dict[int, Array] = {}
        self.result = Integral(
            {}, np.zeros(job.n, np.int64), np.zeros(job.n, np.int64), error=np.zeros(job.n), unmet=np.zeros(job.n, bool),
            stalled=np.zeros(job.n, bool),
        )  # fmt: skip
        self.bytes = min(job.split.budget // 8, 2**29)
        """That values of unfinished samples may take; one sample more may take as much again."""

    def run(self) -> Integral:
        """Raises RunError."""
        active: list[_Sample] = []
        entered = 0
        while entered < self.job.n or active:
            room = max(self._room() // _EXPECTED, 1) - len(active)
            last = min(entered + max(0, min(room, _MOST_SAMPLES)), self.job.n)
            active += self._entering(range(entered, last))
            entered = last
            front = self._front(active)
            self._evaluate(front)
            done = {s.index for s in front if self._finished(s)}
            active = [s for s in active if s.index not in done]
        for name, total in self.totals.items():
            axis = self.layout.axes[name]
            self.result.totals[name] = total[0] if axis is None else np.moveaxis(total, 0, axis)
        self.result.given = self._curves()
        return self.result

    def _curves(self) -> dict[str, Array]:
        """Where gradients were taken, and score and derivative of the score there: [N, most], NaN where a sample has fewer."""
        most = max(t.shape[1] for t in self.tracks.values())
        padded = np.full((3, self.job.n, most), np.nan)
        for index, track in self.tracks.items():
            padded[:, index, : track.shape[1]] = track
        return dict(zip(("alphas", "scores", "slopes"), padded, strict=True))

    def _room(self) -> int:
        """Values that fit; before the first point nobody knows how large one is."""
        return self.bytes // (self.layout.size * self.layout.dtype.itemsize) if self.layout.size else 0

    def _entering(self, indices: Sequence[int]) -> list[_Sample]:
        """Samples to begin with, and their scores along the path."""
        if not indices:
            return []
        alphas = np.linspace(0, 1, _PROBE + 1)
        inner = self._scores(np.repeat(indices, _PROBE - 1), np.tile(alphas[1:-1], len(indices)))
        samples = []
        for index, between in zip(indices, inner.reshape(len(indices), -1), strict=True):
            before, after = float(self.ends[0][index]), float(self.ends[1][index])
            scores = np.array([before, *between, after])
            rounding = ROUNDING * float(np.finfo(self.ends_type).eps) * float(np.abs(scores).max())
            least = RANGE * float(np.ptp(scores))
            floor = self.goal.tolerance * least + rounding
            samples.append(_Sample(index, self.goal.rule(alphas, scores), after - before, floor, least))
            self.result.forwards[index] += _PROBE - 1
        return samples

    @property
    def ends_type(self) -> type:
        """The type in which the model computes, as far as it is known: what rounding is measured by."""
        kinds = {a.dtype for a in self.feeds.values() if a.dtype.kind == "f"}
        return np.float32 if not kinds else min(kinds, key=lambda t: t.itemsize).type

    def _scores(self, samples: Array, alphas: Array) -> Array:
        scores = np.zeros(len(alphas))
        for first, last, given in self.look.points(self.feeds, samples, alphas, self.split):
            scores[first:last] = given["ig:scores"].reshape(last - first)
        return scores

    def _front(self, active: Sequence[_Sample]) -> list[_Sample]:
        """The samples that go on now: all that fit, at least the first."""
        stored, room, front = sum(s.rule.count for s in active), self._room(), list[_Sample]()
        for sample in active:
            stored += len(sample.rule.pending)
            if front and stored > room:
                break
            front.append(sample)
        return front

    def _evaluate(self, front: Sequence[_Sample]) -> None:
        """Values and scores of everything that is pending."""
        counts = [len(s.rule.pending) for s in front]
        samples = np.repeat([s.index for s in front], counts)
        alphas = np.concatenate([s.rule.pending for s in front])
        starts = np.concatenate([[0], np.cumsum(counts)])
        scores = np.zeros(len(alphas))
        for first, last, given in self.steps.points(self.feeds, samples, alphas, self.split):
            if not self.layout.size:
                self.layout.learn(given)
            rows = self.layout.rows(given)
            scores[first:last] = given["ig:scores"].reshape(last - first)
            for place in range(np.searchsorted(starts, first, "right") - 1, len(front)):
                begin, end = max(first, starts[place]), min(last, starts[place + 1])
                if begin >= end:
                    break
                front[place].fresh.append(rows[begin - first : end - first])
        for place, sample in enumerate(front):
            sample.scores = scores[starts[place] : starts[place + 1]]

    def _finished(self, sample: _Sample) -> bool:
        """Give the rule its values; whether the sample is done with. What it is to get next is then pending."""
        rule, goal = sample.rule, self.goal
        values = np.concatenate(sample.fresh)
        sample.track.append(np.stack([rule.pending, sample.scores, values.sum(axis=1, dtype=np.float64)]))
        rule.put(values, sample.scores)
        sample.fresh = []
        if len(rule.pending):
            return False
        total, change = rule.total(), rule.change()
        size, off = self.layout.norm(total), self.layout.norm(change)
        missed = float(total.sum()) - sample.change
        need = Need(
            completeness=not abs(missed) <= max(goal.tolerance * abs(sample.change), sample.floor),
            agreement=not off <= AGREE * goal.tolerance * max(size, sample.least / np.sqrt(self.layout.features)),
        )
        if need.completeness and not need.agreement and sample.stall.seen(rule, missed):
            self.result.unmet[sample.index] = self.result.stalled[sample.index] = True  # type: ignore[index]
        elif need.completeness or need.agreement:
            if need.agreement:
                sample.stall.restart()
            most = min(goal.cap, max(self._room(), _EXPECTED)) - rule.count
            if most > 0:
                rule = sample.rule = rule.refine(need, most)
            if len(rule.pending):
                return False
            self.result.unmet[sample.index] = True  # type: ignore[index]
            if rule.count < goal.cap and np.isfinite(size):
                self.split.notes["refinement"] = (
                    f"the gradients of sample {sample.index} fill their share of memory_budget before the tolerance is met"
                )
        self._finish(sample, total, MARGIN * off + ROUNDING * float(np.finfo(self.layout.dtype).eps) * size)
        return True

    def _finish(self, sample: _Sample, total: Array, error: float) -> None:
        layout, result = self.layout, self.result
        for name in layout.names:
            if name not in self.totals:
                self.totals[name] = np.empty((self.job.n, *layout.shapes[name]), layout.dtype)
            self.totals[name][sample.index] = total[layout.slices[name]].reshape(layout.shapes[name])
        track = np.concatenate(sample.track, axis=1)
        self.tracks[sample.index] = track[:, np.argsort(track[0], kind="stable")]
        result.gradients[sample.index] = sample.rule.count
        result.error[sample.index] = error  # type: ignore[index]
        if self.job.report is not None:
            self.job.report(1)
