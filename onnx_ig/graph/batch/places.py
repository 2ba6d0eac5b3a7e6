"""Arithmetic on places: number of the row times entries a row, plus a place within the row."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.states import Index, Mixes, Rows, State
from onnx_ig.graph.sizes import ONE, Size

__all__ = ["placed"]

_MOVES = ("Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def placed(a: Analysis, node: ir.Node) -> State:
    """What becomes of the places of rows under Add and Mul.

    Exporters write `x[arange(N), i]` as a Gather from the rows laid end to end, at n * entries + i.
    """
    operands = [v for v in node.inputs if v is not None]
    states = [a.state(v) for v in operands]
    moving = [(v, s) for v, s in zip(operands, states, strict=True) if isinstance(s, Index)]
    if len(operands) != 2 or len(moving) != 1 or moving[0][1].leading:
        raise Mixes("computes with the numbers of the rows")
    (value, index), other = moving[0], next(v for v in operands if v is not moving[0][0])
    rank = max(a.rank(value), a.rank(other))
    axis = rank - a.rank(value) + index.axis
    behind = axis - rank + a.rank(other)
    if a.free(other) and behind >= 0 and not a.even(other, behind):
        raise Mixes(f"pairs rows with entries of {other.name!r}")
    if not a.free(other) and a.rows_of(other).written() != Rows(behind):
        raise Mixes("pairs rows with other rows")
    if node.op_type == "Mul":
        factor = _one_size(a, other)
        if factor is not None:
            return Index(axis, index.stride * factor, index.step * factor)
    if node.op_type == "Add":
        reach = _reach(a, other)
        if reach is not None and _within(reach[0], index.step):
            return Index(axis, index.stride, index.step if reach[0] == ONE else reach[1])
    raise Mixes("computes with the numbers of the rows", axis)


def _one_size(a: Analysis, value: ir.Value) -> Size | None:
    numbers = a.numbers(value)
    if numbers is None or len(numbers.elements) != 1:
        return None
    size = numbers.elements[0]
    return size if size is not None and not size.open and size.number > 0 else None


def _within(limit: Size, step: Size) -> bool:
    return limit == step or (limit.known is not None and step.known is not None and limit.known <= step.known)


def _reach(a: Analysis, value: ir.Value, depth: int = 16) -> tuple[Size, Size] | None:
    """(limit, step) of a free value: multiples of step, from 0 to below limit. None where that is not known."""
    array = a.constant(value)
    if array is not None:
        small = array.dtype.kind in "iu" and array.size > 0 and array.min() >= 0
        return (Size(int(array.max()) + 1), ONE) if small else None
    node = value.producer()
    if node is not None and node.op_type in ("ArgMax", "ArgMin") and node.inputs[0] is not None:
        (axis,) = a.positive([node.attributes.get_int("axis", 0)], node.inputs[0])
        limit = a.dims(node.inputs[0])[axis]
        return None if limit.open else (limit, ONE)
    if node is None or depth == 0 or node.domain != "":
        return None
    if node.op_type in _MOVES:
        return None if node.inputs[0] is None else _reach(a, node.inputs[0], depth - 1)
    if node.op_type == "Range":
        start, end, step = (a.numbers(v) for v in node.inputs)
        if start is None or end is None or step is None or (start.integers(), step.integers()) != ([0], [1]):
            return None
        size = end.elements[0]
        return None if size is None or size.open else (size, ONE)
    operands = [v for v in node.inputs if v is not None]
    if node.op_type == "Mul":
        for one, other in (operands, operands[::-1]):
            factor, reach = _one_size(a, other), _reach(a, one, depth - 1)
            if factor is not None and reach is not None:
                return reach[0] * factor, reach[1] * factor
    if node.op_type == "Add":
        first, second = (_reach(a, v, depth - 1) for v in operands)
        if first is None or second is None:
            return None
        for high, low in ((first, second), (second, first)):
            if low[0] == ONE:
                return high
            if _within(low[0], high[1]):
                return high[0], low[1]
    return None
