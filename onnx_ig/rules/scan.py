"""Scan: the forward keeps its states, a backward Scan reads everything in the other direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ig.rules.bodies import (
    closed,
    copied,
    described,
    emit,
    initial_cotangent,
    live_states,
    new_graph,
    new_input,
    stacked_over_iterations,
)
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient


@dataclass
class _Scan:
    """The parts of a Scan: carried values, and what is read and written along an axis, with axis and direction."""

    initial: list[ir.Value]
    stacks: list[ir.Value]
    body: ir.Graph
    states: list[ir.Value]
    items: list[ir.Value]
    nexts: list[ir.Value]
    elements: list[ir.Value]
    in_axes: tuple[int, ...]
    in_directions: tuple[int, ...]
    out_axes: tuple[int, ...]
    out_directions: tuple[int, ...]

    @classmethod
    def of(cls, c: Context) -> _Scan:
        body: ir.Graph = c.attr("body")
        scanned = c.attr("num_scan_inputs")
        count = len(c.inputs) - scanned
        operands = [c.operand(k) for k in range(len(c.inputs))]
        written = len(body.outputs) - count
        return cls(
            operands[:count],
            operands[count:],
            body,
            list(body.inputs[:count]),
            list(body.inputs[count:]),
            list(body.outputs[:count]),
            list(body.outputs[count:]),
            c.attr("scan_input_axes", (0,) * scanned),
            c.attr("scan_input_directions", (0,) * scanned),
            c.attr("scan_output_axes", (0,) * written),
            c.attr("scan_output_directions", (0,) * written),
        )


@gradient("Scan")
def scan(c: Context, *cotangents: ir.Value | None) -> list[ir.Value | None]:
    """With s[t+1], z[t] = body(s[t], x[t]): (gs[t], gx[t], gv) += vjp of body of (gs[t+1], gz[t]), t = T-1 ... 0.

    s carried states, x scan inputs and z scan outputs (each with its axis and direction), v outer values that the body
    reads. The node gives out the states as further scan outputs, where they are needed; the body is computed again in
    each backward iteration. Source: ONNX Scan-19; Griewank & Walther, "Evaluating Derivatives", chapter 4.
    """
    parts = _Scan.of(c)
    count = len(parts.initial)
    outer = [v for k, v in enumerate(c.captured, start=len(c.inputs)) if c.wants(k)]
    wanted_items = [k for k in range(len(parts.items)) if c.wants(count + k)]
    sources = [s for k, s in enumerate((*parts.states, *parts.items)) if c.wants(k)]
    reached = [v for v, g in zip((*parts.nexts, *parts.elements), cotangents, strict=True) if g is not None]
    live, active = live_states(c, list(parts.body), parts.states, parts.nexts, [*sources, *outer], reached)

    inner = new_graph(c, "scan")
    carried = [new_input(inner, parts.states[k]) for k in live]
    read_states = [described(s, s.shape, c.op.names.numbered("ig")) for s in parts.states]
    read_items = [described(x, x.shape, c.op.names.numbered("ig")) for x in parts.items]
    values = dict(zip((*parts.states, *parts.items), (*read_states, *read_items), strict=True))
    nodes, values = copied(inner, parts.body, values)
    of, gs = [parts.nexts[k] for k in live], list(carried)
    incoming: list[tuple[ir.Value, ir.Value, int, int]] = []  # body input, operand, axis, direction of the backward
    for k, (element, g) in enumerate(zip(parts.elements, cotangents[count:], strict=True)):
        if g is not None and element in active:
            item = described(element, element.shape, c.op.names.numbered("ig"))
            incoming.append((item, g, parts.out_axes[k], 1 - parts.out_directions[k]))
            of.append(element)
            gs.append(item)
    wrt = [*(values[parts.states[k]] for k in live), *(read_items[k] for k in wanted_items), *outer]
    found = inner.differentiate(nodes, [values.get(v, v) for v in of], gs, wrt)
    given = dict(zip(wanted_items, found[len(live) : len(live) + len(wanted_items)], strict=True))
    given = {k: g for k, g in given.items() if g is not None}
    summed = {v: g for v, g in zip(outer, found[len(found) - len(outer) :], strict=True) if g is not None}
    outputs = [inner.zeros_like(g) if new is None else new for g, new in zip(carried, found, strict=False)]
    outputs += [inner.add(new_input(inner, v), g) for v, g in summed.items()]
    graph = closed(inner, [*outputs, *(g for g in given.values() if g is not None)])
    likes = [*(parts.states[k] for k in live), *summed, *(parts.items[k] for k in given)]
    _know_ranks(c, graph.outputs, likes)

    needed = [k for k, s in enumerate(read_states) if s.uses()]
    stored = stacked_over_iterations(c, parts.body, [parts.states[k] for k in needed])
    incoming += [(read_states[k], stack, 0, 1) for k, stack in zip(needed, stored, strict=True)]
    read = [k for k, x in enumerate(read_items) if x.uses() or not (incoming or k)]
    incoming += [(read_items[k], parts.stacks[k], parts.in_axes[k], 1 - parts.in_directions[k]) for k in read]
    graph.inputs.extend(item for item, *_ in incoming)
    start = [initial_cotangent(c, k, parts.initial[k], cotangents[k]) for k in live]
    results = emit(
        c,
        "Scan",
        [*start, *(c.zeros_like(v) for v in summed), *(operand for _, operand, *_ in incoming)],
        [*(parts.initial[k] for k in live), *summed, *(parts.stacks[k] for k in given)],
        body=graph,
        num_scan_inputs=len(incoming),
        scan_input_axes=[axis for *_, axis, _ in incoming] or None,
        scan_input_directions=[direction for *_, direction in incoming],
        scan_output_axes=[parts.in_axes[k] for k in given] or None,
        scan_output_directions=[1 - parts.in_directions[k] for k in given] or None,
    )
    by_index = dict(
        zip((*live, *(count + k for k in given)), (*results[: len(live)], *results[len(outputs) :]), strict=True)
    )
    by_value = dict(zip(summed, results[len(live) :], strict=False))
    return [*(by_index.get(k) for k in range(len(c.inputs))), *(by_value.get(v) for v in c.captured)]


def _know_ranks(c: Context, outputs: Sequence[ir.Value], likes: Sequence[ir.Value]) -> None:
    """Give the outputs of a body, whose ranks runtimes want to know, the shapes of what they are cotangents of."""
    for output, like in zip(outputs, likes, strict=True):
        if output.shape is None and like.shape is None:
            raise c.refuse(
                f"the number of dimensions of {like.name!r}, which its body reads, is not known",
                "Declare the shapes of the model's inputs, with symbols where they vary.",
            )
        if output.shape is None and like.shape is not None:
            output.shape = like.shape.copy()
