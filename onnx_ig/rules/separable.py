"""Linear maps that act axis by axis: the adjoint of a product of matrices, one matrix an axis."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.dims import Vector, dims, joined, product

__all__ = ["along_axis", "identity"]


def identity(op: Emitter, length: Vector, dtype: ir.DataType) -> ir.Value:
    """The identity matrix [length, length], computed in the graph: the file does not hold it, the runtime folds it.

    Not EyeLike, which CUDA has for few types.
    """
    positions = op.Range(0, length[0] if isinstance(length, list) else op.Squeeze(length, [0]), 1)
    return op.Cast(op.Equal(op.Unsqueeze(positions, [1]), positions), to=dtype.value)


def along_axis(op: Emitter, g: ir.Value, matrix: ir.Value, axis: int, rank: int) -> ir.Value:
    """matrix [A, B] applied to the axis of length B of g: result[..., a, ...] = sum_b matrix[a, b] g[..., b, ...].

    No transposes of g: a MatMul from the right on the last axis, from the left on the others.
    """
    if axis == rank - 1:
        return op.MatMul(g, op.Transpose(matrix, perm=[1, 0]))
    if axis == rank - 2:
        return op.MatMul(matrix, g)
    leading, trailing = dims(op, g, 0, axis), dims(op, g, axis + 1)
    rows = op.Reshape(g, joined(op, leading, dims(op, g, axis, axis + 1), product(op, trailing)), allowzero=1)
    length = dims(op, matrix, 0, 1)
    return op.Reshape(op.MatMul(matrix, rows), joined(op, leading, length, trailing), allowzero=1)
