"""`rewrite`: the one-file model for servers, whose outputs are the original ones and the attributions."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ig.arguments import check_count
from onnx_ig.errors import OptionError
from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.load import ModelLike
from onnx_ig.graph.maps import NOTES, warn_of
from onnx_ig.graph.names import Names
from onnx_ig.graph.save import check_place, deliver
from onnx_ig.graph.sources import graph_values, id_counts
from onnx_ig.graph.types import infer_missing
from onnx_ig.graph.unused import remove_unused
from onnx_ig.manifest import AttributedInput, Manifest
from onnx_ig.methods import Method, method_named
from onnx_ig.paths import compute_type, to_type
from onnx_ig.quadrature import Calibration, check_steps, steps_of
from onnx_ig.rewriter.batching import Batching
from onnx_ig.rewriter.compose import inline_steps, loop_over_steps
from onnx_ig.rewriter.opening import served_batching
from onnx_ig.rewriter.oracle import score
from onnx_ig.rewriter.starts import Starts
from onnx_ig.rewriter.step import Moved, StepPlan, step_model
from onnx_ig.rewriter.subject import Subject, subject_of
from onnx_ig.rewriter.targets import GraphTarget, target_nodes
from onnx_ig.rules import rule_set_named
from onnx_ig.twin import Twin

__all__ = ["rewrite"]

_PATHS = ("line", "end", "comparison")


def rewrite(
    model: ModelLike,
    method: str = "integrated_gradients",
    *,
    inputs: str | Sequence[str] | None = None,
    output: str | None = None,
    n_steps: int | Calibration = 50,
    loop: str = "batched",
    target: Any = "predicted",
    baselines: Any = 0,
    quadrature: str = "gausslegendre",
    steps_per_iteration: int | None = None,
    batch_axes: Mapping[str, int | None] | None = None,
    batchable: bool | None = None,
    quantized: str = "straight-through",
    runtime: str = "generic",
    save_as: str | os.PathLike[str] | None = None,
) -> onnx.ModelProto:
    """One plain ONNX model that computes the original outputs and the attributions.

    Inputs: the original ones, then `target` (int64 [N, rank-1], [N, 1] for an output [N, C]) with target="input", and
    `<x>_baseline` (shape of x) with baselines="input". Outputs: the original ones, then `<x>_attribution` (shape of x;
    [N, T] for token ids), `attributed_target` (int64 [N, max(rank-1, 1)]) and `convergence_delta` [N, 1] (NaN for methods
    that do not claim completeness). Every input and output leads with the same symbolic N where the graph proves that
    rows are independent; else shapes are kept, steps run one at a time in a Loop, and the manifest says why.

    Attributions are in the type of their input (a token input's in that of its embedding), the delta in float32 or float64.
    Sums over the steps are in float32, or float64 where the model is.

    Args:
        model: a path, `onnx.ModelProto`, `onnx_ir.Model` or graphsurgeon `Graph`; it is not changed.
        method: integrated_gradients, gradient, gradient_x_input, guided_backprop or deeplift (`onnx_ig.methods.METHODS`
            says where each is defined).
        inputs, output: names of what is attributed and of the float value explained, as in `Explainer`.
        n_steps: a number, or what `Explainer.calibrate` chose on examples; then the manifest tells what it reached there.
        loop: "batched" evaluates all steps as one batch; "looped" `steps_per_iteration` (default 1) of them at a time.
        target: "predicted" (None too), an index or a tuple of indices into the non-batch axes of the output, negative ones
            from the end (0 or () for an output [N]), or "input".
        baselines: 0, a number, one row (an array), {input: any of these}, or "input". For a token input 0 is the zero
            embedding, a whole number or an array of ids other tokens.
        quadrature: "gausslegendre", "riemann_left", "riemann_right", "riemann_middle" or "riemann_trapezoid".
        batch_axes: {input: axis, or None for one that is the same for all samples}, by hand.
        batchable: what is known from elsewhere (a probe) of whether rows are independent; None: what dataflow proves.
            A batch that the file fixes stays so with None; True makes it N where dataflow proves the rows independent.
        quantized: "straight-through" takes the roundings of a quantised model for the identity inside their range, and
            the manifest says so; "refuse" refuses them.
        runtime: which forms to emit: "generic", "cpu", "cuda", "tensorrt", "openvino" or "web".
        save_as: also write the model to this file, its weights beside it where they were or where they exceed 2 GB.

    Raises:
        ModelError: the model cannot be read or written.
        OptionError: an argument is wrong or does not fit the model.
        UnsupportedOperatorError: nodes on the path have no derivative; all are listed.
        NoGradientPathError: every path runs through zero derivatives.
    Source of integrated gradients: Sundararajan, Taly, Yan, Axiomatic Attribution for Deep Networks, ICML 2017, section 3.
    Warns OnnxIgWarning where an output is left out, and where batchable=True cannot be kept to.
    """
    chosen = method_named(method)
    if chosen.path not in _PATHS or chosen.curves:
        raise OptionError(f"method={method!r} has no one-file form; use onnx_ig.Explainer")
    if loop not in ("batched", "looped"):
        raise OptionError(f"loop={loop!r}: 'batched' or 'looped'")
    target = "predicted" if target is None else target
    check_steps(n_steps, method, chosen.path)
    steps_of(n_steps, quadrature)
    if steps_per_iteration is not None:
        check_count(steps_per_iteration, "steps_per_iteration")
    if not isinstance(batchable, bool | None):
        raise OptionError(f"batchable={batchable!r}: True, False or None")
    if save_as is not None:
        check_place(save_as)
    subject = subject_of(model, inputs, output, rule_set_named(chosen.rules, quantized), quantized)
    warn_of(subject.graph.meta.get(NOTES, ()))
    subject, batching = served_batching(subject, batch_axes, batchable)
    if batchable and batching.mode != "free":
        warn_of([f"batchable=True: the model keeps its own shapes all the same: {batching.reason}"])
    served = _Served(subject, chosen, batching, runtime)
    result = served.build(n_steps, quadrature, loop, steps_per_iteration, target, baselines)
    return deliver(result, save_as)


class _Served:
    def __init__(self, subject: Subject, method: Method, batching: Batching, runtime: str):
        self.subject = subject
        self.method = method
        self.batching = batching
        self.runtime = runtime
        self.model = subject.model.clone()
        self.graph = self.model.graph
        self.values = graph_values(self.graph)
        self.taken: dict[str, str] = {}
        self.twins: list[Twin] = []

    def build(
        self,
        n_steps: int | Calibration,
        quadrature: str,
        loop: str,
        per_iteration: int | None,
        target: Any,
        baselines: Any,
    ) -> ir.Model:
        given_starts = Starts(self.subject, self.batching.batched, baselines)
        moved = tuple(
            Moved(v.name or "", s.name, self.batching.axis(v.name or ""), given_starts.kind(s.name))
            for s in self.subject.moved
            for v in s.values
        )
        batched = self.batching.batched
        plan = StepPlan(
            self.method, moved, self.subject.output, self.batching.axis(self.subject.output), dict(self.batching.axes),
            batched, False, self.runtime, self.subject.quantized,
        )  # fmt: skip
        step = step_model(self.subject.model, plan)
        op = self.op = Emitter(self.graph, Names(step, self.model), self.model.opset_imports[""])
        nodes = list(self.graph)
        y = self.values[self.subject.output]
        picked = target_nodes(op, y, self._target_input(target, y), batched)
        starts = {
            s.name: given_starts.value(op, s.name, self.values[s.name], self._new_input) for s in self.subject.moved
        }
        given = {v.name or "": self._given(v.name or "", starts, picked) for v in step.graph.inputs if not _stepped(v)}
        line = self.method.path == "line"
        alphas, weights, rule = steps_of(n_steps, quadrature) if line else (np.ones(1), np.ones(1), "")
        self.calibration = n_steps if line and isinstance(n_steps, Calibration) else None
        free = self.batching.mode == "free"
        if line and (loop == "looped" or not free):
            size = min(per_iteration or 1, len(alphas)) if free else 1
            totals = self._loop(step, given, alphas, weights, size, moved)
        else:
            given |= {"ig:alphas": self._per_sample(alphas), "ig:weights": self._per_sample(weights)}
            given = {k: v for k, v in given.items() if k in {i.name for i in step.graph.inputs}}
            totals = inline_steps(op, step, given)
        self._outputs(totals, picked, self._baseline_score(nodes, moved, starts, y, picked))
        self._lead_with_n()
        remove_unused(self.model)
        infer_missing(self.model)
        for twin in self.twins:
            twin.hand_down_shapes()
        self._describe(target, given_starts, len(alphas) if line else None, rule or None, loop)
        return self.model

    # what is fed ------------------------------------------------------------------------------------------------------

    def _name(self, wanted: str) -> str:
        name = self.op.names.fresh(wanted)
        if name != wanted:
            self.taken[wanted] = name
        return name

    def _new_input(self, wanted: str, dtype: ir.DataType | None, shape: ir.Shape | None) -> ir.Value:
        value = ir.Value(name=self._name(wanted), shape=shape)
        if dtype is not None:
            value.dtype = dtype
        self.graph.inputs.append(value)
        return value

    def _target_input(self, target: Any, y: ir.Value) -> Any:
        if not (isinstance(target, str) and target == "input"):
            if isinstance(target, list | np.ndarray):
                raise OptionError("target: a one-file model takes 'predicted', 'input', an index or a tuple of indices")
            return target
        rank = len(y.shape or ())
        lead: list[int | str] = ["N", max(rank - 1, 1)] if self.batching.batched else [1, max(rank, 1)]
        if self.batching.batched and y.shape is not None and isinstance(y.shape[0], int):
            lead[0] = int(y.shape[0])
        return self._new_input("target", ir.DataType.INT64, ir.Shape(lead))

    def _given(self, name: str, starts: Mapping[str, ir.Value | None], picked: GraphTarget) -> ir.Value:
        if name == "ig:cotangent":
            return picked.cotangent
        if name.startswith("ig:baseline:"):
            start = starts[name.removeprefix("ig:baseline:")]
            assert start is not None
            return start
        return self.values[name]

    def _rows(self) -> ir.Value:
        """The number of samples, [1]."""
        name = next(n for n, a in self.batching.axes.items() if a is not None)
        axis = self.batching.axes[name] or 0
        return self.op.Slice(self.op.Shape(self.values[name]), [axis], [axis + 1])

    def _per_sample(self, values: np.ndarray) -> ir.Value:
        """[m] constants for every sample: [N, m] (or [1, m] without a batch)."""
        row = values.astype(np.float64)[None]
        if not self.batching.batched:
            return self.op.constant(row)
        return self.op.Expand(row, self.op.Concat(self._rows(), [1], axis=0))

    # what is computed -------------------------------------------------------------------------------------------------

    def _loop(
        self,
        step: ir.Model,
        given: Mapping[str, ir.Value],
        alphas: np.ndarray,
        weights: np.ndarray,
        size: int,
        moved: Sequence[Moved],
    ) -> dict[str, ir.Value]:
        op = self.op
        blocks = -(-len(alphas) // size)
        padding = blocks * size - len(alphas)
        alphas = np.concatenate([alphas, np.full(padding, alphas[-1])]).reshape(blocks, 1, size)
        weights = np.concatenate([weights, np.zeros(padding)]).reshape(blocks, 1, size)
        if self.batching.batched:
            wide = op.Concat([1], self._rows(), [1], axis=0)
            told = [op.Expand(a.astype(np.float64), wide) for a in (alphas, weights)]
        else:
            told = [op.constant(a.astype(np.float64)) for a in (alphas, weights)]
        totals = {}
        for m in moved:
            value = self.values[m.value]
            zero = ir.tensor(np.zeros(1, compute_type(value).numpy()))
            total = op.ConstantOfShape(op.Shape(value), value=zero)
            total.shape = value.shape
            totals[f"ig:attribution:{m.value}"] = total
        return loop_over_steps(op, step, given, told[0], told[1], totals)

    def _baseline_score(
        self,
        nodes: Sequence[ir.Node],
        moved: Sequence[Moved],
        starts: Mapping[str, ir.Value | None],
        y: ir.Value,
        picked: GraphTarget,
    ) -> ir.Value | None:
        """Score at the baseline, [N, 1]; None for methods that do not claim completeness."""
        if not self.method.complete:
            return None
        op = self.op
        replaced: dict[ir.Value, ir.Value] = {}
        for m in moved:
            value, start = self.values[m.value], starts[m.source]
            if m.baseline == "ids" and start is not None:
                replaced[value] = Twin(nodes, {self.values[m.source]: start}, op).value(value)
            elif start is not None:
                replaced[value] = start
            else:
                zero = ir.tensor(np.zeros(1, value.dtype.numpy()))  # type: ignore[union-attr]
                replaced[value] = op.ConstantOfShape(op.Shape(value), value=zero)
                replaced[value].shape = value.shape
        twin = Twin(nodes, replaced, op)
        there = twin.value(y)
        self.twins.append(twin)
        there.shape = y.shape
        return op.Reshape(score(op, there, picked.cotangent, self.batching.axis(self.subject.output)), [-1, 1])

    def _outputs(self, totals: Mapping[str, ir.Value], picked: GraphTarget, before: ir.Value | None) -> None:
        op = self.op
        sums: list[ir.Value] = []
        self.attributions: dict[str, str] = {}
        for source in self.subject.moved:
            parts = [totals[f"ig:attribution:{v.name}"] for v in source.values]
            if source.kind == "tokens":
                parts = [op.ReduceSum(p, [-1], keepdims=0) for p in parts]
            total = parts[0]
            for part in parts[1:]:
                total = op.Add(total, part)
            axis = self.batching.axis(source.values[0].name or "")
            axes = (
                None
                if axis is None
                else [a for a in range(len(total.shape or source.values[0].shape or ())) if a != axis]
            )
            if source.kind == "tokens" and axis is not None:
                axes = [a for a in range(len(source.values[0].shape or ()) - 1) if a != axis]
            summed = total if axes == [] else op.ReduceSum(total, axes, keepdims=0)
            sums.append(op.Reshape(to_type(op, summed, compute_type(picked.picked)), [-1, 1]))
            value = self.values[source.name]
            result = to_type(op, total, source.values[0].dtype)
            self.attributions[source.name] = self._output(result, f"{source.name}_attribution", value.shape)
        lead: list[int | str] = ["N" if self.batching.batched else 1]
        self._output(picked.index, "attributed_target", None)
        if before is None:
            delta = op.Mul(picked.picked, float("nan"))
        else:
            total = sums[0]
            for part in sums[1:]:
                total = op.Add(total, part)
            delta = op.Sub(total, op.Sub(picked.picked, to_type(op, before, compute_type(picked.picked))))
        self._output(delta, "convergence_delta", ir.Shape([*lead, 1]))

    def _output(self, value: ir.Value, wanted: str, shape: ir.Shape | None) -> str:
        result = self.op.Identity(value)
        result.name = self._name(wanted)
        result.shape = shape if shape is not None else value.shape
        self.graph.outputs.append(result)
        return result.name

    def _lead_with_n(self) -> None:
        """The same symbol leads every input and output of a model that is batchable."""
        if self.batching.mode != "free":
            return
        for value in (*self.graph.inputs, *self.graph.outputs):
            if value.shape is not None and len(value.shape):
                value.shape = ir.Shape(["N", *list(value.shape)[1:]])

    def _describe(self, target: Any, starts: Starts, n_steps: int | None, quadrature: str | None, loop: str) -> None:
        free = self.batching.mode == "free"
        manifest = Manifest(
            method=self.method.name,
            inputs={
                s.name: AttributedInput(
                    self.attributions[s.name], s.kind,
                    self.batching.axis(s.values[0].name or ""),
                )
                for s in self.subject.moved
            },
            output=self.subject.output,
            held=[s.name for s in self.subject.held],
            target=target if isinstance(target, str | tuple) else int(target),
            baselines=starts.described(),
            n_steps=n_steps,
            quadrature=quadrature,
            batchable=free,
            reason="" if free else self.batching.reason or "the shapes of the model are fixed",
            names=self.taken,
            notes=self._notes(bool(n_steps) and (loop == "looped" or not free)),
            version=importlib.metadata.version("onnx_ig"),
        )  # fmt: skip
        self.model.metadata_props.update(replace(self.subject.metadata, manifest=manifest).write())

    def _notes(self, looped: bool) -> dict[str, Any]:
        notes: dict[str, Any] = {"loop": "looped" if looped else "batched"}
        if counts := id_counts(self.subject.graph):
            notes["ids"] = counts
        if self.calibration is not None:
            notes["calibration"] = self.calibration.notes()
        return notes | ({"answers": list(self.subject.notes)} if self.subject.notes else {})


def _stepped(value: ir.Value) -> bool:
    return value.name in ("ig:alphas", "ig:weights")
