"""One pass over a graph: the state of every value, from those of the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.batch.numbers import LONGEST, Numbers, compute, from_array
from onnx_ig.graph.batch.sizes import Size
from onnx_ig.graph.batch.states import FREE, SIZES, Index, Mixed, Mixes, Rows, State, rule_for
from onnx_ig.graph.subgraphs import captured_values

__all__ = ["Analysis"]

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


class Analysis:
    """States of values, and the sizes that small integer values hold.

    `rows` is the number of rows where the file fixes it, else None.
    """

    def __init__(self, states: Mapping[ir.Value, State], rows: int | None = None):
        self.rows = rows
        self._states: dict[ir.Value, State] = dict(states)
        self._numbers: dict[ir.Value, Numbers | None] = {}
        self._aliases: dict[str, Size] = {}

    def run(self, nodes: Iterable[ir.Node]) -> None:
        """Tell the states of what `nodes`, in order, compute."""
        for node in nodes:
            for value, state in zip(node.outputs, self._outputs(node), strict=False):
                self._states[value] = state

    def _outputs(self, node: ir.Node) -> Sequence[State]:
        count = len(node.outputs)
        for value in node.outputs:  # a body is run again with other states
            self._numbers.pop(value, None)
        found = compute(self, node)
        if found is not None:
            self._numbers.update(zip(node.outputs, found, strict=True))
            return [FREE if n.closed else SIZES for n in found]
        states = [self.state(v) for v in (*node.inputs, *captured_values(node)) if v is not None]
        mixed = next((s for s in states if isinstance(s, Mixed)), None)
        if mixed is not None:
            return [mixed] * count
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
            return [Mixed(f"{node.op_type} (node {node.name!r}) {mixes}")] * count

    # What rules ask

    def state(self, value: ir.Value | None) -> State:
        """The state of a value; an operand left out is free, and so is an initializer."""
        return FREE if value is None else self._states.get(value, FREE)

    def settle(self, value: ir.Value, state: State) -> None:
        """Set the state of a value that no node computes (an input of a body)."""
        self._states[value] = state
        self._numbers.pop(value, None)

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

    def dims(self, value: ir.Value) -> list[Size]:
        """The dimensions as sizes. Raises Mixes where not even their number is known."""
        state = self.state(value)
        moving = state.axis if isinstance(state, Rows | Index) else None
        return [
            state.length if isinstance(state, Rows | Index) and axis == moving else self._dim(value, axis)
            for axis in range(self.rank(value))
        ]

    def _dim(self, value: ir.Value, axis: int) -> Size:
        dim = value.shape[axis]  # type: ignore[index]
        if isinstance(dim, int):
            return Size(dim)
        name = dim.value if dim.value is not None else f"{value.name}#{axis}"
        return self._aliases.get(str(name), Size.named(str(name)))

    def learn(self, value: ir.Value, dims: Sequence[Size]) -> None:
        """Dimensions that are better known here than to shape inference, which gave them names of its own."""
        for dim, size in zip(value.shape or (), dims, strict=False):
            if not isinstance(dim, int) and dim.value is not None and not size.open:
                self._aliases.setdefault(str(dim.value), size)

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The array that the file fixes, else None."""
        if value is None or value.const_value is None or value.is_graph_input():
            return None
        return value.const_value.numpy()

    def even(self, value: ir.Value, axis: int) -> bool:
        """Whether a free operand says the same to every row along `axis`.

        Its length is 1 there, or the file fixes both the number of rows and a constant that repeats itself.
        """
        if self.dims(value)[axis].known == 1:
            return True
        if self.rows is None or value.shape is None or value.shape[axis] != self.rows:
            return False
        array = self.constant(value)
        return array is not None and bool((array == np.take(array, [0], axis)).all())

    def numbers(self, value: ir.Value | None) -> Numbers | None:
        """The sizes in a scalar or vector of numbers; None where it is no such value."""
        if value is None:
            return None
        if value not in self._numbers and self.state(value) == FREE:
            self._numbers[value] = self._free_numbers(value)
        return self._numbers.get(value)

    def _free_numbers(self, value: ir.Value) -> Numbers | None:
        shape = value.shape
        if shape is None or len(shape) > 1 or value.dtype not in _NUMERIC:
            return None
        length = shape[0] if len(shape) else 1
        if not isinstance(length, int) or length > LONGEST:
            return None
        array = self.constant(value)
        if array is not None:
            return from_array(array)
        return Numbers(len(shape), [Size.named(f"{value.name}[{i}]") for i in range(length)])

    def integers(self, value: ir.Value | None) -> list[int] | None:
        """Numbers of an operand that are known before it runs; None where one is not."""
        numbers = self.numbers(value)
        return None if numbers is None else numbers.integers()

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


_NUMERIC = frozenset(
    {
        ir.DataType.INT64,
        ir.DataType.INT32,
        ir.DataType.BOOL,
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
    }
)
