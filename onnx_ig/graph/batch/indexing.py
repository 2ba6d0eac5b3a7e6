"""Reading and writing by index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.states import FREE, Index, Mixes, Rows, State, batch_rule
from onnx_ig.graph.sizes import ONE


@batch_rule("Gather")
def gather(a: Analysis, node: ir.Node) -> State:
    """Rows of indices into a table, or fixed places in rows; which rows are read must not be data."""
    data, indices = node.inputs[0], node.inputs[1]
    axis = a.positive([node.attributes.get_int("axis", 0)], data)[0]
    if a.free(data):
        read = a.rows_of(indices)
        return read.at(axis + read.axis)
    state = a.only(data)
    index = a.state(indices)
    if isinstance(index, Index) and axis == state.axis:
        return _own_place(state, index, axis)
    if not a.free(indices):
        raise Mixes("reads places that the rows say, and may read other rows")
    if axis == state.axis:
        raise Mixes("takes rows by their position")
    if state.axis < axis:
        return state
    return state.at(state.axis + a.rank(indices) - 1)  # type: ignore[arg-type]


def _own_place(state: Rows | Index, index: Index, axis: int) -> State:
    """Every row reads its own places, of which it has as many as the index counts for a row."""
    if isinstance(state, Index) or index.leading or (state.before, state.per) != (ONE, index.stride):
        raise Mixes("reads places that are not known to be in the same row")
    return Rows(axis + index.axis)


@batch_rule("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(a: Analysis, node: ir.Node) -> State:
    """Fixed places along the last axis."""
    data, indices = node.inputs[0], node.inputs[1]
    if a.free(data):  # a table of classes, read at one place a row: [1, N]
        read = a.rows_of(indices)
        if any(s != ONE for i, s in enumerate(a.dims(indices)) if i != read.axis):  # type: ignore[arg-type]
            raise Mixes("reads several places a row")
        return read.at(max(a.rank(data) - 1, 1))  # type: ignore[arg-type]
    state = a.rows_of(data, *node.inputs[1:])
    if state.axis == a.rank(data) - 1:  # type: ignore[arg-type]
        raise Mixes("takes rows by their position")
    return state


@batch_rule("GatherElements")
def gather_elements(a: Analysis, node: ir.Node) -> State:
    """data[..., index, ...] along one axis: the other axes of data and indices run side by side."""
    state = _side_by_side(a, node.inputs[:2], "reads places that are not known to be in the same row")
    if state.axis in a.positive([node.attributes.get_int("axis", 0)], node.inputs[0]):
        raise Mixes("reads other rows")
    return state


def _side_by_side(a: Analysis, operands: Sequence[ir.Value | None], otherwise: str) -> Rows:
    """The state of operands whose rows meet one to one. Raises Mixes with `otherwise` where one has none."""
    found = a.rows_together(operands)
    for value in operands:
        if value is not None and a.free(value) and a.taken_as_rows(value, found.axis) is None:
            raise Mixes(otherwise)
    return found


@batch_rule("ScatterElements")
def scatter_elements(a: Analysis, node: ir.Node) -> State:
    """Writes along one axis; the other axes of all operands run side by side."""
    found = _side_by_side(a, node.inputs[:3], "writes to places that are not known to be in the same row")
    if found.axis in a.positive([node.attributes.get_int("axis", 0)], node.inputs[0]):
        raise Mixes("writes to other rows")
    return found


@batch_rule("GatherND")
def gather_nd(a: Analysis, node: ir.Node) -> State:
    """Indices [..., K] into the K axes behind `batch_dims`."""
    data, indices = node.inputs[0], node.inputs[1]
    assert data is not None
    assert indices is not None
    shared = node.attributes.get_int("batch_dims", 0)
    index = _numbers_of_rows(a, data, indices)
    if isinstance(index, Index):  # each row reads itself: its own number leads every index
        state = a.rows_of(data)
        first = index.leading or a.dims(indices)[-1] == ONE
        if not first or shared or state.axis != 0 or index.axis == a.rank(indices) - 1:
            raise Mixes("reads places that are not known to be in the same row")
        return _own_place(state, replace(index, leading=False), 0)
    if a.free(data):
        state = a.rows_of(indices)
        if shared or state.axis == a.rank(indices) - 1:
            raise Mixes("reads places that are not known to be in the same row")
        return state
    state = a.rows_of(data)
    if not a.free(indices):
        state = a.same(state, a.rows_of(indices))
        if state.axis >= shared:
            raise Mixes("reads places that the rows say, and may read other rows")
        return state
    return state.at(_behind(a, state, indices, shared))


def _behind(a: Analysis, state: Rows, indices: ir.Value, shared: int) -> int:
    """Where the rows' axis is behind the axes that free indices choose."""
    count = a.dims(indices)[-1].known
    if count is None or shared or state.axis < count:
        raise Mixes("takes rows by their position")
    return a.rank(indices) - 1 + state.axis - count


@batch_rule("ScatterND")
def scatter_nd(a: Analysis, node: ir.Node) -> State:
    """Writes updates [..., behind] to places of the leading K axes."""
    data, indices, updates = node.inputs[:3]
    assert data is not None
    assert indices is not None
    assert updates is not None
    index = _numbers_of_rows(a, data, indices, updates)
    state, written = _both_rows(a, data, indices, updates, index)
    if isinstance(index, Index):  # each row writes to itself: its own number leads every index
        first = index.leading or a.dims(indices)[-1] == ONE
        owned = state.axis == 0 and (state.before, state.per) == (ONE, index.stride)
        if not first or not owned or index.axis == a.rank(indices) - 1:
            raise Mixes("writes to places that are not known to be in the same row")
        axis = index.axis
    elif index == FREE:
        axis = _behind(a, state, indices, 0)
    else:
        raise Mixes("writes to places that the rows say, and may write to other rows")
    if written.axis != axis or not (
        written.plain if isinstance(index, Index) else a.same(state, written.at(state.axis))
    ):
        raise Mixes("writes to places that are not known to be in the same row")
    return state if written.uniform and index == FREE else state.written()


def _numbers_of_rows(a: Analysis, data: ir.Value, indices: ir.Value, updates: ir.Value | None = None) -> State:
    """The state of indices; constants that name the rows of a fixed batch, one after another, are numbers of rows."""
    index, read, written = a.state(indices), a.state(data), a.state(updates)
    named = isinstance(read, Rows) and read.axis == 0 and a.says_rows(data, 0)
    if isinstance(written, Rows) and read == FREE:
        named = written.axis < a.rank(indices) - 1 and a.says_rows(updates, written.axis)
    return (a.taken_as_numbers(indices) or index) if index == FREE and named else index


def _both_rows(a: Analysis, data: ir.Value, indices: ir.Value, updates: ir.Value, index: State) -> tuple[Rows, Rows]:
    """States of data and updates. Raises Mixes where one has no rows, unless a fixed batch makes it alike for all."""
    data_rows = None if a.free(data) else a.rows_of(data)
    written = None if a.free(updates) else a.rows_of(updates)
    count = a.dims(indices)[-1].known
    if isinstance(index, Index):
        data_rows = data_rows or a.taken_as_rows(data, 0)
        written = written or a.taken_as_rows(updates, index.axis)
    elif index == FREE and count is not None:
        ahead = a.rank(indices) - 1 - count  # axes that updates have ahead of the data's own
        if data_rows is None and written is not None:
            data_rows = a.taken_as_rows(data, written.axis - ahead)
        elif data_rows is not None and written is None:
            written = a.taken_as_rows(updates, data_rows.axis + ahead)
    if data_rows is None or written is None:
        raise Mixes("writes what is not known to be the rows' to places of theirs")
    return data_rows, written


@batch_rule("Compress")
def compress(a: Analysis, node: ir.Node) -> State:
    """Keeps places along one axis that a condition names; without axis it flattens."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    axis = node.attributes.get_int("axis")
    if axis is None or state.axis in a.positive([axis], node.inputs[0]):
        raise Mixes("keeps rows by their position")
    return state


@batch_rule("NonZero", "Unique", "NonMaxSuppression")
def as_many_as_found(a: Analysis, node: ir.Node) -> State:
    """How many entries come out depends on all rows together."""
    raise Mixes("gives as many entries as all rows together hold")


@batch_rule("RoiAlign", "MaxRoiPool")
def regions(a: Analysis, node: ir.Node) -> State:
    """Each region names the row that it looks at."""
    raise Mixes("reads rows by index")


@batch_rule("DynamicQuantizeLinear")
@batch_rule("DynamicQuantizeMatMul", "DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_quantization(a: Analysis, node: ir.Node) -> State:
    """The scale is taken over all rows."""
    raise Mixes("takes one scale from all rows together, so that they influence each other")
