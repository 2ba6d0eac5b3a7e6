"""The models that `Explainer` runs: a chunk of samples x steps as one batch. Not a public format.

Inputs: the model's own, then `ig:baseline:<source>` where one is fed, `ig:hold:<source>`, `ig:alphas` and `ig:weights`
[n, s], `ig:cotangent` (the output's shape). Outputs: `ig:scores` [n, s], `ig:attribution:<value>` (the shape of the
value, float32 or float64: this chunk's share of the attribution), `ig:norms:<value>` and `ig:slopes:<value>` [n, s],
`ig:gradients:<value>` [.., n, s, ..].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.names import Names
from onnx_ig.graph.sources import graph_values
from onnx_ig.graph.types import infer_missing
from onnx_ig.graph.unused import remove_unused
from onnx_ig.methods import Method
from onnx_ig.paths import Grid, Single, compute_type, to_type
from onnx_ig.rewriter.oracle import Oracle, score
from onnx_ig.rules import lowering_named, rule_set_named
from onnx_ig.twin import Twin

__all__ = ["Moved", "StepPlan", "probe_model", "step_model"]


@dataclass(frozen=True)
class Moved:
    """A value of the model that moves along the path.

    `source` is the name the user knows: the value's own, or the ids that it embeds. `axis` is its batch axis.
    `baseline`: "zero"; "fed" (an array of the value's shape); or "ids" (other integers in the place of the source, through
    the same embedding or cast).
    `held`: some positions of it stay at the input (a bool mask is fed).
    """

    value: str
    source: str
    axis: int | None
    baseline: str
    held: bool = False


@dataclass(frozen=True)
class StepPlan:
    """What a step model is made of.

    `axes` gives the batch axis of every graph input (None: the same for all samples); `batched` False means one sample
    and one step a run. `gradients`: also give every step's gradient.
    """

    method: Method
    moved: tuple[Moved, ...]
    output: str
    output_axis: int | None
    axes: Mapping[str, int | None]
    batched: bool
    gradients: bool = False
    runtime: str = "generic"
    quantized: str = "straight-through"


class _Builder:
    def __init__(self, prepared: ir.Model, plan: StepPlan):
        self.plan = plan
        self.model = prepared.clone()
        self.graph = self.model.graph
        self.values = graph_values(self.graph)
        self.nodes = list(self.graph)
        self.op = Emitter(self.graph, Names(self.model), self.model.opset_imports[""])
        self.outputs: list[ir.Value] = []
        self.points = plan.method.path == "points"
        self.alphas = self.given("ig:alphas", ir.DataType.DOUBLE, ["ig_n", "ig_s"])
        self.grid: Grid | Single = Grid(self.op, self.alphas) if plan.batched else Single(self.op)

    def given(self, name: str, dtype: ir.DataType | None, shape: list[str] | ir.Shape | None) -> ir.Value:
        value = ir.Value(name=name, shape=ir.Shape(shape) if isinstance(shape, list) else shape)
        if dtype is not None:
            value.dtype = dtype
        self.graph.inputs.append(value)
        return value

    def give(self, value: ir.Value, name: str) -> None:
        result = self.op.Identity(value)
        result.name = name
        self.outputs.append(result)

    def baseline(self, moved: Moved) -> ir.Value | None:
        """The start of the path in the shape of the value; None for zero."""
        value = self.values[moved.value]
        start = None
        if moved.baseline == "fed":
            start = self.given(f"ig:baseline:{moved.source}", value.dtype, value.shape)
        elif moved.baseline == "ids":
            ids = self.values[moved.source]
            other = next((v for v in self.graph.inputs if v.name == f"ig:baseline:{moved.source}"), None)
            other = other or self.given(f"ig:baseline:{moved.source}", ids.dtype, ids.shape)
            start = Twin(self.nodes, {ids: other}, self.op).value(value)
        if moved.held:
            start = self._hold(moved, value, start)
        return start

    def _hold(self, moved: Moved, value: ir.Value, start: ir.Value | None) -> ir.Value:
        """Held positions start where they end. The mask has the shape of the source."""
        op, source = self.op, self.values[moved.source]
        name = f"ig:hold:{moved.source}"
        hold = next((v for v in self.graph.inputs if v.name == name), None)
        hold = hold or self.given(name, ir.DataType.BOOL, source.shape)
        if _rank(value) != _rank(source):  # a token's position holds its whole embedding
            hold = op.Unsqueeze(hold, [-1])
        zero = np.zeros((), value.dtype.numpy())  # type: ignore[union-attr]
        return op.Where(hold, value, zero if start is None else start)

    def rows(self, starts: Mapping[str, ir.Value | None]) -> dict[ir.Value, ir.Value]:
        """What every replaced value is on the rows: moved values at their points, the others repeated."""
        replaced: dict[ir.Value, ir.Value] = {}
        for moved in self.plan.moved:
            value = self.values[moved.value]
            if self.points:
                given = self.given(f"ig:points:{moved.source}", value.dtype, None)
                given.shape = _stepped(value, moved.axis)
                replaced[value] = self.grid.merge(given, moved.axis, value)  # type: ignore[arg-type]
            else:
                replaced[value] = self.grid.points(value, starts[moved.value], self.alphas, moved.axis)  # type: ignore[arg-type]
        if self.plan.batched:
            for name, axis in self.plan.axes.items():
                if axis is not None and self.values[name] not in replaced:
                    replaced[self.values[name]] = self.grid.repeat(self.values[name], axis)
        return replaced

    def factor(self, moved: Moved, start: ir.Value | None) -> ir.Value | None:
        """What the folded signal is multiplied with; None for one."""
        value = self.values[moved.value]
        dtype = compute_type(value)
        if self.plan.method.factor == "input" or (self.plan.method.factor == "difference" and start is None):
            return to_type(self.op, value, dtype)
        if self.plan.method.factor == "difference" and start is not None:
            return self.op.Sub(to_type(self.op, value, dtype), to_type(self.op, start, dtype))
        return None

    def finish(self) -> ir.Model:
        self.graph.outputs[:] = self.outputs
        remove_unused(self.model)
        self.model.functions.clear()
        infer_missing(self.model)
        return self.model


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _stepped(value: ir.Value, axis: int | None) -> ir.Shape | None:
    """The shape of a value with a step axis after its batch axis; two leading axes of 1 where it has no batch."""
    if value.shape is None:
        return None
    dims = list(value.shape)
    return ir.Shape([1, 1, *dims] if axis is None else [*dims[: axis + 1], "ig_s", *dims[axis + 1 :]])


def _cotangent(b: _Builder) -> ir.Value:
    output = b.values[b.plan.output]
    return b.given("ig:cotangent", output.dtype, output.shape)


def _rows_of(b: _Builder, cotangent: ir.Value) -> ir.Value:
    axis = b.plan.output_axis
    return b.grid.repeat(cotangent, axis) if axis is not None else cotangent


def probe_model(prepared: ir.Model, plan: StepPlan) -> ir.Model:
    """Scores along the path without gradients."""
    b = _Builder(prepared, plan)
    starts = {m.value: None if b.points else b.baseline(m) for m in plan.moved}
    oracle = Oracle(b.model, b.op, b.nodes, b.rows(starts), b.values[plan.output])
    _give_scores(b, oracle, _rows_of(b, _cotangent(b)))
    return b.finish()


def _give_scores(b: _Builder, oracle: Oracle, cotangent: ir.Value) -> None:
    scores = score(b.op, oracle.value, cotangent, b.plan.output_axis)
    shape = b.op.Shape(b.alphas)
    b.give(b.op.Reshape(scores, shape), "ig:scores")


def step_model(prepared: ir.Model, plan: StepPlan) -> ir.Model:
    """Scores along the path and this chunk's share of the attributions.

    Raises NoGradientPathError and UnsupportedOperatorError, as the reverse walk does.
    """
    if plan.method.path == "comparison":
        return _comparison_model(prepared, plan)
    b = _Builder(prepared, plan)
    weights = b.given("ig:weights", ir.DataType.DOUBLE, ["ig_n", "ig_s"])
    starts = {m.value: None if b.points else b.baseline(m) for m in plan.moved}
    oracle = Oracle(b.model, b.op, b.nodes, b.rows(starts), b.values[plan.output])
    cotangent = _rows_of(b, _cotangent(b))
    wrt = [b.values[m.value] for m in plan.moved]
    signals = oracle.signal(
        wrt, cotangent, rules=rule_set_named(plan.method.rules, plan.quantized), lowering=lowering_named(plan.runtime)
    )
    _give_scores(b, oracle, cotangent)
    for moved, value, signal in zip(plan.moved, wrt, signals, strict=True):
        axis: int = moved.axis  # type: ignore[assignment]
        if b.points:
            increments = b.given(f"ig:increments:{moved.source}", compute_type(value), _stepped(value, moved.axis))
            steps = b.op.Mul(b.grid.split(to_type(b.op, signal, compute_type(value)), axis, value), increments)
            total = b.op.ReduceSum(steps, [0, 1] if moved.axis is None else [axis + 1], keepdims=0)
        else:
            total = b.grid.weighted_sum(signal, weights, axis, value)
        factor = b.factor(moved, starts[moved.value])
        b.give(total if factor is None else b.op.Mul(total, factor), f"ig:attribution:{moved.value}")
        if plan.method.curves:
            b.give(b.grid.norms(signal, axis, value), f"ig:norms:{moved.value}")
            if factor is not None:
                b.give(b.grid.slopes(signal, factor, axis, value), f"ig:slopes:{moved.value}")
        if plan.gradients:
            b.give(b.grid.split(signal, axis, value), f"ig:gradients:{moved.value}")
    return b.finish()


def _comparison_model(prepared: ir.Model, plan: StepPlan) -> ir.Model:
    """Signals at the input against a second forward pass on the baseline (DeepLIFT): one row a sample."""
    b = _Builder(prepared, plan)
    wrt = [b.values[m.value] for m in plan.moved]
    starts = {m.value: b.baseline(m) for m in plan.moved}
    zeros = {v: b.op.Sub(v, v) for v in wrt if starts[v.name or ""] is None}
    reference = {v: zeros[v] if starts[v.name or ""] is None else starts[v.name or ""] for v in wrt}
    points = {v: b.op.Identity(v) for v in wrt}
    for value, point in points.items():
        point.shape = value.shape
    oracle = Oracle(b.model, b.op, b.nodes, points, b.values[plan.output])
    second = Twin(oracle.copies, {points[v]: r for v, r in reference.items() if r is not None}, b.op)
    second.value(oracle.value)
    infer_missing(b.model)
    cotangent = _cotangent(b)
    signals = oracle.signal(
        wrt, cotangent, rules=rule_set_named(plan.method.rules, plan.quantized), lowering=lowering_named(plan.runtime),
        reference=second.value,
    )  # fmt: skip
    _give_scores(b, oracle, cotangent)
    for moved, value, signal in zip(plan.moved, wrt, signals, strict=True):
        total = to_type(b.op, signal, compute_type(value))
        factor = b.factor(moved, starts[moved.value])
        b.give(total if factor is None else b.op.Mul(total, factor), f"ig:attribution:{moved.value}")
    return b.finish()
