"""Operators that move entries without changing them: shapes, axes, slices, joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.states import FREE, SIZES, Index, Mixes, Rows, State, batch_rule
from onnx_ig.graph.sizes import ONE, Size, completed, product

_MAX = 2**31 - 1


@batch_rule("Transpose")
def transpose(a: Analysis, node: ir.Node) -> State:
    """Axis perm[k] becomes axis k."""
    state = a.only(node.inputs[0])
    perm = node.attributes.get("perm")
    if perm is None:
        return state.at(a.rank(node.inputs[0]) - 1 - state.axis)  # type: ignore[arg-type]
    return state.at(list(perm.as_ints()).index(state.axis))


@batch_rule("Reshape")
def reshape(a: Analysis, node: ir.Node) -> State:
    """Rows stay apart where the new shape says, for any number of rows, which axis they become.

    What stands ahead of the rows must fill the same number of leading places before and after.
    """
    data, target = node.inputs[0], a.numbers(node.inputs[1])
    assert data is not None
    state = a.only(data)
    dims = a.dims(data)
    if target is None or any(e is None for e in target.elements):
        raise Mixes("has a shape that depends on the rows in an unknown way")
    wanted = [e for e in target.elements if e is not None]
    if not node.attributes.get_int("allowzero", 0):
        wanted = [dims[i] if e == Size(0) else e for i, e in enumerate(wanted)]
    return _regrouped(a, state, dims, wanted)


def _regrouped(a: Analysis, state: Rows | Index, dims: Sequence[Size], wanted: Sequence[Size]) -> State:
    ahead = product(dims[: state.axis]) * (state.before if isinstance(state, Rows) else ONE)
    count = Rows(0).length
    if a.rows is not None and not any(s.open for s in wanted):  # a constant shape, for the rows that the file fixes
        dims, ahead, count = [d.at(a.rows) for d in dims], ahead.at(a.rows), Size(a.rows)
    full = completed(dims, wanted)
    if full is None:
        raise Mixes(f"regroups {product(dims)} entries, and it cannot be told that every row fills whole groups")
    wanted = full
    if product(dims) != product(wanted):
        raise Mixes("gives a shape that fits one number of rows only, or that cannot be told to fit any")
    readings = [(_unlikely(kept, dims, wanted), kept, False) for kept in _kept(state, wanted, ahead, count)]
    if a.rows == 1 and isinstance(state, Rows) and state.plain:
        rest = [d for axis, d in enumerate(dims) if axis != state.axis]
        for axis in (i for i, size in enumerate(wanted) if size == ONE):
            others = [d for i, d in enumerate(wanted) if i != axis]
            readings.append(((1 if others == rest else 3, axis), state.at(axis), True))
    if not readings:
        raise Mixes(f"takes rows apart: ({', '.join(map(str, dims))}) becomes ({', '.join(map(str, wanted))})")
    readings.sort(key=lambda reading: reading[0])
    _, result, moved = readings[a.choice((state, tuple(dims), tuple(wanted)), len(readings))]
    if moved:
        a.move_rows()
    return result


def _kept(state: Rows | Index, wanted: Sequence[Size], ahead: Size, count: Size) -> Iterator[Rows | Index]:
    """The axes that the rows can become where entries stay in order."""
    for axis in range(len(wanted)):
        inner = ahead.over(product(wanted[:axis]))
        entries = None if inner is None else wanted[axis].over(inner * count)
        if inner is None or entries is None or entries.open:
            continue
        if isinstance(state, Rows):
            yield Rows(axis, inner, entries, state.uniform)
        elif (inner, entries) == (ONE, ONE):
            yield state.at(axis)
        else:  # places of one row side by side along one axis: a number no longer says the row
            return


def _unlikely(kept: Rows | Index, dims: Sequence[Size], wanted: Sequence[Size]) -> tuple[int, int]:
    """Sorts the axes that rows can become, the likeliest first; with one row in a fixed batch there may be several.

    0: an axis of its own; 1: a transposition, which moves an axis of length 1 and nothing else. 2: an axis that rows
    share with what stands ahead where the last axis stays (steps and rows as one axis), with what stands behind where it
    does not (rows and heads as one axis); 4: the other way about. 3: moved, and others regrouped beside it.
    """
    if isinstance(kept, Index) or kept.plain:
        return 0, kept.axis
    joined = kept.per if wanted[-1:] == dims[-1:] else kept.before
    return (2 if joined == ONE else 4), kept.axis


@batch_rule("Flatten")
def flatten(a: Analysis, node: ir.Node) -> State:
    """[d0 ... dk-1, dk ...]: both parts become one axis."""
    data = node.inputs[0]
    assert data is not None
    state, dims = a.only(data), a.dims(data)
    axis = node.attributes.get_int("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return _regrouped(a, state, dims, [product(dims[:axis]), product(dims[axis:])])


@batch_rule("Squeeze")
def squeeze(a: Analysis, node: ir.Node) -> State:
    """Axes of length 1 go."""
    data = node.inputs[0]
    state = a.only(data)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = a.others_of_one(data, state.axis) if given is None else a.integers(given)
    if axes is None:
        raise Mixes("drops every axis of length 1, that of the rows too where there is one row")
    axes = a.positive(axes, data)
    if state.axis in axes:
        raise Mixes("drops the rows' axis")
    return state.at(state.axis - sum(x < state.axis for x in axes))


@batch_rule("Unsqueeze")
def unsqueeze(a: Analysis, node: ir.Node) -> State:
    """New axes of length 1, counted in the result."""
    data, given = node.inputs[0], node.inputs[1]
    state, axes = a.only(data), a.integers(given)
    if axes is None:
        raise Mixes("adds axes that are not known before it runs")
    axes = a.positive(axes, data, more=len(axes))
    axis = state.axis
    for new in sorted(axes):
        axis += new <= axis
    return state.at(axis)


@batch_rule("Expand")
def expand(a: Analysis, node: ir.Node) -> State:
    """Broadcasting to a shape; a free operand repeated over the rows is the same for all of them."""
    data, target = node.inputs[0], a.numbers(node.inputs[1])
    assert data is not None
    if target is None or any(e is None for e in target.elements):
        raise Mixes("has a shape that depends on the rows in an unknown way")
    sizes = [e for e in target.elements if e is not None]
    shift = len(sizes) - a.rank(data)
    open_axes = [i for i, s in enumerate(sizes) if s.open]
    if a.free(data):
        return _repeated(a, data, sizes, open_axes, shift)
    state = a.only(data)
    axis = state.axis + max(shift, 0)
    here = state.axis + shift
    if here >= 0 and sizes[here].known != 1 and sizes[here].at(a.rows) != state.length.at(a.rows):
        raise Mixes("gives a shape that fits one number of rows only, or that cannot be told to fit any")
    if any(i != here for i in open_axes):
        raise Mixes("pairs rows with rows")
    return state.at(axis)


def _repeated(a: Analysis, data: ir.Value, sizes: Sequence[Size], open_axes: Sequence[int], shift: int) -> State:
    if not open_axes:
        return FREE
    axis = open_axes[0]
    if len(open_axes) > 1 or (axis - shift >= 0 and not a.even(data, axis - shift)):
        return SIZES
    entries = sizes[axis].over(Rows(0).length)
    return SIZES if entries is None or entries.open else Rows(axis + max(-shift, 0), per=entries, uniform=True)


@batch_rule("ConstantOfShape")
def constant_of_shape(a: Analysis, node: ir.Node) -> State:
    """One number everywhere: the same for all rows."""
    target = a.numbers(node.inputs[0])
    if target is None or any(e is None for e in target.elements):
        return SIZES
    sizes = [e for e in target.elements if e is not None]
    axes = [i for i, s in enumerate(sizes) if s.open]
    entries = sizes[axes[0]].over(Rows(0).length) if len(axes) == 1 else None
    return SIZES if entries is None or entries.open else Rows(axes[0], per=entries, uniform=True)


@batch_rule("Range")
def range_(a: Analysis, node: ir.Node) -> State:
    """0, 1, ... up to the number of rows names the rows."""
    start, limit, step = (a.numbers(v) for v in node.inputs)
    if start is None or limit is None or step is None:
        return SIZES
    counted = (start.integers(), limit.elements, step.integers()) == ([0], (Rows(0).length,), [1])
    return Index(0) if counted else SIZES


@batch_rule("Tile")
def tile(a: Analysis, node: ir.Node) -> State:
    """The whole axis again and again: the repeats stand ahead of the rows."""
    data, repeats = node.inputs[0], a.numbers(node.inputs[1])
    assert data is not None
    if repeats is None or any(e is None for e in repeats.elements):
        raise Mixes("is repeated a number of times that depends on the rows")
    sizes = [e for e in repeats.elements if e is not None]
    open_axes = [i for i, s in enumerate(sizes) if s.open]
    if a.free(data):
        return _repeated(a, data, sizes, open_axes, 0)
    state = a.only(data)
    if open_axes:
        raise Mixes("is repeated a number of times that depends on the rows")
    if sizes[state.axis] == ONE:
        return state
    if isinstance(state, Index):
        raise Mixes("repeats the numbers of the rows")
    return Rows(state.axis, sizes[state.axis] * state.before, state.per, state.uniform)


@batch_rule("Concat")
def concat(a: Analysis, node: ir.Node) -> State:
    """Joined along another axis, rows stay; joined along theirs, the operands stand ahead of the rows."""
    operands = [v for v in node.inputs if v is not None]
    axis = node.attributes.get_int("axis", 0)
    axis = axis + a.rank(operands[0]) if axis < 0 else axis
    if any(isinstance(a.state(v), Index) for v in operands):
        return _coordinates(a, operands, axis)
    found = a.rows_together(operands)
    for value in operands:
        if a.free(value) and (axis == found.axis or a.taken_as_rows(value, found.axis) is None):
            raise Mixes(f"joins rows with {value.name!r}, which has none")
    if axis != found.axis:
        return found
    if found.before != ONE:
        raise Mixes("joins rows with other rows")
    return Rows(axis, Size(len(operands)), found.per, found.uniform)


def _coordinates(a: Analysis, operands: Sequence[ir.Value], axis: int) -> State:
    """Numbers of rows beside other indices: the first entry along the last axis says which row is meant."""
    first = a.state(operands[0])
    if (
        not isinstance(first, Index)
        or first.leading
        or axis != a.rank(operands[0]) - 1
        or a.dims(operands[0])[axis] != ONE
    ):
        raise Mixes("joins numbers of rows with other values")
    for value in operands[1:]:
        state = a.state(value)
        if not isinstance(state, Rows) or state.axis != first.axis or not state.plain:
            raise Mixes("joins numbers of rows with other values")
    return replace(first, leading=True)


@batch_rule("Slice")
def slice_(a: Analysis, node: ir.Node) -> State:
    """Slices along other axes keep the rows."""
    data, starts, ends, *rest = node.inputs
    state = a.only(data)
    bounds = [a.numbers(starts), a.numbers(ends)]
    axes = a.integers(rest[0]) if rest and rest[0] is not None else None
    steps = a.integers(rest[1]) if len(rest) > 1 and rest[1] is not None else None
    if axes is None:
        count = next((len(b.elements) for b in bounds if b is not None), None)
        if count is None or (rest and rest[0] is not None):
            raise Mixes("slices along axes that are not known before it runs")
        axes = list(range(count))
    axes, data_axis = a.positive(axes, data), state.axis
    for index, axis in enumerate(axes):
        start, end = (None if b is None else b.elements[index] for b in bounds)
        step = steps[index] if steps else 1 if len(rest) < 2 or rest[1] is None else None
        if axis == data_axis:
            state = _taken(state, start, end if step == 1 else None, a.rows if a.says_rows(data, axis) else None)
        elif not all(v is None or a.free(v) for v in (starts, ends)) and any(e is None or e.open for e in (start, end)):
            raise Mixes("slices at places that depend on the rows")
    return state


def _taken(state: Rows | Index, start: Size | None, end: Size | None, rows: int | None) -> Rows | Index:
    """A slice along the rows' axis: all of it, or one of the operands that were joined there."""
    if start is None or end is None:
        raise Mixes("takes rows by their position")
    length = state.length.at(rows)
    beyond = end.known is not None and end.known >= (_MAX if length.known is None else length.known)
    if start == Size(0) and (beyond or end.at(rows) == length):
        return state
    joined = state.before.known if isinstance(state, Rows) else None
    if not isinstance(state, Rows) or joined is None:
        raise Mixes("takes rows by their position")
    one = Rows(0).length * state.per
    for first in range(joined):
        if start == Size(first) * one or (first == 0 and start == Size(0)):
            for last in range(first + 1, joined + 1):
                if end == Size(last) * one:
                    return Rows(state.axis, Size(last - first), state.per, state.uniform)
    raise Mixes("takes rows by their position")


@batch_rule("Split")
def split(a: Analysis, node: ir.Node) -> State:
    """Parts along another axis keep the rows."""
    state = a.only(node.inputs[0], *node.inputs[1:])
    axis = node.attributes.get_int("axis", 0)
    if axis < 0:
        axis += a.rank(node.inputs[0])  # type: ignore[arg-type]
    if axis != state.axis:
        return state
    parts = Size(len(node.outputs))
    before = state.before.over(parts) if isinstance(state, Rows) and len(node.inputs) == 1 else None
    if before is None or not isinstance(state, Rows):
        raise Mixes("splits the rows by their position")
    return Rows(axis, before, state.per, state.uniform)


@batch_rule("Pad")
@batch_rule("Pad", domain="com.microsoft")
def pad(a: Analysis, node: ir.Node) -> State:
    """Nothing may be added to, or cut off, the rows' axis."""
    data, pads = node.inputs[0], a.numbers(node.inputs[1])
    state = a.rows_of(data, *node.inputs[2:])
    axes = a.integers(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if pads is None or any(e is None or e.open for e in pads.elements):
        raise Mixes("has pads that are not known before it runs")
    count = len(pads.elements) // 2
    axes = list(range(count)) if axes is None else a.positive(axes, data)
    if state.axis in axes:
        place = axes.index(state.axis)
        if any(pads.elements[i] != Size(0) for i in (place, place + count)):
            raise Mixes("adds rows")
    return state


@batch_rule("Trilu", "Det")
@batch_rule("Trilu", domain="com.microsoft")
def matrices(a: Analysis, node: ir.Node) -> State:
    """Works on the last two axes."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    if state.axis >= a.rank(node.inputs[0]) - 2:  # type: ignore[arg-type]
        raise Mixes("works across the rows")
    return state


@batch_rule("CenterCropPad")
def center_crop_pad(a: Analysis, node: ir.Node) -> State:
    """`axes` says which axes change."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    axes = node.attributes.get_ints("axes")
    if axes is None or state.axis in a.positive(axes, node.inputs[0]):
        raise Mixes("crops or pads the rows' axis")
    return state
