"""Lists of tensors, whose cotangents are lists, and optional values, whose cotangents are those of what they hold."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.lists import element, erased, inserted, lengths, zero
from onnx_ig.rules.registry import declare_zero, gradient

Values = tuple[ir.Value | None, ...]


@gradient("SequenceConstruct")
def sequence_construct(c: Context, gs: ir.Value) -> Values:
    """Each operand gets its element of gs. Source: ONNX SequenceConstruct-11."""
    return tuple(element(c.op, gs, k) if c.wants(k) else None for k in range(len(c.inputs)))


@gradient("SequenceAt")
def sequence_at(c: Context, gy: ir.Value) -> Values:
    """gs = gy at the position, zeros elsewhere. Source: ONNX SequenceAt-11."""
    op, s = c.op, c.operand(0)
    place = _from_front(c, c.operand(1), op.SequenceLength(s))
    return inserted(op, erased(op, c.zeros_like(s), place), gy, place), None


@gradient("SequenceInsert")
def sequence_insert(c: Context, gy: ir.Value) -> Values:
    """gx = gy at the position (the last one where there is none), gs = the rest. Source: ONNX SequenceInsert-11."""
    op, position = c.op, c.input(2)
    if position is None:
        return erased(op, gy), element(op, gy, -1)
    place = _from_front(c, position, op.Sub(op.SequenceLength(gy), 1))
    return erased(op, gy, place), element(op, gy, place), None


@gradient("SequenceErase")
def sequence_erase(c: Context, gy: ir.Value) -> Values:
    """gs = gy with zeros where the tensor was erased (the last one where no position is given).

    Source: ONNX SequenceErase-11.
    """
    op, s, position = c.op, c.operand(0), c.input(1)
    zeros = zero(op, element(op, s, -1 if position is None else position))
    if position is None:
        return (inserted(op, gy, zeros),)
    return inserted(op, gy, zeros, _from_front(c, position, op.SequenceLength(s))), None


@gradient("SplitToSequence")
def split_to_sequence(c: Context, gs: ir.Value) -> Values:
    """gx = the pieces joined. Source: ONNX SplitToSequence-11."""
    dropped = c.input(1) is None and not c.attr("keepdims", 1)
    gx = c.op.ConcatFromSequence(gs, axis=int(c.attr("axis", 0)), new_axis=int(dropped))
    gx.type = c.operand(0).type
    return gx, None


@gradient("ConcatFromSequence")
def concat_from_sequence(c: Context, gy: ir.Value) -> Values:
    """gs = gy cut where the tensors met. Source: ONNX ConcatFromSequence-11."""
    axis, s = int(c.attr("axis")), c.operand(0)
    if c.attr("new_axis", 0):
        gs = c.op.SplitToSequence(gy, axis=axis, keepdims=0)
    else:
        gs = c.op.SplitToSequence(gy, lengths(c.op, s, axis), axis=axis)
    gs.type, gs.shape = s.type, None
    return (gs,)


@gradient("Optional", "OptionalGetElement")
def optional(c: Context, gy: ir.Value) -> Values:
    """gx = gy: the cotangent of an optional value is that of what it holds. Source: ONNX Optional-15."""
    return (gy,)


declare_zero("SequenceLength", "SequenceEmpty", "OptionalHasElement")


def _from_front(c: Context, position: ir.Value, length: ir.Value) -> ir.Value:
    """`position` as int64, counted from the front."""
    fixed = c.constant(position)
    if fixed is not None and fixed >= 0:
        return position
    place = c.op.Cast(position, to=ir.DataType.INT64.value)
    return c.op.Where(c.op.Less(place, 0), c.op.Add(place, length), place)
