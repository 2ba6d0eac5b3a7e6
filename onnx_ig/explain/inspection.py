"""`inspect`: what can be attributed in a model, before anything runs."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import onnx_ir as ir

from onnx_ig.errors import BlockedNode, NoGradientPathError, OptionError, UnsupportedOperatorError
from onnx_ig.graph.emit import is_float
from onnx_ig.graph.load import ModelLike, load
from onnx_ig.graph.maps import NOTES
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.sources import classify, named
from onnx_ig.methods import METHODS
from onnx_ig.reverse import path_nodes
from onnx_ig.rewriter.batching import Batching, by_dataflow
from onnx_ig.rewriter.opening import opened
from onnx_ig.rewriter.step import Moved, StepPlan, step_model
from onnx_ig.rewriter.subject import Subject, candidates, subject_of
from onnx_ig.rules import GRADIENT, rule_set_named

__all__ = ["InputReport", "Inspection", "OperatorReport", "inspect"]


_AS = {"tokens": " as tokens", "numbers": " as the floats that it is cast to"}


@dataclass(frozen=True)
class InputReport:
    """One graph input. `kind`: "float", "tokens" and "numbers" are attributed, "held" is fed as it is, for `reason`."""

    name: str
    dtype: str
    shape: list[int | str]
    kind: str
    batch_axis: int | None
    reason: str


@dataclass(frozen=True)
class OperatorReport:
    """Operators of one type on the path. `status`: "rule", "zero" (derivative zero by mathematics) or "refused"."""

    operator: str
    count: int
    status: str


@dataclass(frozen=True)
class Inspection:
    """What can be attributed, what is in the way, and the next command."""

    inputs: list[InputReport]
    outputs: list[dict[str, object]]
    output: str | None
    opset: int
    batch: str
    operators: list[OperatorReport]
    blocking: list[BlockedNode]
    problem: str | None
    candidates: list[str]
    notes: list[str]
    next_command: str

    @property
    def ok(self) -> bool:
        """Whether `Explainer` takes the model as it is."""
        return self.problem is None

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "ok": self.ok}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        lines = [f"opset {self.opset or 'not declared'}", "inputs:"]
        for i in self.inputs:
            what = "held: " + i.reason if i.kind == "held" else "attributed" + _AS.get(i.kind, "")
            lines.append(f"  {i.name}  {i.dtype} {_dims(i.shape)}  {what}")
        lines.append("outputs:")
        lines += [f"  {o['name']}  {o['dtype']} {_dims(o['shape'])}" for o in self.outputs]
        lines.append(f"batch: {self.batch}")
        if self.operators:
            lines.append("operators on the path:")
            lines += [f"  {o.operator} x{o.count}  {o.status}" for o in self.operators]
        if self.blocking:
            lines.append("cannot be differentiated:")
            lines += [f"  {b}" for b in self.blocking]
        elif self.problem:
            lines.append(f"problem: {self.problem}")
        if self.candidates:
            lines.append(f"other values to attribute (--wrt): {', '.join(self.candidates)}")
        lines += [f"note: {note}" for note in self.notes]
        lines.append(f"next: {self.next_command}")
        return "\n".join(lines)


def inspect(
    model: ModelLike,
    *,
    inputs: str | Sequence[str] | None = None,
    output: str | None = None,
    quantized: str = "straight-through",
) -> Inspection:
    """What `Explainer(model, inputs=inputs, output=output, quantized=quantized)` would do, without running anything.

    Returns an `Inspection`: `inputs`, `outputs`, `batch`, `operators` on the path and the `next_command`; a text as `str`.
    Never fails for a model that can be read: what stands in the way is in `problem` and `blocking`.
    Raises ModelError for one that cannot, OptionError for another word for `quantized`.
    """
    rules = rule_set_named("gradient", quantized)
    given = load(model)
    opset = given.opset_imports.get("", 0)
    prepared = prepare(given, rules.knows)
    graph = prepared.graph
    subject: Subject | None = None
    problem: str | None = None
    blocking: list[BlockedNode] = []
    axes: Mapping[str, int | None] = {}
    batch = "not known"
    try:
        subject = subject_of(prepared, inputs, output, rules, quantized)
        values = {v.name or "": s.name for s in subject.moved for v in s.values}
        batching = by_dataflow(subject.graph, values, subject.output, None)
        subject, batching = opened(subject, batching) or (subject, batching)
        axes, batch = batching.axes, _batch(batching)
        moved = tuple(
            Moved(v.name or "", s.name, batching.axis(v.name or ""), "zero") for s in subject.moved for v in s.values
        )
        plan = StepPlan(
            METHODS["integrated_gradients"], moved, subject.output, batching.axis(subject.output), dict(batching.axes),
            batching.batched, quantized=quantized,
        )  # fmt: skip
        step_model(subject.model, plan)
    except UnsupportedOperatorError as error:
        problem, blocking = str(error), list(error.nodes)
    except (OptionError, NoGradientPathError) as error:
        problem = str(error)
    kinds = {s.name: s for s in (subject.moved + subject.held if subject else classify(graph))}
    return Inspection(
        inputs=[_input(v, kinds, axes) for v in graph.inputs],
        outputs=[{"name": v.name, "dtype": _dtype(v), "shape": _shape(v)} for v in graph.outputs],
        output=subject.output if subject else None,
        opset=opset,
        batch=batch,
        operators=_operators(subject, blocking) if subject else [],
        blocking=blocking,
        problem=problem,
        candidates=candidates(graph) if problem else [],
        notes=list(subject.notes if subject else graph.meta.get(NOTES, ())),
        next_command=_next(model, subject, problem, graph, inputs),
    )


def _batch(batching: Batching) -> str:
    """How samples are batched, in words."""
    if batching.mode == "free":
        return "rows are independent (proven)"
    if batching.opened:
        return f"{batching.reason}; taken as one of any size (rows proven independent, to be probed on first use)"
    doubt = "candidate, to be probed on first use: " if batching.candidate else ""
    doubt = "one row a run: " if batching.tied else doubt
    return f"{doubt}{batching.reason or batching.mode}"


def _input(value: ir.Value, kinds: Mapping[str, object], axes: Mapping[str, int | None]) -> InputReport:
    source = kinds.get(value.name or "")
    kind, reason = getattr(source, "kind", "held"), getattr(source, "reason", "not asked for")
    return InputReport(value.name or "", _dtype(value), _shape(value), kind, axes.get(value.name or ""), reason)


def _operators(subject: Subject, blocking: Sequence[BlockedNode]) -> list[OperatorReport]:
    wrt = [v for s in subject.moved for v in s.values]
    live, _, zeros = path_nodes(list(subject.graph), [subject.value(subject.output)], wrt, GRADIENT)
    refused = {b.name for b in blocking}
    counts = Counter((_operator(n), "refused" if n.name in refused else "rule") for n in live)
    counts.update((_operator(n), "zero") for n in zeros)
    return [OperatorReport(name, count, status) for (name, status), count in sorted(counts.items())]


def _operator(node: ir.Node) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _next(
    model: ModelLike,
    subject: Subject | None,
    problem: str | None,
    graph: ir.Graph,
    inputs: str | Sequence[str] | None,
) -> str:
    path = shlex.quote(str(model)) if isinstance(model, str) or hasattr(model, "__fspath__") else "MODEL.onnx"
    floats = [v.name for v in graph.outputs if is_float(v.dtype)]
    if problem is None and subject is not None:
        asked = "".join(f" --wrt {shlex.quote(name)}" for name in named(inputs, "inputs"))
        output = f" --output {shlex.quote(subject.output)}" if subject.output not in floats or len(floats) > 1 else ""
        return f"onnx-ig attribute {path} {_data(subject, graph)}{asked}{output}"
    if subject is None and len(floats) > 1:
        return f"onnx-ig inspect {path} --output {shlex.quote(floats[0] or '')}"
    return f"onnx-ig inspect {path} --wrt VALUE --output VALUE"


def _data(subject: Subject, graph: ir.Graph) -> str:
    """How the inputs are given: a text or a photograph where the file says how they are fed, else files."""
    names = [v.name or "" for v in graph.inputs]
    if subject.metadata.vocabulary is not None and any(s.kind == "tokens" for s in subject.moved):
        return '--text "..."'
    if len(names) == 1:
        return "photo.jpg" if names[0] in subject.metadata.preprocessing else "FILE"
    return " ".join(shlex.quote(f"{name}=FILE") for name in names)


def _dtype(value: ir.Value) -> str:
    return value.dtype.name.lower() if value.dtype is not None else str(value.type or "unknown")


def _shape(value: ir.Value) -> list[int | str]:
    if value.shape is None:
        return ["?"]
    return [d if isinstance(d, int) else (d.value or "?") for d in value.shape]


def _dims(shape: object) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"  # type: ignore[call-overload]
