"""Arithmetic on sequences: the cotangent of a sequence of floats is a sequence of the same length and shapes.

ONNX Runtime believes that all tensors of a sequence that a Loop carries have the shape of the first, and folds Shape of
any of them into a constant. So nothing here asks a tensor from a sequence for its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter

__all__ = ["add", "element", "emptied", "erased", "inserted", "is_sequence", "lengths", "zero", "zeros_like"]


def is_sequence(value: ir.Value) -> bool:
    """Whether `value` holds a list of tensors rather than one."""
    return isinstance(value.type, ir.SequenceType)


def element(op: Emitter, sequence: ir.Value, position: int | ir.Value) -> ir.Value:
    """The tensor at a position, which may be negative."""
    value: ir.Value = op.SequenceAt(sequence, position)
    if isinstance(sequence.type, ir.SequenceType) and not isinstance(sequence.type.elem_type, ir.DataType):
        value.type = sequence.type.elem_type
    return value


def inserted(op: Emitter, sequence: ir.Value, tensor: ir.Value, position: ir.Value | None = None) -> ir.Value:
    """`sequence` with `tensor` before `position`, at the end where there is none."""
    return _typed(op.SequenceInsert(sequence, tensor, position), sequence)


def erased(op: Emitter, sequence: ir.Value, position: ir.Value | None = None) -> ir.Value:
    """`sequence` without the tensor at `position`, without the last one where there is none."""
    return _typed(op.SequenceErase(sequence, position), sequence)


def emptied(op: Emitter, sequence: ir.Value) -> ir.Value:
    """An empty sequence of the type of `sequence`."""
    assert sequence.dtype is not None
    return _typed(op.SequenceEmpty(dtype=sequence.dtype.value), sequence)


def zero(op: Emitter, tensor: ir.Value) -> ir.Value:
    """Zeros of the shape and type of a tensor from a sequence."""
    return op.Where(np.asarray(False), tensor, 0.0)


def zeros_like(op: Emitter, sequence: ir.Value) -> ir.Value:
    """A sequence of zeros of the shapes in `sequence`."""
    return _each(op, [sequence], lambda inner, x, step: zero(inner, x))


def add(op: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """The sum of two tensors, or of two sequences of one length, tensor by tensor."""
    if not is_sequence(a):
        return op.Add(a, b)
    return _each(op, [a, b], lambda inner, x, y, step: inner.Add(x, y))


def lengths(op: Emitter, sequence: ir.Value, axis: int) -> ir.Value:
    """The lengths of the tensors along one axis, int64 [number of tensors]."""

    def length(inner: Emitter, x: ir.Value, step: ir.Value) -> ir.Value:
        whole = inner.Slice(
            x, [0], inner.Max(inner.Unsqueeze(step, [0]), [2**31]), [axis]
        )  # an end that is not constant
        return inner.Shape(whole, start=axis, end=axis + 1 if axis != -1 else None)

    return _loop(op, [sequence], length)


def _each(op: Emitter, sequences: Sequence[ir.Value], function: Callable[..., ir.Value]) -> ir.Value:
    """A sequence of `function(inner, x, y, ..., position)` for the tensors x, y ... at each position."""
    return _loop(op, sequences, function, emptied(op, sequences[0]))


def _loop(
    op: Emitter, sequences: Sequence[ir.Value], function: Callable[..., ir.Value], into: ir.Value | None = None
) -> ir.Value:
    """Visit the positions: results are appended to the sequence `into`, or else, vectors of length 1, stacked."""
    body = ir.Graph([], [], nodes=[], name=op.names.numbered("ig_each"))
    inner = op.scope(body)
    step = ir.Value(name=op.names.numbered("ig"), type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    going = ir.Value(name=op.names.numbered("ig"), type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    body.inputs.extend([step, going])
    made = None
    if into is not None:
        made = ir.Value(name=op.names.numbered("ig"), type=into.type)
        body.inputs.append(made)
    result = function(inner, *(element(inner, s, step) for s in sequences), step)
    body.outputs.append(inner.Identity(going))
    body.outputs.append(result if made is None else inserted(inner, made, result))
    looped: ir.Value = op.node("Loop", (op.SequenceLength(sequences[0]), np.asarray(True), into), {"body": body})
    if into is not None:
        return _typed(looped, into)
    looped.type = result.type
    return op.Reshape(looped, [-1])


def _typed(value: ir.Value, like: ir.Value) -> ir.Value:
    value.type, value.shape = like.type, None
    return value
