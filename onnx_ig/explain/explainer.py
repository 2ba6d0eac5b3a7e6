"""`Explainer`: attributions of a model on the user's data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_ig.arguments import check_count
from onnx_ig.arrays import as_array
from onnx_ig.errors import FeedError, OptionError, RunError
from onnx_ig.explain.baselines import baseline_arrays, held_masks, path_arrays, reference_arrays
from onnx_ig.explain.calibration import calibrate
from onnx_ig.explain.findings import warn_about, warn_unmet, warn_zeros
from onnx_ig.explain.models import Models
from onnx_ig.explain.probe import Shapes, probe, shapes_of_rows
from onnx_ig.explain.refine import CAP, LEAST, Goal
from onnx_ig.explain.run import Job, attribute_target
from onnx_ig.gradients import add_gradients
from onnx_ig.graph.load import ModelLike
from onnx_ig.graph.sources import declared_shape
from onnx_ig.methods import Method, method_named
from onnx_ig.quadrature import Calibration, check_steps, steps_of
from onnx_ig.rewriter.batching import Batching, by_dataflow
from onnx_ig.rewriter.opening import opened
from onnx_ig.rewriter.subject import subject_of
from onnx_ig.rules import rule_set_named
from onnx_ig.runtime.feeds import check_feeds, check_ids, samples_in
from onnx_ig.runtime.joining import as_long
from onnx_ig.runtime.result import Attribution
from onnx_ig.runtime.session import Array, Providers
from onnx_ig.runtime.sizing import Split, split_of
from onnx_ig.runtime.targets import Target, check_target, resolve_targets, scores_of

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Explainer"]

Progress = Callable[[int, int], None]


class Explainer:
    """Attributes a model's output to its inputs.

    Args:
        model: a path, `onnx.ModelProto`, `onnx_ir.Model` or graphsurgeon `Graph`.
        method: a name in `onnx_ig.methods.METHODS`, which says where each is defined.
        inputs: names of the values attributed: inputs (float, or integer ids that feed an embedding) or internal float
            values. Default: every float input and token input but masks, lengths, positions, segments and states.
        output: the float value explained, an output or internal. Default: the only float output.
        batch_axes: {input: axis, or None for one that is the same for all samples}, by hand; it is believed.
        quantized: "straight-through" takes the roundings of a quantised model for the identity inside their range, and
            says so in the result's notes; "refuse" refuses them.
        providers, session_options: as `onnxruntime.InferenceSession` takes them.
        runtime: which forms to emit; default by the first provider.

    Raises ModelError, OptionError, UnsupportedOperatorError (all blocking nodes in one message), NoGradientPathError,
    MissingDependencyError.
    """

    def __init__(
        self,
        model: ModelLike,
        method: str = "integrated_gradients",
        *,
        inputs: str | Sequence[str] | None = None,
        output: str | None = None,
        batch_axes: Mapping[str, int | None] | None = None,
        quantized: str = "straight-through",
        providers: Providers = None,
        session_options: onnxruntime.SessionOptions | None = None,
        runtime: str | None = None,
    ):
        self.method = method_named(method)
        rules = rule_set_named(self.method.rules, quantized)
        self.subject = subject_of(model, inputs, output, rules, quantized)
        values = {v.name or "": s.name for s in self.subject.moved for v in s.values}
        self.batching = by_dataflow(self.subject.graph, values, self.subject.output, batch_axes)
        self.subject, self.batching = opened(self.subject, self.batching) or (self.subject, self.batching)
        try:
            self._models = Models(self.subject, self.method, providers, session_options, runtime)
        except RunError:
            # What has no derivative is refused in our words, also where the runtime has no kernel for it.
            add_gradients(
                self.subject.model, self.subject.output, list(values), rules=self.method.rules, quantized=quantized
            )
            raise
        self._by_dataflow = self.batching
        self._probed: Shapes | None = None
        self._models.check(self.batching)

    def attribute(
        self,
        feeds: Mapping[str, Any] | Any,
        baselines: Any = None,
        target: Any = "predicted",
        n_steps: int | Calibration | None = None,
        quadrature: str = "gausslegendre",
        internal_batch_size: int | None = None,
        tolerance: float | None = None,
        progress: Progress | bool | None = None,
        *,
        memory_budget: int | str | None = None,
        held: Mapping[str, Any] | None = None,
        path: Any = None,
        references: Any = None,
        gradients: bool = False,
    ) -> Attribution:
        """Attributions of every sample fed.

        Args:
            feeds: {input: array [N, ...]} as `InferenceSession.run` takes it; a bare array for the only input.
            baselines: None (zero; a zero embedding for tokens), a number, an array (one row, or one a sample) or
                {input: any of these}; integer ids for a token input.
            target: an index into the non-batch axes of the output, negative ones from the end: an int or tuple for all
                samples (0 or () for an output [N]), an integer array [N] or [N, rank-1] for each; "predicted" the arg
                max; a list for several targets (attributions [N, K, ...]; [K, ...] where the model has no batch axis,
                and a list of tuples then indexes all axes); a float array of the output's shape, or of one row's, as a
                cotangent.
            n_steps, quadrature: gradients on the path, by default 50; rules as in captum. What `calibrate` gives takes the
                place of both. With a tolerance n_steps is the most that a sample may take, at least 9 and by default 1000,
                and the rule is chosen by the model and the sample.
            tolerance: take as many gradients as each sample needs: until its attributions sum to F(x) - F(baseline)
                within this share of it, and the attributions by two rules differ by less than ten times this share of
                their norm. Where these are tiny, a twentieth of the range of F along the path takes their place (over the
                root of the number of features, for the norm). Not finer than the model's type rounds. A warning says where it
                cannot be met. A sample ends early where rules agree and more gradients do not bring the sum closer: the
                gradient of a quantised model goes straight through its roundings, that of a jump is zero.
            internal_batch_size: most rows (samples x steps) in one run; None chooses it by the sizes of activations, a
                short trial and the budget. Peak memory grows with neither samples, steps, references nor targets.
            memory_budget: bytes or a text such as "2GB" that runs may take beyond the loaded model; None: half of what
                is free (on CUDA, of the device). A run that fails for want of memory is halved, and what is done kept.
            progress: called with (rows done, rows in all), or True for a bar on standard error.
            held: {input: bool mask}, True where a position stays at the input.
            path: for path_integrated_gradients, [m+1, *x.shape] from baseline to input.
            references: for expected_gradients, {input: [R, ...]}.
            gradients: also give every step's gradient, in `curves["gradients:<input>"]` ([N, m, ...], interior_gradients).

        Returns an `Attribution`; attributions are in the type of what they belong to (a token input's in that of its
        embedding), scores and deltas in float64. Sums are in float32 at least.
        Raises:
            FeedError: what is fed does not fit the model: names, shapes, types, NaN, ids beyond their table.
            OptionError: an argument is wrong, does not fit what is fed, or belongs to another method.
            RunError: the runtime failed.
        Warns OnnxIgWarning where the answer needs care.
        """
        _check_arguments(self.method.path, baselines, held, path, references, internal_batch_size)
        if tolerance is not None:
            _check_tolerance(self.method, tolerance, n_steps, quadrature, gradients)
            self._models.check_tolerance(tolerance)
        check_steps(n_steps, self.method.name, self.method.path)
        steps_asked = 50 if n_steps is None else n_steps
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise OptionError(f"progress={progress!r}: a function of (done, all), or True for a bar, is needed")
        if not isinstance(gradients, bool):
            raise OptionError(f"gradients={gradients!r}: True or False")
        given = self._fed(feeds)
        if not self._by_dataflow.candidate:
            self._check_target(target, given, self.batching)
        shapes = shapes_of_rows(self._by_dataflow, given)
        if self._probed is None or (self._by_dataflow.candidate and self._probed != shapes):
            self.batching = probe(self._by_dataflow, self.subject.output, given, self._models.forward)
            self._probed = shapes
        batching = self.batching
        self._check_target(target, given, batching)
        n = samples_in(given, batching.axes) if batching.batched else 1
        split = split_of(internal_batch_size, batching.fixed, memory_budget, self._models.forward_session)
        outputs = self._models.predict(given, batching, split)
        output = outputs[self.subject.output]
        axis = batching.axis(self.subject.output)
        targets, several = resolve_targets(target, output, axis)
        moved = {s.name: given[s.name] if s.name in given else outputs[s.name] for s in self.subject.moved}
        axes = {s.name: batching.axis(s.name) for s in self.subject.moved}

        line = self.method.path in ("line", "references")
        alphas, weights, rule = steps_of(steps_asked, quadrature) if line else (np.ones(1), np.ones(1), "")
        job = Job(given, n, alphas, weights, split, held_masks(held, self.subject.moved, moved, axes), gradients)
        if self.method.path == "references":
            job.starts = reference_arrays(references, self.subject.moved, moved, axes)
        elif self.method.path == "points":
            job.path, start = path_arrays(path, self.subject.moved, moved, axes)
            job.starts = [dict(start)]
            steps = next(iter(job.path.values()))[0].shape[1 if not batching.batched else _first_axis(axes) + 1]
            job.alphas = job.weights = np.ones(steps)
        else:
            job.starts = [baseline_arrays(baselines, self.subject.moved, moved, axes)]
        if tolerance is not None:
            job.goal = Goal(float(tolerance), CAP if n_steps is None else len(alphas), self._models.kinks)
        job.follow(progress, len(targets))

        before = self._models.counts()
        answers = [attribute_target(self._models, batching, job, t, scores_of(output, t, axis)) for t in targets]
        after = self._models.counts()
        job.close()
        result = self._result(answers, several, outputs, given, batching)
        result.notes += tuple(split.notes.values())
        result.gradients, result.forwards = after[0] - before[0], after[1] - before[1] + n
        result.target = _target_of([t.index for t in targets], several)
        result.n_steps = len(job.alphas) if self.method.path != "end" and self.method.path != "comparison" else None
        result.quadrature = rule or None
        if job.goal is not None:
            result.tolerance, result.n_steps, result.quadrature = job.goal.tolerance, None, job.goal.rule_name
            unmet, stalled = (np.stack(a, axis=-1) for a in zip(*((a.unmet, a.stalled) for a in answers), strict=True))
            warn_unmet(result, unmet, stalled, job.goal.cap, split.notes.get("refinement"))
        self._models.report_non_finite(result, batching, job)
        if len(job.starts) == 1 and self.method.complete:
            warn_about(result, moved, job.starts[0])
        warn_zeros(result, moved, job.starts, self.method.complete)
        return result

    def calibrate(
        self, feeds: Mapping[str, Any] | Any, tolerance: float = 0.01, n_steps: int = CAP, **options: Any
    ) -> Calibration:
        """The fewest fixed steps that meet a tolerance on examples, for models whose steps cannot change with the sample.

        `options` go to `attribute` (baselines, target, held, references ...); `n_steps` is the most to try. Its result
        takes the place of n_steps in `attribute` and in `rewrite`. Raises what `attribute` raises; warns OnnxIgWarning
        where the tolerance is missed by more than 5 % of the samples.
        """
        return calibrate(self, feeds, tolerance, n_steps, options, self._models.rounding[0])

    def scores(self, feeds: Mapping[str, Any] | Any, target: Any = "predicted") -> Array:
        """The score of the target for every sample, float64 [N], by the forward model alone.

        `target` as in `attribute`, but no list. Raises FeedError, OptionError, RunError.
        """
        _, _, output, one = self._targeted(feeds, target)
        return scores_of(output, one, self.batching.axis(self.subject.output))

    def path_scores(self, feeds: Mapping[str, Any] | Any, target: Any, alphas: Array) -> Array:
        """The score at each alpha on the line from the zero baseline, float64 [N, len(alphas)], without gradients.

        `target` as in `attribute`, but no list; `alphas` [m]. Raises FeedError, OptionError, RunError.
        """
        places = as_array(alphas, "alphas")
        if places.ndim != 1 or not len(places) or places.dtype.kind not in "fiu" or not np.isfinite(places).all():
            raise OptionError(f"alphas={alphas!r}: a list of numbers is needed, one at least")
        given, split, _, one = self._targeted(feeds, target)
        n = samples_in(given, self.batching.axes) if self.batching.batched else 1
        found = self._models.probe(self._models.plan(self.batching, {}, {}, False)).run(
            {**given, "ig:cotangent": one.cotangent},
            np.broadcast_to(places.astype(np.float64), (n, len(places))), None,
            split,
        )  # fmt: skip
        return found["ig:scores"].astype(np.float64)

    def _fed(self, feeds: Mapping[str, Any] | Any) -> dict[str, Array]:
        """The feeds as the model takes them, at least one sample."""
        given = check_feeds(self._models.inputs, feeds, self.batching.axes, self.subject.defaults)
        if self.batching.batched and samples_in(given, self.batching.axes) == 0:
            raise FeedError("the feeds hold no samples")
        check_ids(given, self._models.ids, self.batching.axes)
        return given

    def _targeted(self, feeds: Mapping[str, Any] | Any, target: Any) -> tuple[dict[str, Array], Split, Array, Target]:
        """(feeds, split, explained output, the one target) of what is done by the forward model alone."""
        if isinstance(target, list):
            raise OptionError("target: one is needed here, not a list of several")
        given, batching = self._fed(feeds), self.batching
        self._check_target(target, given, batching)
        split = split_of(None, batching.fixed, None, self._models.forward_session)
        output = self._models.predict(given, batching, split)[self.subject.output]
        return given, split, output, resolve_targets(target, output, batching.axis(self.subject.output))[0][0]

    def _check_target(self, target: Any, feeds: Mapping[str, Array], batching: Batching) -> None:
        """Refuse what the file alone tells to be no target of the output, before anything runs."""
        shape, axis = declared_shape(self.subject.value(self.subject.output)), batching.axis(self.subject.output)
        if shape is not None:
            if axis is not None:
                shape[axis] = samples_in(feeds, batching.axes)
            check_target(target, shape, axis)

    def _result(
        self, answers: Sequence[Any], several: bool, outputs: dict[str, Array], feeds: dict[str, Array], batching: Any
    ) -> Attribution:
        def joined(parts: list[Array], axis: int | None = 0) -> Array:
            """Several targets along an axis of their own: behind the samples, or first where there is one sample."""
            return np.stack(parts, axis=0 if axis is None else axis + 1) if several else parts[0]

        first = answers[0]
        axes = {s.name: batching.axis(s.name) for s in self.subject.moved}
        notes = () if batching.mode == "free" else (f"one row a run: {batching.reason}",)
        if batching.mode == "single":
            notes = (f"the feeds are one sample, one step a run: {batching.reason}",)
        return Attribution(
            attributions={k: joined([a.attributions[k] for a in answers], axes[k]) for k in first.attributions},
            full={k: joined([a.full[k] for a in answers], axes[k]) for k in first.full},
            curves={k: joined(as_long([a.curves[k] for a in answers])) for k in first.curves},
            prediction=joined([a.prediction for a in answers]),
            baseline_prediction=joined([a.baseline_prediction for a in answers]),
            convergence_delta=joined([a.delta for a in answers]),
            error_estimate=joined([a.error for a in answers]),
            gradient_counts=np.sum([a.gradients for a in answers], axis=0),
            forward_counts=np.sum([a.forwards for a in answers], axis=0) + 1,
            outputs={k: v for k, v in outputs.items() if k in self._models.declared},
            target=None, method=self.method.name, output=self.subject.output, feeds=feeds,
            labels=self.subject.metadata.labels, notes=(*notes, *self.subject.notes),
            axes=axes,
        )  # fmt: skip


def _first_axis(axes: Mapping[str, int | None]) -> int:
    return next(a for a in axes.values() if a is not None)


def _target_of(indices: Sequence[Array | None], several: bool) -> Array | None:
    if any(i is None for i in indices):
        return None
    return np.stack([i for i in indices if i is not None]) if several else indices[0]


def _check_tolerance(method: Method, tolerance: Any, n_steps: Any, quadrature: str, gradients: bool) -> None:
    """A tolerance goes with integrals along straight lines, whose rule it chooses."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | np.number) or not 0 < tolerance < 1:
        raise OptionError(f"tolerance={tolerance!r}: a share between 0 and 1 is needed, as 0.01")
    if method.path not in ("line", "references") or method.curves:
        raise OptionError(
            f"tolerance belongs to integrated_gradients and expected_gradients; {method.name} takes no steps of its own"
        )
    if isinstance(n_steps, Calibration):
        raise OptionError("n_steps: a calibration has steps of its own; with a tolerance n_steps is the most to take")
    if isinstance(n_steps, int | np.integer) and 0 < n_steps < LEAST:
        raise OptionError(f"n_steps={n_steps}: with a tolerance at least {LEAST} are needed, for two rules to compare")
    if quadrature != "gausslegendre":
        raise OptionError(f"quadrature={quadrature!r}: with a tolerance the rule is chosen by the model and the sample")
    if gradients:
        raise OptionError("gradients: with a tolerance samples have different steps; use n_steps")


def _check_arguments(
    path: str, baselines: Any, held: Any, points: Any, references: Any, internal_batch_size: int | None
) -> None:
    """Arguments that the method would not look at are errors, not silence."""
    if baselines is not None and path in ("end", "points", "references"):
        why = {
            "end": "it looks at the input only",
            "points": "its path= starts there",
            "references": "give references=",
        }
        raise OptionError(f"baselines: this method takes none; {why[path]}")
    if points is not None and path != "points":
        raise OptionError("path= belongs to path_integrated_gradients")
    if references is not None and path != "references":
        raise OptionError("references= belongs to expected_gradients")
    if held is not None and path in ("end", "points"):
        raise OptionError("held: this method has no baseline to hold positions from")
    if internal_batch_size is not None:
        check_count(internal_batch_size, "internal_batch_size")
