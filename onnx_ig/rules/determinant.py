"""Det: the gradient is the matrix of cofactors, which exists where the matrix is singular too."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]
_CLOSED = 4


@gradient("Det")
def det(c: Context, gy: ir.Value) -> Values:
    """gX = gy * cof(X), X [..., M, M], y [...] (Jacobi's formula; no inverse). Source: ONNX Det-22.

    Up to 4x4 the cofactors are written out; above, or where only the run knows M, each is a determinant with one row
    replaced by a unit vector.
    """
    x = c.operand(0)
    size = None if x.shape is None else next((d for d in list(x.shape)[-2:] if isinstance(d, int)), None)
    cofactors = _written_out(c, x, size) if size is not None and size <= _CLOSED else _by_replacement(c, x)
    return (c.op.Mul(c.op.Unsqueeze(gy, [-2, -1]), cofactors),)


def _written_out(c: Context, x: ir.Value, size: int) -> ir.Value:
    """cof[i, j] = (-1)^(i(M-i) + j(M-j)) Σ_p sgn(p) Π_a X[i+1+a, j+1+p(a)]: indices modulo M, so X is rolled."""
    op = c.op
    if size <= 1:
        return op.Expand(np.ones(1, c.dtype(x).numpy()), op.Shape(x))
    turns = [np.roll(np.arange(size), -k) for k in range(size)]
    rolled = {}
    for a in range(1, size):
        rows = op.Gather(x, turns[a], axis=-2)
        for b in range(1, size):
            rolled[a, b] = op.Gather(rows, turns[b], axis=-1)
    total: ir.Value | None = None
    for p in permutations(range(1, size)):
        product = rolled[1, p[0]]
        for a in range(2, size):
            product = op.Mul(product, rolled[a, p[a - 1]])
        add = op.Add if _even(p) else op.Sub
        total = product if total is None else add(total, product)
    assert total is not None
    side = np.array([(-1.0) ** (i * (size - i)) for i in range(size)])
    if (side > 0).all():
        return total
    return op.Mul(total, np.outer(side, side).astype(c.dtype(x).numpy()))


def _by_replacement(c: Context, x: ir.Value) -> ir.Value:
    """cof[i, j] = det of X with row i replaced by the unit vector e_j: [..., i, j, M, M] in one Det."""
    op = c.op
    places = op.Range(0, op.Squeeze(op.Shape(x, start=-1), [0]), 1)
    same = op.Equal(op.Unsqueeze(places, [1]), op.Unsqueeze(places, [0]))  # [M, M]
    row = op.Unsqueeze(same, [1, 3])  # [i, 1, row, 1]
    unit = op.Unsqueeze(c.mask(same, x), [0, 2])  # [1, j, 1, column]
    return op.Det(op.Where(row, unit, op.Unsqueeze(x, [-4, -3])))


def _even(p: tuple[int, ...]) -> bool:
    return sum(p[i] > p[j] for i in range(len(p)) for j in range(i + 1, len(p))) % 2 == 0
