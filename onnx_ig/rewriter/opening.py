"""Models whose batch the file fixes, taken as models of any number of rows where that is known and wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import onnx_ir as ir

from onnx_ig.graph.batch import feeds_state, open_batch
from onnx_ig.graph.sources import Source, graph_values
from onnx_ig.rewriter.batching import Batching, by_dataflow
from onnx_ig.rewriter.subject import Subject

__all__ = ["opened", "served_batching"]


def opened(subject: Subject, batching: Batching) -> tuple[Subject, Batching] | None:
    """The subject for any number of rows, where its own model takes a fixed number, or one.

    The graph is changed where constants hold that number, and dataflow proves the rows of the result independent; None
    where it does not. At the number of rows that the file fixes the result computes what the model does, so that the
    batching is what `by_dataflow` said, with a probe still to confirm that rows may run together.
    """
    if batching.mode != "rows" or batching.rows is None or batching.tied:
        return None
    for axes in _readings(subject.graph, batching.axes, batching.rows):
        model = subject.model.clone()
        open_batch(model, axes, batching.rows)
        given = {v.name or "": axes.get(v.name or "") for v in model.graph.inputs}
        changed = _moved_to(subject, model)
        wanted = {v.name or "": s.name for s in changed.moved for v in s.values}
        found = by_dataflow(model.graph, wanted, subject.output, given)
        names = (*wanted, subject.output)
        if found.mode == "free" and all(_same_place(subject, batching, changed, found, n) for n in names):
            rows, reason = batching.rows, batching.reason
            return changed, replace(found, mode="rows", rows=rows, reason=reason, candidate=True, opened=True)
    return None


def _same_place(before: Subject, batching: Batching, after: Subject, found: Batching, name: str) -> bool:
    """Whether a value has its rows where it had them, among as many axes."""
    one, other = before.value(name).shape, after.value(name).shape
    alike = one is None or other is None or len(one) == len(other)
    return alike and batching.axis(name) in (None, found.axis(name))


def _readings(graph: ir.Graph, axes: Mapping[str, int | None], rows: int) -> Iterator[dict[str, int]]:
    """Ways to read the inputs: those known to have rows, with states and with all that have the number ahead."""
    known = {name: axis for name, axis in axes.items() if axis is not None}
    dims = {v.name or "": list(v.shape) for v in graph.inputs if v.shape is not None and (v.name or "") not in known}
    states = {
        v.name or "": 1
        for v in graph.inputs
        if (v.name or "") in dims and feeds_state(v) and dims[v.name or ""][1:2] == [rows]
    }
    ahead = {name: 0 for name, shape in dims.items() if shape[:1] == [rows] and name not in states}
    seen: list[dict[str, int]] = []
    for more in (states, states | ahead, {}):
        if known | more not in seen:
            seen.append(known | more)
            yield known | more


def _moved_to(subject: Subject, model: ir.Model) -> Subject:
    """The subject with its values looked up in a copy of its model."""
    values = graph_values(model.graph)

    def there(sources: tuple[Source, ...]) -> tuple[Source, ...]:
        return tuple(replace(s, values=tuple(values[v.name or ""] for v in s.values)) for s in sources)

    return replace(subject, model=model, moved=there(subject.moved), held=there(subject.held))


def served_batching(
    subject: Subject, axes: Mapping[str, int | None] | None, batchable: bool | None
) -> tuple[Subject, Batching]:
    """How the served model takes samples: free rows led by N everywhere, or its own shapes."""
    values = {v.name or "": s.name for s in subject.moved for v in s.values}
    batching = by_dataflow(subject.graph, values, subject.output, axes)
    own, fixed = (subject, batching), batching.mode == "rows" and not batching.candidate and not batching.tied
    if batchable or (batchable is None and not fixed):
        found = opened(subject, batching)
        if found is not None:
            subject, batching = found[0], replace(found[1], mode="free", rows=None, reason="", candidate=False)
    open_rows = batching.candidate or batching.tied
    if batchable is False or (open_rows and not batchable):
        reason = batching.reason or "rows run together give other results than rows alone"
        return subject, Batching(dict.fromkeys(batching.axes), mode="single", reason=reason)
    if open_rows:
        batching = replace(batching, mode="free", rows=None, reason="", candidate=False, tied=False)
    if batching.mode == "free":
        bad = [f"the input {n!r}" for n, a in batching.axes.items() if a != 0]
        bad += [f"the output {v.name!r}" for v in subject.graph.outputs if batching.axis(v.name or "") != 0]
        if bad:
            reason = f"{bad[0]} does not lead with the batch"
            if fixed:
                return own[0], replace(own[1], reason=f"{own[1].reason}, and {reason}")
            return own[0], Batching(dict.fromkeys(batching.axes), mode="single", reason=reason)
    return subject, batching
