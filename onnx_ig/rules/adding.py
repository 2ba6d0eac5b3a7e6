"""Adding values up at places of a tensor of zeros, where several may meet."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter

__all__ = ["add_elements", "add_rows", "narrow", "wide", "zeros"]

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def add_rows(op: Emitter, shape: ir.Value, places: ir.Value, updates: ir.Value) -> ir.Value:
    """`updates` added at the index tuples `places` (ScatterND) of zeros of `shape`, an int64 vector."""
    added = op.ScatterND(zeros(op, shape, updates), places, wide(op, updates), reduction="add")
    return narrow(op, added, updates)


def add_elements(op: Emitter, shape: ir.Value, places: ir.Value, updates: ir.Value, axis: int = 0) -> ir.Value:
    """`updates` added at `places` along one axis (ScatterElements) of zeros of `shape`, an int64 vector."""
    added = op.ScatterElements(zeros(op, shape, updates), places, wide(op, updates), axis=axis, reduction="add")
    return narrow(op, added, updates)


def wide(op: Emitter, g: ir.Value) -> ir.Value:
    """`g` in float32 where it is of half precision: the CPU provider adds no halves, and long sums of them lose digits."""
    return op.Cast(g, to=ir.DataType.FLOAT.value) if g.dtype in _HALVES else g


def zeros(op: Emitter, shape: ir.Value, like: ir.Value) -> ir.Value:
    """Zeros of `shape`, an int64 vector, to add values of the type of `like` to once they are `wide`."""
    assert like.dtype is not None
    dtype = ir.DataType.FLOAT if like.dtype in _HALVES else like.dtype
    return op.ConstantOfShape(shape, value=ir.tensor(np.zeros(1, dtype.numpy())))


def narrow(op: Emitter, added: ir.Value, like: ir.Value) -> ir.Value:
    """The sum of what was made `wide`, in the type of `like` again."""
    return op.Cast(added, to=like.dtype.value) if like.dtype in _HALVES else added
