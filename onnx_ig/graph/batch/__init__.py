"""Which axis of every value is the batch, told by dataflow.

A symbolic dimension is a candidate for the batch, not a proof: a graph network has a symbolic number of nodes, dynamic
quantisation takes one scale from all rows together, recurrent states carry the batch on axis 1. So candidates are
followed through every node. What comes out proven satisfies: rows run together give what each gives alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ig.errors import OptionError
from onnx_ig.graph.batch import control, elementwise, indexing, layers, products, runtime, shapes
from onnx_ig.graph.batch.analysis import followed
from onnx_ig.graph.batch.opening import open_batch
from onnx_ig.graph.batch.states import FREE, SIZES, Index, Mixed, Rows, State

__all__ = [
    "BatchPlan",
    "batch_axes",
    "control",
    "elementwise",
    "feeds_state",
    "indexing",
    "layers",
    "open_batch",
    "products",
    "runtime",
    "shapes",
]

_BATCH_NAMES = re.compile(r"batch|^(n|b|bs)$", re.IGNORECASE)
_STATE_OPERANDS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}


@dataclass(frozen=True)
class BatchPlan:
    """What dataflow says about the batch.

    `batchable`: every graph output has one entry a row, or does not depend on the batch, and one at least does.
    `reason`: why not, naming the first node that mixes rows or cannot be told not to; empty where batchable.
    """

    batchable: bool
    reason: str
    _states: Mapping[str, State]

    def axis(self, name: str) -> int | None:
        """The batch axis of a value, counted from 0; None where it has none: it does not depend on the batch, or not
        row by row. Raises OptionError for a name that the model does not have."""
        state = self._state(name)
        return state.axis if isinstance(state, Rows) and state.plain and not state.offsets else None

    def depends(self, name: str) -> bool:
        """Whether a value depends on the batch in any way."""
        return self._state(name) != FREE

    def addressed(self, name: str) -> bool:
        """Whether a value depends on rows that numbers of an input name: they are parts of one sample."""
        state = self._state(name)
        return isinstance(state, Mixed) and state.addressed

    def why_not(self, name: str) -> str:
        """Why a value has no batch axis; empty where it has one."""
        return _why_not(name, self._state(name))

    def _state(self, name: str) -> State:
        if name not in self._states:
            raise OptionError(f"the model has no value {name!r}")
        return self._states[name]


def batch_axes(graph: ir.Graph, given: Mapping[str, int | None] | None = None) -> BatchPlan:
    """Which axis of the inputs, the outputs and every value between is the batch.

    Args:
        graph: a prepared graph (`prepare`): one opset, no functions, shapes inferred. It is not changed.
        given: batch axes of inputs by hand; None for an input that is the same for all rows. Inputs not named are
            guessed: the leading dimension where it is open, axis 1 for initial states of recurrent layers. A dimension
            that the file fixes can be given too.

    Raises OptionError where `given` names no input, or an axis that the input does not have.
    """
    given = dict(given or {})
    _check(graph, given)
    first: BatchPlan | None = None
    for candidates in _candidates(graph, given):
        plan = _follow(graph, candidates)
        if plan.batchable:
            return plan
        first = first or plan
    return first or _follow(graph, {v: given.get(v.name or "") for v in graph.inputs})


def _check(graph: ir.Graph, given: Mapping[str, int | None]) -> None:
    inputs = {v.name: v for v in graph.inputs}
    for name, axis in given.items():
        if name not in inputs:
            raise OptionError(
                f"batch_axes: the model has no input {name!r}; its inputs are {', '.join(map(repr, inputs))}"
            )
        shape = inputs[name].shape
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int)):
            raise OptionError(f"batch_axes: the axis of {name!r} is a whole number or None, not {axis!r}")
        if axis is not None and (axis < 0 or (shape is not None and axis >= len(shape))):
            raise OptionError(f"batch_axes: {name!r} has no axis {axis}")


def _candidates(graph: ir.Graph, given: Mapping[str, int | None]) -> Iterator[dict[ir.Value, int | None]]:
    """Ways to read the inputs' open dimensions, the likeliest first.

    Every input that leads with an open dimension takes part: one that is the same for all rows has to be given by hand.
    """
    states = {v for v in graph.inputs if feeds_state(v)}
    leading = {v: _leading(v, v in states) for v in graph.inputs}
    symbols: dict[str, bool] = {}
    for value in graph.inputs:
        for axis, dim in enumerate(value.shape or ()):
            name = None if isinstance(dim, int) else dim.value
            if name is not None and (leading[value] == axis or (_BATCH_NAMES.search(name) and axis < 2)):
                symbols[name] = symbols.get(name, False) or bool(_BATCH_NAMES.search(name))
    ways = [leading]
    for symbol in sorted(symbols, key=lambda s: not symbols[s]):
        way = {v: _axis_named(v, symbol, leading[v]) for v in graph.inputs}
        if all(axis is not None or leading[v] is None or v.name in given for v, axis in way.items()):
            ways.append(way)
    seen: list[dict[ir.Value, int | None]] = []
    for way in ways:
        settled = {v: given.get(v.name or "", axis) for v, axis in way.items()}
        if settled not in seen and any(axis is not None for axis in settled.values()):
            seen.append(settled)
            yield settled


def _leading(value: ir.Value, state: bool) -> int | None:
    if value.shape is None:
        return 0
    axis = 1 if state else 0
    return axis if axis < len(value.shape) and not isinstance(value.shape[axis], int) else None


def _axis_named(value: ir.Value, symbol: str, leading: int | None) -> int | None:
    names = [None if isinstance(d, int) else d.value for d in value.shape or ()]
    if symbol in names:
        return names.index(symbol)
    return leading if leading is not None and (not names or names[leading] is None) else None


def feeds_state(value: ir.Value) -> bool:
    """Whether an input is the initial state of a recurrent layer, as it is or cast or cut to pieces along axis 0."""
    for node, index in value.uses():
        if node.domain == "" and index in _STATE_OPERANDS.get(node.op_type, ()):
            return node.attributes.get_int("layout", 0) == 0
        if node.domain == "com.microsoft" and node.op_type == "DynamicQuantizeLSTM" and index in (5, 6):
            return True
        if node.op_type in ("Cast", "Identity", "Slice") and index == 0 and feeds_state(node.outputs[0]):
            return True
    return False


def _follow(graph: ir.Graph, axes: Mapping[ir.Value, int | None]) -> BatchPlan:
    moving = {v: axis for v, axis in axes.items() if axis is not None}
    counts = {v.shape[axis] for v, axis in moving.items() if v.shape is not None}
    fixed = {d for d in counts if isinstance(d, int)}
    states: dict[ir.Value, State] = {v: Rows(axis) for v, axis in moving.items()}
    for value, axis in moving.items():
        again = _twice(value, axis)
        if again:
            states[value] = Mixed(f"the input {value.name!r} has the open dimension {again!r} twice")
    rows = int(fixed.pop()) if len(fixed) == 1 and len(counts) == 1 else None
    if fixed and rows is None:
        numbers = ", ".join(sorted(map(str, counts)))
        states = {v: Mixed(f"the inputs' batch dimensions differ: {numbers}") for v in moving}
    analysis = followed(graph, states, rows)
    values = [*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)]
    known = {v.name: analysis.state(v) for v in values if v.name}
    reason = _verdict(graph.outputs, known, bool(moving))
    return BatchPlan(not reason, reason, known)


def _twice(value: ir.Value, axis: int) -> str | None:
    if value.shape is None or isinstance(value.shape[axis], int):
        return None
    names = [None if isinstance(d, int) else d.value for d in value.shape]
    return names[axis] if names[axis] is not None and names.count(names[axis]) > 1 else None


def _verdict(outputs: Sequence[ir.Value], states: Mapping[str, State], any_open: bool) -> str:
    if not any_open:
        return "no input has an open dimension that could be the batch"
    for value in outputs:
        state = states[value.name or ""]
        if state != FREE:
            reason = _why_not(value.name or "", state)
            if reason:
                return reason
    if all(states[v.name or ""] == FREE for v in outputs):
        return "no output depends on an input with an open dimension"
    return ""


def _why_not(name: str, state: State) -> str:
    if isinstance(state, Mixed):
        return state.reason
    if state == FREE:
        return f"{name!r} does not depend on the batch"
    if state == SIZES or isinstance(state, Index):
        return f"{name!r} depends on how many rows there are"
    assert isinstance(state, Rows)
    if state.offsets:
        return f"{name!r} counts positions over the whole batch"
    if not state.plain:
        entries = state.before * state.per
        return f"{name!r} has {entries} entries a row along axis {state.axis}, not one"
    return ""
