"""AffineGrid: sampling positions, linear in the affine maps."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("AffineGrid")
def affine_grid(c: Context, gy: ir.Value) -> Values:
    """grid[n, q, i] = sum_j theta[n, i, j] base[q, j]: gtheta[n, i, j] = sum_q gy[n, q, i] base[q, j].

    theta [N, r, r+1], grid [N, *size, r] with r = 2 or 3. base is the operator itself on the maps whose first row is a
    unit vector. Source: ONNX AffineGrid-20.
    """
    op, theta, size = c.op, c.operand(0), c.operand(1)
    rank = _rank(c)
    exact = c.dtype(theta) == ir.DataType.DOUBLE
    units = np.zeros((rank + 1, rank, rank + 1), np.float64 if exact else np.float32)  # runtimes fail on some float16
    units[:, 0, :] = np.eye(rank + 1)
    rows = op.Concat([rank + 1], op.Slice(size, [1], [rank + 2]), axis=0)
    base = op.AffineGrid(units, rows, align_corners=c.attr("align_corners", 0))
    base = op.Cast(op.Flatten(op.Slice(base, [0], [1], [-1]), axis=1), to=c.dtype(theta).value)  # [r+1, Q]
    positions = op.ReduceProd(op.Slice(size, [2], [rank + 2]), [0], keepdims=1)
    flat = op.Reshape(gy, op.Concat(op.Shape(theta, end=1), positions, [rank], axis=0), allowzero=1)
    return op.MatMul(op.Transpose(flat, perm=[0, 2, 1]), op.Transpose(base, perm=[1, 0])), None


def _rank(c: Context) -> int:
    theta, size = c.operand(0), c.operand(1)
    if theta.shape is not None and isinstance(theta.shape[1], int):
        return int(theta.shape[1])
    if size.shape is not None and isinstance(size.shape[0], int):
        return int(size.shape[0]) - 2
    if c.output.shape is not None:
        return len(c.output.shape) - 2
    raise c.refuse(
        "whether its grid has two or three axes is not known", "Declare the shape of theta, [N, 2, 3] or [N, 3, 4]."
    )
