"""How samples are batched, as far as the graph alone proves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ig.errors import OptionError
from onnx_ig.graph.batch import batch_axes, feeds_state

__all__ = ["Batching", "by_dataflow"]


_ONE_SCALE = frozenset(
    {
        ("", "DynamicQuantizeLinear"),
        ("com.microsoft", "DynamicQuantizeMatMul"),
        ("com.microsoft", "DynamicQuantizeLSTM"),
    }
)


@dataclass(frozen=True)
class Batching:
    """How a model takes samples.

    `axes` batch axis of every graph input, None: the same for all samples (or no batch at all). `values` that of graph
    outputs and of the values that move. `mode`: "free" (any number of rows), "rows" (exactly `rows` a run, which do not
    influence each other) or "single" (no batch axis: the feeds are one sample). `reason` says why not "free".
    `candidate`: not proven; a probe may show that rows are independent. `tied`: proven not to be, whatever two rows of a
    probe may show. `opened`: the graph was changed to take any number; with `rows` it computes what the file does, and a
    probe is to confirm that rows may run together.
    """

    axes: Mapping[str, int | None]
    values: Mapping[str, int | None] = field(default_factory=dict)
    mode: str = "free"
    rows: int | None = None
    reason: str = ""
    candidate: bool = False
    tied: bool = False
    opened: bool = False

    @property
    def batched(self) -> bool:
        return self.mode != "single"

    @property
    def fixed(self) -> int | None:
        """The number of rows of a run, where it is not free."""
        return self.rows if self.batched else 1

    def axis(self, name: str) -> int | None:
        """Batch axis of an input or another value; None in "single" mode."""
        if not self.batched:
            return None
        return self.axes.get(name, self.values.get(name))


def by_dataflow(
    graph: ir.Graph, wanted: Mapping[str, str], output: str, given: Mapping[str, int | None] | None
) -> Batching:
    """What the graph alone proves.

    `wanted` maps each value that moves to the input that it comes from (its own name for an input).
    """
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(f"batch_axes={given!r}: give a dictionary {{input: axis, or None}}")
    unknown = [name for name in given or {} if name not in {v.name for v in graph.inputs}]
    if unknown:
        raise OptionError(f"batch_axes: the model has no input {unknown[0]!r}")
    plan = batch_axes(graph, given)
    names = [v.name or "" for v in graph.inputs]
    if plan.batchable:
        axes = {n: plan.axis(n) for n in names}
        values = {n: plan.axis(n) for n in (*wanted, output, *(v.name or "" for v in graph.outputs))}
        if all(values[n] is not None for n in (*wanted, output)):
            rows = _fixed_rows(graph, axes)
            reason = f"the model's batch is fixed at {rows}" if rows else ""
            return Batching(axes, values, "rows" if rows else "free", rows, reason)
    fixed, why_not = (None, "") if given else _fixed_batch(graph, wanted, output)
    if fixed is not None:
        return fixed
    why_not = why_not or plan.reason
    if not given and plan.addressed(output):
        reason = f"{plan.why_not(output)}, so they are parts of one sample"
        return Batching(dict.fromkeys(names), mode="single", reason=reason)
    axes = _candidates(graph.inputs, given or {})
    axis = _leading(graph, output)
    if axis is None or all(a is None for a in axes.values()):
        return Batching(dict.fromkeys(names), mode="single", reason=why_not or "the model has no batch axis")
    values = _candidates([*graph.inputs, *graph.outputs], given or {})
    values |= {output: axis, **{v: axes.get(source) for v, source in wanted.items()}}
    if any(values[n] is None for n in wanted):
        return Batching(dict.fromkeys(names), mode="single", reason=why_not or "an attributed value has no batch axis")
    tied = _ties_rows(graph)
    return Batching(axes, values, "rows", 1, tied or plan.reason, candidate=not tied, tied=bool(tied))


def _ties_rows(graph: ir.Graph) -> str:
    """What makes every row depend on the others for certain: a scale taken from all of them. Empty where nothing does.

    Rows of a probe may have the same range by chance, as rows of the same text or of zeros have.
    """
    depends = set(graph.inputs)
    for node in graph:
        if depends.isdisjoint(v for v in node.inputs if v is not None):
            continue
        if (node.domain, node.op_type) in _ONE_SCALE:
            return (
                f"{node.op_type} (node {node.name!r}) takes one scale from all rows together, so that they influence "
                "each other"
            )
        depends.update(node.outputs)
    return ""


def _candidates(values: Sequence[ir.Value], given: Mapping[str, int | None]) -> dict[str, int | None]:
    """Axes that a probe is to try: open leading dimensions, and wherever else their symbols stand."""
    open_first = [v for v in values if v.shape is not None and len(v.shape) and not isinstance(v.shape[0], int)]
    symbols = {v.shape[0].value for v in open_first} - {None}  # type: ignore[index, union-attr]
    axes: dict[str, int | None] = {}
    for value in values:
        places = [
            i for i, d in enumerate(value.shape or ()) if not isinstance(d, int) and (i == 0 or d.value in symbols)
        ]
        name = value.name or ""
        axes[name] = given[name] if name in given else places[0] if places else None
    return axes


def _fixed_rows(graph: ir.Graph, axes: Mapping[str, int | None]) -> int | None:
    """The number of rows where a batch dimension is a fixed number."""
    for value in graph.inputs:
        axis = axes.get(value.name or "")
        if axis is not None and value.shape is not None and isinstance(value.shape[axis], int):
            return int(value.shape[axis])  # type: ignore[arg-type]
    return None


def _fixed_batch(graph: ir.Graph, wanted: Mapping[str, str], output: str) -> tuple[Batching | None, str]:
    """Fixed leading dimensions as the batch, where dataflow proves the rows independent, or there is but one row; else
    why not."""
    inputs = {v.name or "": v for v in graph.inputs}
    if any(not isinstance(_first(inputs.get(s)), int) for s in wanted.values()):
        return None, ""
    counts = {_first(inputs[s]) for s in wanted.values()}
    if len(counts) != 1:
        return None, ""
    rows = int(counts.pop())  # type: ignore[arg-type]
    given = {name: _axis_of_length(v, rows) for name, v in inputs.items()}
    plan = batch_axes(graph, given)
    reason = f"the model's batch is fixed at {rows}"
    values = {n: plan.axis(n) for n in (*wanted, output, *(v.name or "" for v in graph.outputs))}
    if plan.batchable and all(values[n] is not None for n in (*wanted, output)):
        return Batching({n: plan.axis(n) for n in inputs}, values, "rows", rows, reason), ""
    reason += f", and {plan.reason}" if plan.reason else ""
    computed = {v.name: v for v in (*graph.inputs, *graph.outputs, *(v for n in graph for v in n.outputs))}
    values = {n: _axis_of_length(computed[n], 1) for n in values}
    if rows != 1 or any(values[n] is None for n in (*wanted, output)):
        return None, reason
    return Batching(given, values, "rows", 1, reason), ""


def _first(value: ir.Value | None) -> int | ir.SymbolicDim | None:
    return None if value is None or value.shape is None or not len(value.shape) else value.shape[0]


def _axis_of_length(value: ir.Value, rows: int) -> int | None:
    """Where a value has a fixed number of rows: along axis 1 for states of recurrent layers, else along axis 0."""
    axis = 1 if feeds_state(value) else 0
    return axis if value.shape is not None and list(value.shape)[axis : axis + 1] == [rows] else None


def _leading(graph: ir.Graph, output: str) -> int | None:
    for value in (*graph.outputs, *(v for n in graph for v in n.outputs)):
        if value.name == output:
            if value.shape is None:
                return 0
            return 0 if len(value.shape) and not isinstance(value.shape[0], int) else None
    return None
