"""The sessions of an `Explainer`: forward, probe and step models, made when first needed and kept."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_ig.errors import OnnxIgWarning, OptionError, RunError
from onnx_ig.graph.kinks import kinks
from onnx_ig.graph.liveness import Liveness
from onnx_ig.graph.save import PROTO_LIMIT, save, to_proto, weight_bytes
from onnx_ig.graph.sources import id_counts
from onnx_ig.methods import Method
from onnx_ig.reverse import path_nodes
from onnx_ig.rewriter.batching import Batching
from onnx_ig.rewriter.step import Moved, StepPlan, probe_model, step_model
from onnx_ig.rewriter.subject import Subject
from onnx_ig.rules import rule_set_named
from onnx_ig.runtime.feeds import ports_of, samples_in
from onnx_ig.runtime.session import Array, Providers, Session
from onnx_ig.runtime.sizing import Estimate, Split
from onnx_ig.runtime.steps import StepRunner, run_rows

if TYPE_CHECKING:
    import onnxruntime

    from onnx_ig.explain.run import Job
    from onnx_ig.runtime.result import Attribution

__all__ = ["Models"]

_RUNTIMES = {
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "tensorrt",
    "OpenVINOExecutionProvider": "openvino",
}


class Models:
    """Makes and keeps the sessions; counts the rows that they evaluate."""

    def __init__(
        self,
        subject: Subject,
        method: Method,
        providers: Providers,
        session_options: onnxruntime.SessionOptions | None,
        runtime: str | None,
    ):
        self.subject = subject
        self.method = method
        self._providers = providers
        self._options = session_options
        self.declared = [v.name or "" for v in subject.graph.outputs if isinstance(v.type, ir.TensorType)]
        forward = self._forward_model()
        self.forward_session = self.open(forward)
        live = Liveness(forward, self._half_bytes)
        self.forward_bytes: Estimate = lambda feeds: live.peak(feeds, {}, 1)
        unranked = {v.name or "" for v in subject.graph.inputs if v.shape is None}
        self.inputs = ports_of(self.forward_session.inputs, unranked)
        self.ids = id_counts(subject.graph)
        self.runtime = runtime or _RUNTIMES.get(self.forward_session.providers[0], "cpu")
        self._steps: dict[StepPlan, StepRunner] = {}
        self._probes: dict[StepPlan, StepRunner] = {}
        self._checked: dict[StepPlan, ir.Model] = {}

    def open(self, model: ir.Model) -> Session:
        """A session of an in-memory model; above 2 GB through a temporary file."""
        if weight_bytes(model) <= PROTO_LIMIT:
            return Session(to_proto(model).SerializeToString(), self._providers, self._options)
        with tempfile.TemporaryDirectory(prefix="onnx_ig_") as folder:
            path = Path(folder) / "model.onnx"
            save(model, path)
            return Session(path, self._providers, self._options)

    @property
    def _half_bytes(self) -> int:
        """Of an entry of 16 bits while a model runs: kernels of the CPU provider work in 32, on copies."""
        return 4 if self.forward_session.on_cpu else 2

    def _forward_model(self) -> ir.Model:
        """The prepared model with the explained output, and internal values that move, among its outputs."""
        model = self.subject.model.clone()
        present = {v.name for v in model.graph.outputs}
        wanted = [self.subject.output, *(s.name for s in self.subject.moved if s.kind == "value")]
        model.graph.outputs[:] = [v for v in model.graph.outputs if isinstance(v.type, ir.TensorType)]
        inner = [*model.graph.inputs, *(v for node in model.graph for v in node.outputs)]
        extra = [v for v in inner if v.name in wanted and v.name not in present]
        model.graph.outputs.extend(extra)
        return model

    def check(self, batching: Batching) -> None:
        """Build the step model once, so that what cannot be differentiated is refused before anything runs."""
        plan = self.plan(batching, {s.name: None for s in self.subject.moved}, {}, False)
        self._checked[plan] = step_model(self.subject.model, plan)

    def forward(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All tensor outputs, and internal values that move, in one run."""
        return self.forward_session.run(feeds)

    def predict(self, feeds: Mapping[str, Array], batching: Batching, split: Split) -> dict[str, Array]:
        """All outputs (and internal values that move) for every sample."""
        if not batching.batched:
            try:
                return self.forward(feeds)
            except RunError as error:
                raise RunError(f"{error}. What is fed is taken as one sample: {batching.reason}") from error
        n = samples_in(feeds, batching.axes)
        gives = {name: batching.axis(name) for name in self.forward_session.outputs}
        return run_rows(self.forward_session, feeds, batching.axes, gives, n, split, self.forward_bytes)

    def plan(
        self, batching: Batching, starts: Mapping[str, Array | None], held: Mapping[str, Array], gradients: bool
    ) -> StepPlan:
        moved = tuple(
            Moved(
                v.name or "", s.name, batching.axis(v.name or ""), held=s.name in held,
                baseline="zero" if starts.get(s.name) is None else "ids" if s.indirect else "fed",
            )
            for s in self.subject.moved
            for v in s.values
        )  # fmt: skip
        return StepPlan(
            self.method, moved, self.subject.output, batching.axis(self.subject.output), _Frozen(batching.axes),
            batching.batched, gradients, self.runtime, self.subject.quantized,
        )  # fmt: skip

    @cached_property
    def rounding(self) -> tuple[float, str]:
        """(relative rounding, name) of the coarsest type among what moves and what is explained."""
        values = [self.subject.value(self.subject.output), *(v for s in self.subject.moved for v in s.values)]
        types = [v.dtype.numpy() for v in values if v.dtype is not None] or [np.dtype(np.float32)]
        return max((float(ml_dtypes.finfo(t).eps), np.dtype(t).name) for t in types)  # type: ignore[no-untyped-call]

    def check_tolerance(self, tolerance: float) -> None:
        """Raises OptionError for a tolerance that is finer than the model computes."""
        eps, name = self.rounding
        if tolerance < eps:
            raise OptionError(
                f"tolerance={tolerance:g}: the model computes in {name}, which rounds by {eps:.2g}; no steps get closer"
            )

    @cached_property
    def kinks(self) -> list[str]:
        """Operators between what moves and the output whose derivative jumps."""
        graph, moved = self.subject.graph, [v for s in self.subject.moved for v in s.values]
        rules = rule_set_named(self.method.rules)
        nodes, _, _ = path_nodes(graph, [self.subject.value(self.subject.output)], moved, rules)
        return kinks(graph, nodes, moved)

    def steps(self, plan: StepPlan) -> StepRunner:
        if plan not in self._steps:
            model = self._checked.pop(plan, None) or step_model(self.subject.model, plan)
            self._steps[plan] = self._runner(model, plan)
        return self._steps[plan]

    def probe(self, plan: StepPlan) -> StepRunner:
        if plan not in self._probes:
            self._probes[plan] = self._runner(probe_model(self.subject.model, plan), plan)
        return self._probes[plan]

    def _runner(self, model: ir.Model, plan: StepPlan) -> StepRunner:
        axes: dict[str, int | None] = dict(plan.axes) if plan.batched else {}
        gives: dict[str, int | None] = {}
        step_axes: dict[str, int] = {}
        if plan.batched:
            axes["ig:cotangent"] = plan.output_axis
            gives["ig:scores"] = 0
        for m in plan.moved:
            source_axis = plan.axes.get(m.source, m.axis) if plan.batched else None
            axes[f"ig:baseline:{m.source}"] = axes[f"ig:hold:{m.source}"] = source_axis
            for kind in ("points", "increments"):
                axes[f"ig:{kind}:{m.source}"] = m.axis
                step_axes[f"ig:{kind}:{m.source}"] = 0 if m.axis is None else m.axis + 1
            gives[f"ig:attribution:{m.value}"] = gives[f"ig:gradients:{m.value}"] = m.axis
            gives[f"ig:norms:{m.value}"] = gives[f"ig:slopes:{m.value}"] = 0 if plan.batched else None
        live = Liveness(model, self._half_bytes)
        single = {"ig_n": 1, "ig_s": 1, "ig_rows": 1}
        return StepRunner(self.open(model), axes, gives, step_axes, lambda feeds: live.peak(feeds, single, 1))

    def counts(self) -> tuple[int, int]:
        """Rows of gradient, rows of forward-only evaluation through probe models, so far."""
        return sum(r.rows for r in self._steps.values()), sum(
            r.rows for r in self._probes.values()
        ) + self.extra_forwards

    extra_forwards = 0

    def report_non_finite(self, result: Attribution, batching: Batching, job: Job) -> None:
        """Warn where attributions hold NaN or infinity, naming the samples and the node that made them first."""
        bad: set[int] = set()
        for source in self.subject.moved:
            array = result.attributions[source.name]
            wrong = ~np.isfinite(array)
            if wrong.any():
                axis = batching.axis(source.name)
                bad.update([0] if axis is None else np.unique(np.argwhere(wrong)[:, axis]).tolist())
        if not bad:
            return
        from onnx_ig.explain.blame import first_non_finite

        where = first_non_finite(self, batching, job, min(bad))
        told = f"; the first is made by {where}" if where else ""
        warnings.warn(
            f"attributions of sample(s) {', '.join(map(str, sorted(bad)[:8]))} hold NaN or infinity{told}. Check the model "
            "at that input, or move the path away with baselines=",
            OnnxIgWarning,
            stacklevel=3,
        )


class _Frozen(dict[str, "int | None"]):
    """A mapping that a frozen plan can be hashed with."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))
