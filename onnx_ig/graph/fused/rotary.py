"""Rotary position embeddings of ONNX Runtime. Source: the operator's schema; Su et al., RoFormer, 2021."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.fused.attention import heads, merged
from onnx_ig.graph.fused.table import Fused, Unexpanded, fused
from onnx_ig.graph.lookups import ROLE

__all__ = ["rotated", "rows_at"]


def rows_at(f: Fused, cache: ir.Value, positions: ir.Value) -> ir.Value:
    """Rows of a cache [M, R/2] at positions [B, S] (or [1, S]), for all heads: [B, 1, S, R/2]."""
    rows = f.op.Gather(cache, positions)
    rows.meta[ROLE] = "positions"
    return f.op.Unsqueeze(rows, [1])


def rotated(f: Fused, x: ir.Value, cos: ir.Value, sin: ir.Value, partial: bool, interleaved: bool) -> ir.Value:
    """x [B, N, S, H] with the pairs of its first R entries turned; cos and sin [B, 1, S, R/2].

    Pairs are (i, i + R/2), or neighbours where interleaved. Without `partial` R is H.
    """
    op = f.op
    rest = None
    if partial:
        width = op.Mul(op.Shape(cos, start=3, end=4), 2)
        sizes = op.Concat(width, op.Sub(op.Shape(x, start=3, end=4), width), axis=0)
        x, rest = op.Split(x, sizes, outputs=2, axis=3)
    if interleaved:
        pairs = op.Reshape(x, op.Concat(op.Shape(x, start=0, end=3), [-1, 2], axis=0))
        one, two = (op.Squeeze(p, [4]) for p in op.Split(pairs, outputs=2, axis=4, num_outputs=2))
    else:
        one, two = op.Split(x, outputs=2, axis=3, num_outputs=2)
    real = op.Sub(op.Mul(one, cos), op.Mul(two, sin))
    imaginary = op.Add(op.Mul(one, sin), op.Mul(two, cos))
    if interleaved:
        turned = op.Reshape(
            op.Concat(op.Unsqueeze(real, [4]), op.Unsqueeze(imaginary, [4]), axis=4),
            op.Concat(op.Shape(x, start=0, end=3), [-1], axis=0),
        )
    else:
        turned = op.Concat(real, imaginary, axis=3)
    return turned if rest is None else op.Concat(turned, rest, axis=3)


@fused("RotaryEmbedding")
def rotary_embedding(f: Fused) -> None:
    """x [B, S, N*H] or [B, N, S, H] turned by the rows of the caches at its positions: [B, S], or the first one [1]."""
    if int(f.attr("is_packed_batching", 0)):
        raise Unexpanded("its batch is packed (is_packed_batching)", "Export the model without packed batches.")
    op, x, positions, cos, sin = f.op, f.x, f.need(1), f.need(2), f.need(3)
    rank, partial = f.ranked(x), int(f.attr("rotary_embedding_dim", 0)) > 0
    count = int(f.attr("num_heads", 0))
    spread = x
    if rank == 3 and count:
        spread = heads(f, x, count)
    elif rank == 3:
        size = op.Mul(op.Shape(cos, start=1, end=2), 2)
        spread = op.Transpose(f.reshape(x, [0, 0, -1], size), perm=[0, 2, 1, 3])
    if f.ranked(positions) == 1:
        length = op.Squeeze(op.Shape(spread, start=2, end=3), [0])
        positions = op.Unsqueeze(op.Add(op.Range(0, length, 1), f.cast(positions, ir.DataType.INT64)), [0])
    y = rotated(
        f, spread, rows_at(f, cos, positions), rows_at(f, sin, positions), partial, bool(f.attr("interleaved", 0))
    )
    factor = float(f.attr("scale", 1.0))
    if factor != 1:
        y = op.Mul(y, f.like(factor, x))
    f.replace(merged(f, y) if rank == 3 else y)
