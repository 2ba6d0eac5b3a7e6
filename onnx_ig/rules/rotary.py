"""RotaryEmbedding: a rotation, so the cotangent is rotated back."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.indexing import scatter_along
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("RotaryEmbedding")
def rotary_embedding(c: Context, gy: ir.Value) -> Values:
    """y1 = cos x1 - sin x2, y2 = sin x1 + cos x2: gx is the same operator on gy with -sin.

    gcos = Σ gy1 x1 + gy2 x2 and gsin = Σ gy2 x1 - gy1 x2 over the heads, added up at the positions.
    Source: ONNX RotaryEmbedding-23; Su et al. 2021.
    """
    op, (x, cos, sin), positions = c.op, (c.operand(0), c.operand(1), c.operand(2)), c.input(3)
    attributes = {name: c.attr(name) for name in ("interleaved", "num_heads", "rotary_embedding_dim")}
    gx = op.RotaryEmbedding(gy, cos, op.Neg(sin), positions, **attributes) if c.wants(0) else None
    gcos = gsin = None
    if c.wants(1) or c.wants(2):
        x1, x2 = _pairs(c, x)
        g1, g2 = _pairs(c, gy)
        gcos = op.Add(op.Mul(g1, x1), op.Mul(g2, x2))
        gsin = op.Sub(op.Mul(g2, x1), op.Mul(g1, x2))
    return (gx, _to_cache(c, gcos, cos, positions), _to_cache(c, gsin, sin, positions), None)[: len(c.inputs)]


def _pairs(c: Context, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """What is rotated of `x`, as two values [B, L, H, R / 2]."""
    heads, width = int(c.attr("num_heads", 0)), int(c.attr("rotary_embedding_dim", 0))
    rank = c.rank(c.operand(0))
    if rank is None and heads:
        raise c.refuse(
            "the number of axes of its operand is not known", "Declare the shapes of the model's inputs, or infer them."
        )
    x = c.op.Reshape(x, [0, 0, heads, -1]) if rank == 3 else c.op.Transpose(x, perm=[0, 2, 1, 3])
    if width:
        x = c.op.Slice(x, [0], [width], [-1])
    if c.attr("interleaved", 0):
        return c.op.Slice(x, [0], [2**31], [-1], [2]), c.op.Slice(x, [1], [2**31], [-1], [2])
    first, second = c.op.Split(x, axis=-1, num_outputs=2, outputs=2)
    return first, second


def _to_cache(c: Context, g: ir.Value | None, cache: ir.Value, positions: ir.Value | None) -> ir.Value | None:
    if g is None:
        return None
    g = c.op.ReduceSum(g, [2], keepdims=0)  # [B, L, R / 2]
    return c.sum_to(g, None, cache) if positions is None else scatter_along(c, g, cache, positions, 0)
