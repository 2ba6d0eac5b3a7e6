"""A batch that the file fixes, in its inputs or in the constants of its nodes, made one of any size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis, followed
from onnx_ig.graph.batch.states import Index, Rows
from onnx_ig.graph.constants import settle_constants
from onnx_ig.graph.names import Names
from onnx_ig.graph.sizes import ONE, Size
from onnx_ig.graph.subgraphs import captured_values, subgraphs
from onnx_ig.graph.types import infer
from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = ["open_batch"]

_END = 2**63 - 1


def open_batch(model: ir.Model, axes: Mapping[str, int], rows: int) -> None:
    """Change a prepared model, in place, that takes exactly `rows` rows into one that takes any number.

    `axes` gives the batch axis of the inputs that have one. Dataflow tells which axis of every value runs over the rows;
    constants that hold their number there are replaced by it: the shapes of Reshape and Expand, the ends of Slice, the
    sizes of Resize and AffineGrid. Operands that are the same for all rows are narrowed to one where they are broadcast,
    widened to the rows where they are not (states of recurrent layers, tokens joined to the rows). Squeeze without axes
    drops those that it drops where there are several rows.

    At `rows` rows the model computes what it did. Whether it keeps rows apart at any number is for `batch_axes` to say.
    """
    _forget_sizes(model.graph, axes)
    inputs = {v.name: v for v in model.graph.inputs}
    moving = {inputs[name]: axis for name, axis in axes.items()}
    analysis = followed(model.graph, {v: Rows(axis) for v, axis in moving.items()}, rows)
    while analysis.squeezed:
        _keep_rows(model, analysis.squeezed)
        infer(model)  # an axis that is not dropped any more is seen by what follows
        analysis = followed(model.graph, {v: Rows(axis) for v, axis in moving.items()}, rows)
    work = _Opening(model, analysis, *next(iter(moving.items())))
    for graph in model.graphs():
        for node in list(graph):
            work.open(node)
    symbol = _new_symbol(model.graph)
    for value, axis in moving.items():
        value.shape = _with(value, axis, ir.SymbolicDim(symbol))
    for node in model.graph.all_nodes():
        for value in (v for body in subgraphs(node) for v in body.inputs):
            state = analysis.state(value)
            if isinstance(state, Rows | Index) and value.shape is not None:
                value.shape = _with(value, state.axis, ir.SymbolicDim(None))
    infer(model)
    if settle_constants(model):
        infer(model)


def _forget_sizes(graph: ir.Graph, names: Collection[str]) -> None:
    """Numbers computed from the shapes of what depends on the inputs named are no constants any more."""
    depends = {v for v in graph.inputs if v.name in names}
    for node in graph.all_nodes():
        if not depends.isdisjoint(v for v in (*node.inputs, *captured_values(node)) if v is not None):
            depends.update(node.outputs, *(body.inputs for body in subgraphs(node)))
            for value in node.outputs:
                value.const_value = None


def _keep_rows(model: ir.Model, squeezed: Mapping[ir.Node, Sequence[int]]) -> None:
    """Let nodes of Squeeze that drop every axis of length 1 drop these axes only."""
    names = Names(model)
    for node, axes in squeezed.items():
        assert node.graph is not None
        if not axes:  # runtimes read an empty list as none
            node.op_type = "Identity"
            continue
        op = Inserter(node.graph, names, model.opset_imports[""])
        op.before = node
        node.resize_inputs(2)
        node.replace_input_with(1, op.constant(np.asarray(axes, np.int64)))


def _with(value: ir.Value, axis: int, dim: ir.SymbolicDim) -> ir.Shape:
    dims = list(value.shape or ())
    return ir.Shape([*dims[:axis], dim, *dims[axis + 1 :]])


def _new_symbol(graph: ir.Graph) -> str:
    taken = {str(d.value) for v in graph.inputs for d in v.shape or () if not isinstance(d, int)}
    return next(n for n in ("N", *(f"N_{i}" for i in range(len(taken) + 1))) if n not in taken)


class _Opening:
    """The nodes of one model, opened one by one; `source` is an input with the rows along `axis`."""

    def __init__(self, model: ir.Model, analysis: Analysis, source: ir.Value, axis: int):
        self.model = model
        self.analysis = analysis
        self.names = Names(model)
        self._source = source
        self._axis = axis
        self._counted: ir.Value | None = None

    def open(self, node: ir.Node) -> None:
        narrowed, widened = self.analysis.narrowed.get(node, {}), self.analysis.widened.get(node, {})
        rule = _RULES.get(node.op_type) if node.domain == "" else None
        numbered = self.analysis.numbered.get(node)
        if node.graph is None or not (narrowed or widened or rule or numbered):
            return
        op = self._inserter(node)
        if rule is not None:
            rule(self, op, node)
        for value, axis in narrowed.items():
            self._replace(node, value, op.Slice(value, [0], [1], [axis]))
        for value, axis in widened.items():
            rank = self.analysis.rank(value)
            one = op.Slice(value, [0], [1], [axis])
            target = op.Concat([1] * axis, self.rows(), [1] * (rank - axis - 1), axis=0) if rank > 1 else self.rows()
            self._replace(node, value, op.Expand(one, target))
        if numbered is not None:
            self._replace(node, numbered, self._numbers(op, numbered))

    def _numbers(self, op: Inserter, indices: ir.Value) -> ir.Value:
        """Constant indices [rows, ..., K] for any number of rows: its number, then what each row has."""
        assert indices.const_value is not None
        array = indices.const_value.numpy()
        one = array[:1]
        wide = op.Concat(self.rows(), list(one.shape[1:-1]), [1], axis=0)
        ahead = [1] * (one.ndim - 1)
        number = op.Reshape(op.Range(0, op.Squeeze(self.rows(), [0]), 1), [-1, *ahead])
        parts = [op.Expand(op.Cast(number, to=indices.dtype), wide)]
        if one.shape[-1] > 1:
            parts.append(op.Expand(one[..., 1:], op.Concat(self.rows(), [1] * one[0].ndim, axis=0)))
        return op.Concat(*parts, axis=-1)

    def state(self, value: ir.Value) -> Rows | Index | None:
        """Where the rows are; None for a value that has none, or of which it is not known."""
        state = self.analysis.state(value)
        return state if isinstance(state, Rows | Index) and value.shape is not None else None

    def dims(self, value: ir.Value | None) -> list[Size] | None:
        """The dimensions of an operand that has the rows, else None."""
        return None if value is None or self.analysis.free(value) else self.analysis.sizes(value)

    def rank(self, value: ir.Value) -> int:
        return self.analysis.rank(value)

    def elements(self, value: ir.Value | None) -> list[Size] | None:
        """The sizes in a vector; None where one is not known."""
        numbers = self.analysis.numbers(value)
        known = [] if numbers is None else [e for e in numbers.elements if e is not None]
        return known if numbers is not None and len(known) == len(numbers.elements) else None

    def integers(self, value: ir.Value | None) -> list[int] | None:
        return self.analysis.integers(value)

    def rows(self) -> ir.Value:
        """The number of rows, int64 [1], counted once for the whole model."""
        if self._counted is None:
            op = self._inserter(self.model.graph[0])
            self._counted = op.Shape(self._source, start=self._axis, end=self._axis + 1)
        return self._counted

    def times(self, op: Inserter, factor: Size) -> ir.Value | None:
        """The number of rows times a number that is known, int64 [1]; None where it is not."""
        if factor.known is None:
            return None
        return self.rows() if factor == ONE else op.Mul(self.rows(), [factor.known])

    def _inserter(self, node: ir.Node) -> Inserter:
        assert node.graph is not None
        op = Inserter(node.graph, self.names, self.model.opset_imports[""])
        op.before = node
        return op

    @staticmethod
    def _replace(node: ir.Node, value: ir.Value, other: ir.Value) -> None:
        for index, operand in enumerate(node.inputs):
            if operand is value:
                node.replace_input_with(index, other)


def _reshape(work: _Opening, op: Inserter, node: ir.Node) -> None:
    """The entry of the new shape that holds the rows is what is left for it; counted where another entry is that."""
    data, target = node.inputs[:2]
    state, dims = work.state(node.outputs[0]), work.dims(data)
    wanted = work.elements(target)
    if state is None or dims is None or wanted is None or data is None:
        return
    if node in work.analysis.moved:
        _move_rows(work, op, node)
        return
    here, copies = wanted[state.axis], not node.attributes.get_int("allowzero", 0)
    if here == _REST or here.open or (copies and here == Size(0) and dims[state.axis].open):
        return
    changes: dict[int, int | ir.Value] = {state.axis: -1}
    if _REST in wanted:
        place = wanted.index(_REST)
        shape = node.outputs[0].shape
        length = None if shape is None else shape[place]
        if isinstance(length, int):
            changes[place] = length
        else:
            factor = state.before * state.per if isinstance(state, Rows) else ONE
            count = work.times(op, factor)
            if count is None:
                return
            changes[state.axis] = count
    node.replace_input_with(1, _changed(op, target, wanted, changes))


def _move_rows(work: _Opening, op: Inserter, node: ir.Node) -> None:
    """Rows first, each row regrouped by itself, rows to where they belong."""
    data, result = node.inputs[0], node.outputs[0]
    assert data is not None
    before, after, rank = work.state(data), work.state(result), work.rank(data)
    lengths = [
        d.known for i, d in enumerate(work.analysis.sizes(result) or ()) if after is not None and i != after.axis
    ]
    if before is None or after is None or lengths.count(None) > 1:
        return
    count = work.rows()
    target = op.Concat(count, [-1 if n is None else n for n in lengths], axis=0) if lengths else count
    ahead = data if before.axis == 0 else op.Transpose(data, perm=[before.axis, *_others(rank, before.axis)])
    moved = op.Reshape(ahead, target)
    if after.axis:
        places = _others(len(lengths) + 1, 0)
        moved = op.Transpose(moved, perm=[*places[: after.axis], 0, *places[after.axis :]])
    moved.shape, moved.type = result.shape, result.type
    work.analysis.settle(moved, after)
    result.replace_all_uses_with(moved, replace_graph_outputs=True)
    name = result.name
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    moved.name = name


def _others(rank: int, axis: int) -> list[int]:
    return [i for i in range(rank) if i != axis]


def _expand(work: _Opening, op: Inserter, node: ir.Node) -> None:
    """An operand that has the rows keeps them where the shape asks for 1."""
    data, target = node.inputs[:2]
    state, wanted = work.state(node.outputs[0]), work.elements(target)
    if state is None or wanted is None or work.dims(data) is None:
        return
    here = state.axis - work.rank(node.outputs[0]) + len(wanted)
    if here >= 0 and wanted[here] != ONE and not wanted[here].open:
        node.replace_input_with(1, _changed(op, target, wanted, {here: 1}))


def _slice(work: _Opening, op: Inserter, node: ir.Node) -> None:
    """All rows up to the last."""
    data, _, ends, *rest = node.inputs
    state, limits = work.state(node.outputs[0]), work.elements(ends)
    if state is None or limits is None or ends is None or work.dims(data) is None:
        return
    axes = work.integers(rest[0]) if rest and rest[0] is not None else list(range(len(limits)))
    for index, axis in enumerate(axes or ()):
        rank = work.rank(node.outputs[0])
        if axis % rank == state.axis and not limits[index].open:
            last = _END if ends.dtype == ir.DataType.INT64 else 2**31 - 1
            node.replace_input_with(2, _changed(op, ends, limits, {index: last}))


def _resize(work: _Opening, op: Inserter, node: ir.Node) -> None:
    """As many rows as there were."""
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        axes = node.attributes.get_ints("axes")
        _sized(work, op, node, 3, list(range(work.rank(node.outputs[0]))) if axes is None else list(axes))


def _affine_grid(work: _Opening, op: Inserter, node: ir.Node) -> None:
    """The size starts with the number of rows."""
    _sized(work, op, node, 1, list(range(work.rank(node.outputs[0]))))


def _sized(work: _Opening, op: Inserter, node: ir.Node, index: int, axes: Sequence[int]) -> None:
    state, wanted = work.state(node.outputs[0]), work.elements(node.inputs[index])
    if state is None or wanted is None:
        return
    rank = work.rank(node.outputs[0])
    places = [i for i, axis in enumerate(axes) if axis % rank == state.axis]
    count = work.times(op, state.before * state.per if isinstance(state, Rows) else ONE)
    if places and not wanted[places[0]].open and count is not None:
        node.replace_input_with(index, _changed(op, node.inputs[index], wanted, {places[0]: count}))


_REST = Size(-1)
_RULES: dict[str, Callable[[_Opening, Inserter, ir.Node], None]] = {
    "AffineGrid": _affine_grid,
    "Expand": _expand,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
}


def _changed(
    op: Inserter, vector: ir.Value | None, elements: Sequence[Size], changes: Mapping[int, int | ir.Value]
) -> ir.Value:
    """A vector of integers with some of its elements replaced: a constant where all of them are known."""
    assert vector is not None
    numbers = [e.known for e in elements]
    parts: list[list[int] | ir.Value] = []
    for index, number in enumerate(numbers):
        new = changes.get(index, number)
        if new is None:
            parts.append(op.Slice(vector, [index], [index + 1]))
        elif isinstance(new, int) and parts and isinstance(parts[-1], list):
            parts[-1].append(new)
        else:
            parts.append([new] if isinstance(new, int) else new)
    if len(parts) == 1 and isinstance(parts[0], list):
        assert vector.dtype is not None
        return op.constant(np.asarray(parts[0], vector.dtype.numpy()))
    return op.Concat(*parts, axis=0)
