"""Attention, MultiHeadAttention and QAttention of ONNX Runtime, in products and a Softmax.

Source: the operators' schemas, and the masks as ONNX Runtime's CPU kernels apply them (a masked entry gets the finite
`mask_filter_value`, a later position the lowest number).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.fused.table import Fused, Unexpanded, fused

__all__ = ["Heads", "attend", "heads", "merged", "past_and_present"]

_BASIC = "Save the model at optimisation level BASIC or export it without fusion."


@dataclass
class Heads:
    """Queries [B, N, S, H], keys [B, N, T, H] and values [B, N, T, Hv] of one attention, and what is added to scores."""

    q: ir.Value
    k: ir.Value
    v: ir.Value
    scale: float | None
    added: list[ir.Value]


def heads(f: Fused, x: ir.Value, count: int) -> ir.Value:
    """[B, S, N*H] -> [B, N, S, H]."""
    return f.op.Transpose(f.op.Reshape(x, [0, 0, count, -1]), perm=[0, 2, 1, 3])


def merged(f: Fused, x: ir.Value) -> ir.Value:
    """[B, N, S, H] -> [B, S, N*H]."""
    return f.op.Reshape(f.op.Transpose(x, perm=[0, 2, 1, 3]), [0, 0, -1])


def attend(f: Fused, parts: Heads) -> tuple[ir.Value, ir.Value]:
    """(values weighted by the Softmax of the scores [B, N, S, Hv], that Softmax [B, N, S, T])."""
    op = f.op
    scores = op.MatMul(parts.q, op.Transpose(parts.k, perm=[0, 1, 3, 2]))
    if parts.scale is None:
        size = op.Sqrt(op.Cast(op.Shape(parts.q, start=3, end=4), to=f.dtype(parts.q).value))
        scores = op.Div(scores, size)
    else:
        scores = op.Mul(scores, f.like(parts.scale, parts.q))
    for bias in parts.added:
        scores = op.Add(scores, bias)
    weights = op.Softmax(scores, axis=-1)
    return op.MatMul(weights, parts.v), weights


def scale_of(f: Fused, q: ir.Value, count: int) -> float | None:
    """The factor of the scores; None where it is 1/sqrt(head size) and that is known at run time only."""
    given = float(f.attr("scale", 0.0))
    if given:
        return given
    width = f.dim(q, 2)
    return 1.0 / math.sqrt(width / count) if width is not None else None


def past_and_present(f: Fused, past: ir.Value | None, new: ir.Value) -> ir.Value:
    """Earlier keys or values [B, N, P, H] ahead of new ones."""
    return new if past is None else f.op.Concat(past, new, axis=2)


def masks(f: Fused, mask: ir.Value | None, q: ir.Value, k: ir.Value, like: ir.Value) -> list[ir.Value]:
    """What is added to the scores [B, N, S, T] for the mask and for `unidirectional`, in the type of `like`.

    `q` [B, N, S, H] and `k` [B, N, T, H] tell the sizes. Mask: lengths [B], ends and starts [2B], or 0 and 1 as [B, T] or
    [B, S, T].
    """
    op, dtype = f.op, f.dtype(like)
    lowest = float(np.finfo(dtype.numpy()).min)
    fill = max(float(f.attr("mask_filter_value", -10000.0)), lowest)
    later = _later(f, q, k) if int(f.attr("unidirectional", 0)) else None
    added: ir.Value | None = None
    if mask is not None:
        hidden = _hidden(f, mask, q, k)
        added = op.Where(hidden, f.like(fill, like), f.like(0.0, like))
    if later is None:
        return [] if added is None else [added]
    return [op.Where(later, f.like(lowest, like), f.like(0.0, like) if added is None else added)]


def _later(f: Fused, q: ir.Value, k: ir.Value) -> ir.Value:
    """[S, T], true where a key comes after the query; the last query is at the last key."""
    op = f.op
    rows, columns = op.Shape(q, start=2, end=3), op.Shape(k, start=2, end=3)
    ends = op.Squeeze(columns, [0])
    place = op.Range(op.Sub(ends, op.Squeeze(rows, [0])), ends, 1)
    return op.Greater(op.Range(0, ends, 1), op.Unsqueeze(place, [1]))


def _hidden(f: Fused, mask: ir.Value, q: ir.Value, k: ir.Value) -> ir.Value:
    """True where a key must not be looked at; broadcasts against [B, N, S, T]."""
    op, rank = f.op, f.ranked(mask)
    if rank == 2:
        return op.Unsqueeze(op.LessOrEqual(mask, 0), [1, 2])
    if rank == 3:
        return op.Unsqueeze(op.LessOrEqual(mask, 0), [1])
    if rank != 1:
        raise Unexpanded(f"its mask has {rank} axes", _BASIC)
    total = op.Shape(k, start=2, end=3)
    count, batch = f.dim(mask, 0), op.Shape(q, start=0, end=1)
    place = op.Cast(op.Range(0, op.Squeeze(total, [0]), 1), to=f.dtype(mask).value)
    ends = op.Slice(mask, [0], batch, [0])
    zeros = op.Mul(ends, 0)
    starts = op.Slice(op.Concat(mask, zeros, axis=0), batch, op.Mul(batch, 2), [0])
    if count is not None and count == f.dim(f.x, 0):
        starts = zeros
    ended, begun = (op.Unsqueeze(v, [1, 2, 3]) for v in (ends, starts))
    return op.Or(op.GreaterOrEqual(place, ended), op.Less(place, begun))


@fused("Attention")
def attention(f: Fused) -> None:
    """Self-attention of x [B, S, W] with the projections of queries, keys and values in one matrix [W, h + h + hv]."""
    if f.operand(6) is not None or int(f.attr("past_present_share_buffer", 0)):
        raise Unexpanded("its past and present share a buffer", _BASIC)
    projected = f.op.MatMul(f.x, f.need(1))
    bias = f.operand(2)
    if bias is not None:
        projected = f.op.Add(projected, bias)
    width = f.dim(f.need(1), 1) or (f.dim(bias, 0) if bias is not None else None)
    self_attention(f, projected, width, f.operand(3), f.operand(4), f.operand(5))


def self_attention(
    f: Fused,
    projected: ir.Value,
    width: int | None,
    mask: ir.Value | None,
    past: ir.Value | None,
    bias: ir.Value | None,
) -> None:
    """Replace the node by attention over `projected` [B, S, h + h + hv], `width` entries wide."""
    if int(f.attr("do_rotary", 0)):
        raise Unexpanded("it rotates queries and keys inside (do_rotary)", _BASIC)
    op, count = f.op, int(f.attr("num_heads"))
    sizes = f.attr("qkv_hidden_sizes")
    if sizes:
        q, k, v = op.Split(projected, [int(s) for s in sizes], outputs=3, axis=2)
    else:
        q, k, v = op.Split(projected, outputs=3, axis=2, num_outputs=3)
    given = float(f.attr("scale", 0.0))
    total = int(sizes[0]) if sizes else width // 3 if width else None
    scale = given if given else 1 / math.sqrt(total / count) if total else None
    q, k, v = heads(f, q, count), heads(f, k, count), heads(f, v, count)
    present = None
    if past is not None:
        earlier = op.Split(past, outputs=2, axis=0, num_outputs=2)
        k, v = (past_and_present(f, op.Squeeze(p, [0]), new) for p, new in zip(earlier, (k, v), strict=True))
    if f.used(1):
        present = op.Concat(op.Unsqueeze(k, [0]), op.Unsqueeze(v, [0]), axis=0)
    added = masks(f, mask, q, k, projected) + ([] if bias is None else [bias])
    y, _ = attend(f, Heads(q, k, v, scale, added))
    f.replace(merged(f, y), present)


@fused("MultiHeadAttention")
def multi_head_attention(f: Fused) -> None:
    """Attention of projected queries, keys and values, or of both or all three packed; a bias of the projections."""
    if f.operand(8) is not None or f.operand(9) is not None:
        raise Unexpanded("its past and present share a buffer", _BASIC)
    op, count = f.op, int(f.attr("num_heads"))
    q, k, v = _unpacked(f, count)
    bias = f.operand(3)
    scale = scale_of(f, f.x, count) if f.ranked(f.x) == 3 else float(f.attr("scale", 0.0)) or None
    if bias is not None:
        wide = f.size(f.x, 2) if f.ranked(f.x) == 3 else [count * (f.dim(f.x, 4) or 0)]
        total = f.size(bias, 0)
        sizes = op.Concat(wide, wide, op.Sub(total, op.Mul(wide, 2)), axis=0)
        parts = op.Split(bias, sizes, outputs=3, axis=0)
        own = f.ranked(f.need(1)) != 4 if f.operand(1) is not None else True
        q = op.Add(q, _a_head(f, parts[0], count))
        if own:
            k, v = op.Add(k, _a_head(f, parts[1], count)), op.Add(v, _a_head(f, parts[2], count))
    k, v = past_and_present(f, f.operand(6), k), past_and_present(f, f.operand(7), v)
    extra = f.operand(5)
    added = masks(f, f.operand(4), q, k, q) + ([] if extra is None else [extra])
    y, weights = attend(f, Heads(q, k, v, scale, added))
    f.replace(merged(f, y), k, v, weights)


def _unpacked(f: Fused, count: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Queries, keys and values as [B, N, ., H]."""
    op, key, value = f.op, f.operand(1), f.operand(2)
    if key is None:
        if f.ranked(f.x) != 5:
            raise Unexpanded("it has queries alone", "The file is not valid.")
        q, k, v = (op.Squeeze(p, [3]) for p in op.Split(f.x, outputs=3, axis=3, num_outputs=3))
        return _forward(f, q), _forward(f, k), _forward(f, v)
    if f.ranked(key) == 5:
        k, v = (op.Squeeze(p, [3]) for p in op.Split(key, outputs=2, axis=3, num_outputs=2))
        return heads(f, f.x, count), _forward(f, k), _forward(f, v)
    if value is None:
        raise Unexpanded("it has keys and no values", "The file is not valid.")
    if f.ranked(key) == 4:
        return heads(f, f.x, count), key, value
    return heads(f, f.x, count), heads(f, key, count), heads(f, value, count)


def _forward(f: Fused, x: ir.Value) -> ir.Value:
    """[B, S, N, H] -> [B, N, S, H]."""
    return f.op.Transpose(x, perm=[0, 2, 1, 3])


def _a_head(f: Fused, bias: ir.Value, count: int) -> ir.Value:
    """[N*H] -> [N, 1, H]."""
    return f.op.Reshape(bias, [count, 1, -1])
