"""Loop: the forward keeps its states, a backward Loop visits the iterations in reverse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
    refuse_changing_shape,
    stacked_over_iterations,
)
from onnx_ig.rules.context import Context
from onnx_ig.rules.loop_reads import put_back, row_reads
from onnx_ig.rules.registry import gradient


@dataclass
class _Loop:
    """The parts of a Loop: what it carries (`initial`, in the body `states` and `nexts`) and scans out (`elements`)."""

    trips: ir.Value | None
    condition: ir.Value | None
    initial: list[ir.Value]
    body: ir.Graph
    states: list[ir.Value]
    nexts: list[ir.Value]
    elements: list[ir.Value]

    @classmethod
    def of(cls, c: Context) -> _Loop:
        body: ir.Graph = c.attr("body")
        initial = [c.operand(k) for k in range(2, len(c.inputs))]
        nexts, elements = body.outputs[1 : 1 + len(initial)], body.outputs[1 + len(initial) :]
        return cls(c.input(0), c.input(1), initial, body, list(body.inputs[2:]), list(nexts), list(elements))

    def counted(self) -> bool:
        """Whether the trip count operand alone decides how often the body runs."""
        outcome: ir.Value | None = self.body.outputs[0]
        while outcome is not None and (node := outcome.producer()) is not None:
            outcome = node.inputs[0] if node.op_type == "Identity" else None
        goes_on = outcome is self.body.inputs[1] or _is_true(outcome)
        return self.trips is not None and goes_on and (self.condition is None or _is_true(self.condition))


@gradient("Loop")
def loop(c: Context, *cotangents: ir.Value | None) -> list[ir.Value | None]:
    """With s[t+1], z[t] = body(t, s[t]): (gs[t], gv) += vjp of body at (t, s[t]) of (gs[t+1], gz[t]), t = T-1 ... 0.

    s carried states, z scan outputs [T, ...], v outer values that the body reads. The node gives out T and s[t] as
    further scan outputs [T, ...], where they are needed; the body is computed again in each backward iteration, so
    memory is linear in T and the file does not depend on it. T = 0 passes gs through.
    Source: ONNX Loop-19; Griewank & Walther, "Evaluating Derivatives", chapter 4.
    """
    parts = _Loop.of(c)
    count = len(parts.initial)
    outer = [v for k, v in enumerate(c.captured, start=len(c.inputs)) if c.wants(k)]
    sources = [s for k, s in enumerate(parts.states, start=2) if c.wants(k)]
    reached = [v for v, g in zip((*parts.nexts, *parts.elements), cotangents, strict=True) if g is not None]
    live, active = live_states(c, list(parts.body), parts.states, parts.nexts, [*sources, *outer], reached)

    inner = new_graph(c, "loop")
    step, going = new_input(inner, parts.body.inputs[0]), new_input(inner, parts.body.inputs[1])
    last = ir.Value(type=step.type)
    memory = [ir.Value(type=s.type) for s in parts.states]
    back = inner.op.Sub(last, step)
    values = {parts.body.inputs[0]: back, parts.body.inputs[1]: inner.op.constant(np.asarray(True))}
    values |= {s: _pick(inner, stack, back, s) for s, stack in zip(parts.states, memory, strict=True)}
    nodes, values = copied(inner, parts.body, values)
    reads = row_reads(parts.body, set(outer), active)
    rows = [values[r.row] for r in reads]
    nodes = [n for n in nodes if n.outputs[0] not in rows]
    carried = [new_input(inner, parts.states[k]) for k in live]
    of, gs = [parts.nexts[k] for k in live], list(carried)
    for element, g in zip(parts.elements, cotangents[count:], strict=True):
        if g is not None and element in active:
            of.append(element)
            gs.append(_pick(inner, g, back, element))
    wrt = [*(values[parts.states[k]] for k in live), *outer, *rows]
    found = inner.differentiate(nodes, [values.get(v, v) for v in of], gs, wrt)
    summed = {v: g for v, g in zip(outer, found[len(live) :], strict=False) if g is not None}
    given = [(r, g) for r, g in zip(reads, found[len(found) - len(reads) :], strict=True) if g is not None]
    outputs = [inner.op.Identity(going)]
    outputs += [inner.zeros_like(g) if new is None else new for g, new in zip(carried, found, strict=False)]
    outputs += [inner.add(new_input(inner, v), g) for v, g in summed.items()]
    for read, g in given:
        outputs += [g, values.get(read.index, read.index)]
    graph = closed(inner, outputs)

    trips = _stacks(c, parts, memory)
    ir.convenience.replace_all_uses_with(last, c.op.Sub(trips, 1))
    start = [initial_cotangent(c, k, parts.initial[k], cotangents[k]) for k in live] + [c.zeros_like(v) for v in summed]
    likes = [*(parts.initial[k] for k in live), *summed]
    for read, _ in given:
        likes += [described(v, None if v.shape is None else [None, *v.shape]) for v in (read.row, read.index)]
    results = emit(c, "Loop", [trips, None, *start], likes, body=graph)
    by_state = dict(zip(live, results, strict=False))
    by_value = dict(zip(summed, results[len(live) :], strict=False))
    for (read, _), rows_read, places in zip(given, results[len(start) :: 2], results[len(start) + 1 :: 2], strict=True):
        g = put_back(c, read, rows_read, places)
        if g is not None:
            by_value[read.value] = c.add(by_value[read.value], g) if read.value in by_value else g
    return [None, None, *(by_state.get(k) for k in range(count)), *(by_value.get(v) for v in c.captured)]


def _stacks(c: Context, parts: _Loop, memory: list[ir.Value]) -> ir.Value:
    """Put the stacked states that are read in the place of `memory`; returns the number of iterations, a scalar."""
    needed = [k for k, stack in enumerate(memory) if stack.uses()]
    if not needed and parts.counted():
        return c.op.Reshape(parts.trips, [])
    for k in needed:
        if not isinstance(parts.states[k].type, ir.TensorType):
            raise c.refuse(
                f"earlier values of its carried value {parts.states[k].name!r}, which is no tensor, are needed",
                "Carry tensors, or only append to a carried sequence.",
            )
        refuse_changing_shape(c, parts.states[k])
    wanted = [parts.states[k] for k in needed] or [parts.body.inputs[0]]
    stacks = stacked_over_iterations(c, parts.body, wanted)
    for k, stack in zip(needed, stacks, strict=False):
        ir.convenience.replace_all_uses_with(memory[k], stack)
    return c.op.Squeeze(c.op.Shape(stacks[0], start=0, end=1), [0])


def _pick(c: Context, stack: ir.Value, step: ir.Value, like: ir.Value) -> ir.Value:
    """`stack[step]`, known to look like `like`."""
    value = c.op.Gather(stack, step, axis=0)
    value.type = like.type
    value.shape = None if like.shape is None else like.shape.copy()
    return value


def _is_true(value: ir.Value | None) -> bool:
    return value is not None and value.const_value is not None and bool(value.const_value.numpy().all())
