"""One pass over a graph: the state of every value, from those of the inputs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.batch.repeats import repeats
from onnx_ig.graph.batch.states import FREE, SIZES, Index, Mixed, Mixes, Rows, State, rule_for
from onnx_ig.graph.sizes import ONE, Size, Symbols
from onnx_ig.graph.subgraphs import captured_values

__all__ = ["Analysis", "followed"]

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


_TAKEN: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("Cast", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
         "Unsqueeze"),
        (0,),
    ),
    "Where": (1, 2),
}  # fmt: skip
"""Operands whose numbers an operator hands on as they are."""
_CHOOSING = {"Gather": 0, "GatherND": 0, "ScatterElements": 2, "ScatterND": 2}
"""Operators that read or write places, and the operand that they take rows from."""


class Analysis(Symbols):
    """States of values, and the sizes that small integer values hold.

    `rows` is the number of rows where the file fixes it, else None. Then free operands may have that many equal entries,
    which stand for one: `narrowed` holds, for each node, those that broadcast, and `widened` those that do not, with
    the axis. `numbered` holds constant indices that name the rows, `moved` nodes of Reshape
    that take the one row of a fixed batch to another place among the axes, `squeezed` the axes that are dropped, where
    one row is assumed, beside its own.
    """

    def __init__(
        self,
        states: Mapping[ir.Value, State],
        rows: int | None = None,
        choices: Mapping[Hashable, int] | None = None,
    ):
        super().__init__()
        self.rows = rows
        self.narrowed: dict[ir.Node, dict[ir.Value, int]] = {}
        self.widened: dict[ir.Node, dict[ir.Value, int]] = {}
        self.numbered: dict[ir.Node, ir.Value] = {}
        self.moved: set[ir.Node] = set()
        self.squeezed: dict[ir.Node, list[int]] = {}
        self._states: dict[ir.Value, State] = dict(states)
        self._node: ir.Node | None = None
        self._choices = dict(choices or {})
        self._options: dict[Hashable, int] = {}
        self._failed = False

    def run(self, nodes: Iterable[ir.Node]) -> None:
        """Tell the states of what `nodes`, in order, compute."""
        around = self._node
        for node in nodes:
            self._node = node
            self.narrowed.pop(node, None)  # a body may be followed again, under other circumstances
            self.widened.pop(node, None)
            self.numbered.pop(node, None)
            self.moved.discard(node)
            for value, state in zip(node.outputs, self._outputs(node), strict=False):
                self._states[value] = state
        self._node = around

    def _outputs(self, node: ir.Node) -> Sequence[State]:
        count = len(node.outputs)
        if all(v.const_value is not None for v in node.outputs):
            return [FREE] * count
        found = self.follow(node)
        if found is not None:
            return [FREE if n.closed else SIZES for n in found]
        states = [self.state(v) for v in (*node.inputs, *captured_values(node)) if v is not None]
        mixed = [s for s in states if isinstance(s, Mixed)]
        named = next((s for s in mixed if s.addressed), None)
        if named is None and self._names_rows(node):
            named = Mixed(f"{node.op_type} (node {node.name!r}) takes rows by numbers of an input", addressed=True)
        if named is not None or mixed:
            return [replace(named or mixed[0], axis=None)] * count
        try:
            if node.domain == "" and node.op_type in _RANDOM:
                raise Mixes("draws random numbers")
            if all(s == FREE for s in states):
                return [FREE] * count
            rule = rule_for(node)
            if rule is not None:
                result = rule(self, node)
                return [result] * count if isinstance(result, State) else list(result)
            if all(s in (FREE, SIZES) for s in states):
                return [SIZES] * count
            raise Mixes("is an operator of which it is not known whether it keeps rows apart")
        except Mixes as mixes:
            self._failed = True
            return [Mixed(f"{node.op_type} (node {node.name!r}) {mixes}", mixes.axis)] * count

    def _names_rows(self, node: ir.Node) -> bool:
        """Whether the numbers of an input say which rows are read, or where rows are written: edges between nodes."""
        if node.domain or node.op_type not in _CHOOSING:
            return False
        chosen, index = node.inputs[_CHOOSING[node.op_type]], node.inputs[1]
        state = self.state(chosen)
        if not isinstance(state, Rows) or node.attributes.get_int("batch_dims", 0) != 0:
            return False
        axis = node.attributes.get_int("axis", 0)
        return self._holds_input(index) and state.axis == (axis if axis >= 0 else self.positive([axis], chosen)[0])

    def _holds_input(self, value: ir.Value | None) -> bool:
        """Whether a value holds the very numbers of an input: taken from it, reshaped, not computed."""
        frontier, seen = [value], set()
        while frontier:
            current = frontier.pop()
            if current is None or current in seen or current.const_value is not None:
                continue
            if current.is_graph_input():
                return True
            seen.add(current)
            node = current.producer()
            if node is not None:
                frontier += [node.inputs[i] for i in _TAKEN.get(node.op_type, ()) if i < len(node.inputs)]
        return False

    # Readings: with one row in a fixed batch, a shape may fit several

    def choice(self, pattern: Hashable, options: int) -> int:
        """Which of several readings of one pattern is taken; the same wherever the pattern stands."""
        if options > 1 and not self._failed:
            self._options.setdefault(pattern, options)
        return self._choices.get(pattern, 0)

    def otherwise(self) -> dict[Hashable, int] | None:
        """The next choices to try: the latest that was open before something failed is made otherwise."""
        patterns = list(self._options)
        for index in reversed(range(len(patterns))):
            taken = self._choices.get(patterns[index], 0) + 1
            if taken < self._options[patterns[index]]:
                return {p: self._choices.get(p, 0) for p in patterns[:index]} | {patterns[index]: taken}
        return None

    def apart(self) -> int:
        """How many values are known to keep rows apart."""
        return sum(not isinstance(state, Mixed) for state in self._states.values())

    # What rules ask

    def state(self, value: ir.Value | None) -> State:
        """The state of a value; an operand left out is free, and so is an initializer."""
        return FREE if value is None else self._states.get(value, FREE)

    def steady(self, value: ir.Value) -> bool:
        return self.state(value) == FREE

    def settle(self, value: ir.Value, state: State) -> None:
        """Set the state of a value that no node computes (an input of a body)."""
        self._states[value] = state
        self.forget(value)

    def free(self, *values: ir.Value | None) -> bool:
        """Whether all are the same for any batch."""
        return all(self.state(v) == FREE for v in values)

    def rank(self, value: ir.Value) -> int:
        """Raises Mixes where the number of axes is not known."""
        if value.shape is None:
            raise Mixes(f"reads {value.name!r}, whose number of axes is not known before it runs")
        return len(value.shape)

    def positive(self, axes: Sequence[int], value: ir.Value | None, more: int = 0) -> list[int]:
        """Axes counted from the start, of a value that has `more` axes than `value`."""
        if all(axis >= 0 for axis in axes) or value is None:
            return list(axes)
        rank = self.rank(value) + more
        return [axis + rank if axis < 0 else axis for axis in axes]

    def sizes(self, value: ir.Value | None) -> list[Size] | None:
        """Dimensions; None where they depend on the rows otherwise than by their number along one axis."""
        state = self.state(value)
        dims = super().sizes(value)
        if dims is None or state == FREE:
            return dims
        if isinstance(state, Mixed) and state.axis is not None:
            state = Rows(state.axis)
        if not isinstance(state, Rows | Index):
            return None
        dims[state.axis] = state.length
        return dims

    def dims(self, value: ir.Value) -> list[Size]:
        """The dimensions as sizes. Raises Mixes where not even their number is known."""
        self.rank(value)
        dims = self.sizes(value)
        if dims is None:
            raise Mixes(f"reads {value.name!r}, whose shape depends on how many rows there are")
        return dims

    def even(self, value: ir.Value, axis: int) -> bool:
        """Whether a free operand that is broadcast says the same to every row along `axis`.

        Its length is 1 there, or the number of rows that the file fixes, of equal entries.
        """
        if self.dims(value)[axis].known == 1:
            return True
        if not self._fits(value, axis):
            return False
        if self._node is not None:
            self.narrowed.setdefault(self._node, {})[value] = axis
        return True

    def taken_as_rows(self, value: ir.Value, axis: int) -> Rows | None:
        """The state of a free operand that must have as many entries along `axis` as there are rows.

        None where it has not the number that the file fixes, or they differ.
        """
        if not self._fits(value, axis):
            return None
        if self._node is not None:
            self.widened.setdefault(self._node, {})[value] = axis
        return Rows(axis, uniform=True)

    def taken_as_numbers(self, value: ir.Value) -> Index | None:
        """The state of constant indices [rows, ..., K] whose first entry along the last axis is the number of the row."""
        array = self.constant(value)
        if self.rows is None or array is None or array.ndim < 2 or array.shape[0] != self.rows or not array.shape[-1]:
            return None
        numbers = array[..., 0].reshape(self.rows, -1)
        if not (numbers == np.arange(self.rows)[:, None]).all() or not (array[..., 1:] == array[:1, ..., 1:]).all():
            return None
        if self._node is not None:
            self.numbered[self._node] = value
        return Index(0, leading=True)

    def says_rows(self, value: ir.Value | None, axis: int) -> bool:
        """Whether the file gives a number for the rows along an axis: what it leaves open it runs with any number."""
        return value is not None and value.shape is not None and isinstance(value.shape[axis], int)

    def move_rows(self) -> None:
        """The node at hand is read as one that moves the rows' axis, and regroups what stands around it."""
        if self._node is not None:
            self.moved.add(self._node)

    def others_of_one(self, value: ir.Value | None, axis: int) -> list[int] | None:
        """Axes of length 1 beside the rows', where one row is assumed and all other lengths are known; else None.

        Also None where the file says that there is one row: what follows counts its axis as gone.
        """
        if self.rows != 1 or value is None or self.says_rows(value, axis):
            return None
        lengths = [d.known for i, d in enumerate(self.dims(value)) if i != axis]
        if None in lengths:
            return None
        axes = [i for i, d in enumerate(self.dims(value)) if i != axis and d == ONE]
        if self._node is not None:
            self.squeezed[self._node] = axes
        return axes

    def _fits(self, value: ir.Value, axis: int) -> bool:
        if self.rows is None or not 0 <= axis < self.rank(value):
            return False
        return self.dims(value)[axis].known == self.rows and repeats(value, axis)

    # Operands side by side

    def only(self, value: ir.Value | None, *free: ir.Value | None) -> Rows | Index:
        """The state of the one operand that runs over the rows. Raises Mixes where one of `free` depends on them too."""
        for other in free:
            if not self.free(other):
                raise Mixes(f"takes {other.name!r} from the rows")  # type: ignore[union-attr]
        state = self.state(value)
        if not isinstance(state, Rows | Index) or (isinstance(state, Index) and state.leading):
            raise Mixes("depends on how many rows there are")
        if isinstance(state, Rows) and state.offsets:
            raise Mixes(f"reads {value.name!r}, which counts positions over the whole batch")  # type: ignore[union-attr]
        return state

    def rows_of(self, value: ir.Value | None, *free: ir.Value | None) -> Rows:
        """As `only`, for operators that compute with what stands there."""
        state = self.only(value, *free)
        if isinstance(state, Index):
            raise Mixes(f"computes with the number of the row, {value.name!r}")  # type: ignore[union-attr]
        return state

    def rows_together(self, values: Iterable[ir.Value | None]) -> Rows:
        """The state that the operands that are not free have in common. Raises Mixes where their rows do not meet."""
        found: Rows | None = None
        for value in values:
            if not self.free(value):
                found = self.same(found, self.rows_of(value))
        assert found is not None
        return found

    def broadcast(self, values: Iterable[ir.Value | None]) -> State:
        """The state of an element-wise result. Raises Mixes where rows meet other rows, or entries of a free operand."""
        operands = [v for v in values if v is not None]
        moving = [v for v in operands if not self.free(v)]
        if all(self.state(v) == SIZES for v in moving):
            return SIZES
        if len(operands) == 1:
            return self.rows_of(moving[0])
        ranks = {v: self.rank(v) for v in operands}
        rank = max(ranks.values())
        found: Rows | None = None
        for value in moving:
            state = self.rows_of(value)
            found = self.same(found, state.at(rank - ranks[value] + state.axis))
        assert found is not None
        for value in operands:
            axis = found.axis - rank + ranks[value]
            if self.free(value) and axis >= 0 and not self.even(value, axis):
                raise Mixes(f"pairs rows with entries of {value.name!r}")
        return found

    def same(self, one: Rows | None, other: Rows) -> Rows:
        """The state of what is computed from two operands, entry by entry. Raises Mixes where their rows do not meet."""
        if one is None:
            return other
        if one.axis != other.axis or one.length != other.length:
            raise Mixes("pairs rows with other rows")
        if one.uniform:
            return other
        if other.uniform or (one.before, one.per) == (other.before, other.per):
            return one
        raise Mixes("pairs rows with other rows")


_READINGS = 64


def followed(graph: ir.Graph, states: Mapping[ir.Value, State], rows: int | None = None) -> Analysis:
    """The states of a graph's values, by the first reading under which its outputs have one entry a row.

    Where there is none such, by the reading that keeps rows apart in most values.
    """
    readings: list[Analysis] = []
    choices: Mapping[Hashable, int] | None = {}
    while choices is not None and len(readings) < _READINGS:
        analysis = Analysis(states, rows, choices)
        analysis.run(graph)
        if all(_apart(analysis.state(v)) for v in graph.outputs):
            return analysis
        readings.append(analysis)
        choices = analysis.otherwise()
    return max(readings, key=Analysis.apart)


def _apart(state: State) -> bool:
    return state == FREE or (isinstance(state, Rows) and state.plain and not state.offsets)
