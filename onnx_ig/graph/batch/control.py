"""If, Loop and Scan: their bodies are analysed like the graph around them, and what they carry must stay as it is."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.states import FREE, Mixed, Mixes, Rows, State, batch_rule
from onnx_ig.graph.subgraphs import captured_values


@batch_rule("If")
def if_(a: Analysis, node: ir.Node) -> Sequence[State]:
    """The condition must not depend on the batch, and both branches must carry the rows alike."""
    if not a.free(node.inputs[0]):
        raise Mixes("decides for all rows together")
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    for branch in branches:
        a.run(branch)
    return [
        _both(a.state(one), a.state(other)) for one, other in zip(branches[0].outputs, branches[1].outputs, strict=True)
    ]


def _both(one: State, other: State) -> State:
    if one == other:
        return one
    if isinstance(one, Mixed) or isinstance(other, Mixed):
        return one if isinstance(one, Mixed) else other
    if isinstance(one, Rows) and isinstance(other, Rows) and one.written() == other.written():
        return one.written()
    raise Mixes("carries the rows differently in its branches or iterations")


@batch_rule("Loop")
def loop(a: Analysis, node: ir.Node) -> Sequence[State]:
    """Neither the number of iterations nor the condition may depend on the batch."""
    if not a.free(*node.inputs[:2]):
        raise Mixes("runs as often as the rows say")
    body = node.attributes["body"].as_graph()
    for value in body.inputs[:2]:
        a.settle(value, FREE)
    carried = _carried(a, body, node.inputs[2:], body.inputs[2:], body.outputs[1:])
    if not a.free(body.outputs[0]):
        raise Mixes("goes on as long as the rows say")
    stacked = [_deeper(a.state(v), 0) for v in body.outputs[1 + len(carried) :]]
    return [*carried, *stacked]


def _carried(
    a: Analysis,
    body: ir.Graph,
    initial: Sequence[ir.Value | None],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
) -> list[State]:
    """States of carried values that hold before and after every iteration, with the body analysed under them."""
    states = [a.state(v) for v in initial]
    for _ in range(len(states) + 2):
        for value, state in zip(inputs, states, strict=False):
            a.settle(value, state)
        a.run(body)
        after = [_carried_on(a, v, s, a.state(o)) for v, s, o in zip(initial, states, outputs, strict=False)]
        if any(isinstance(s, Mixed) for s in after):
            alike = [_started_alike(a, v, s) for v, s in zip(initial, states, strict=True)]
            after = after if alike == states else alike
        if after == states:
            return states
        states = after
    raise Mixes("carries the rows differently from one iteration to the next")


def _carried_on(a: Analysis, initial: ir.Value | None, before: State, after: State) -> State:
    """The state of a carried value that begins as `initial`: one that a fixed batch starts alike for all rows has rows."""
    if before == FREE and isinstance(after, Rows) and after.plain and initial is not None:
        started = a.taken_as_rows(initial, after.axis)
        if started is not None:
            return after.written()
    return _both(before, after)


def _started_alike(a: Analysis, initial: ir.Value | None, state: State) -> State:
    """Rows for a carried value that a fixed batch starts alike for all of them."""
    if initial is None or state != FREE or initial.shape is None:
        return state
    for axis in range(len(initial.shape)):
        if a.taken_as_rows(initial, axis) is not None:
            return Rows(axis)
    return state


def _deeper(state: State, axis: int) -> State:
    """A value of every iteration, stacked along a new axis."""
    return state.at(state.axis + (axis <= state.axis)) if isinstance(state, Rows) else state


@batch_rule("Scan")
def scan(a: Analysis, node: ir.Node) -> Sequence[State]:
    """A sequence along another axis than the rows'; or the rows one by one, where nothing is carried between them."""
    body = node.attributes["body"].as_graph()
    scanned = node.attributes["num_scan_inputs"].as_int()
    count = len(node.inputs) - scanned
    axes = node.attributes.get_ints("scan_input_axes", (0,) * scanned)
    joined = node.attributes.get_ints("scan_output_axes", (0,) * (len(node.outputs) - count))
    by_row = []
    for value, inner, axis in zip(node.inputs[count:], body.inputs[count:], axes, strict=True):
        (place,) = a.positive([axis], value)
        state = a.state(value)
        if state == FREE:
            a.settle(inner, FREE)
            continue
        rows = a.rows_of(value)
        if rows.axis == place:
            by_row.append(rows)
        a.settle(inner, rows.at(rows.axis - (place < rows.axis)))
    if by_row:
        return _row_by_row(a, node, body, count, by_row, joined)
    carried = _carried(a, body, node.inputs[:count], body.inputs[:count], body.outputs[:count])
    return [
        *carried,
        *(
            _deeper(a.state(v), a.positive([x], v, more=1)[0])
            for v, x in zip(body.outputs[count:], joined, strict=True)
        ),
    ]


def _row_by_row(
    a: Analysis, node: ir.Node, body: ir.Graph, count: int, scanned: Sequence[Rows], joined: Sequence[int]
) -> Sequence[State]:
    """The rows are what is scanned: an iteration sees one row and what is the same for all."""
    if len(scanned) != len(node.inputs) - count or any(r.written() != scanned[0].written() for r in scanned):
        raise Mixes("scans rows beside other values")
    if not a.free(*node.inputs[:count], *captured_values(node)):
        raise Mixes("carries something from row to row")
    if any(any(node.attributes.get_ints(d, ())) for d in ("scan_input_directions", "scan_output_directions")):
        raise Mixes("reverses the order of the rows")
    touched = set(body.inputs[count:])
    for inner in body:
        if not touched.isdisjoint(v for v in (*inner.inputs, *captured_values(inner)) if v is not None):
            touched.update(inner.outputs)
    if not touched.isdisjoint(body.outputs[:count]):
        raise Mixes("carries something from row to row")
    first = scanned[0].written()
    return [
        *[FREE] * count,
        *(first.at(a.positive([x], v, more=1)[0]) for v, x in zip(body.outputs[count:], joined, strict=True)),
    ]
