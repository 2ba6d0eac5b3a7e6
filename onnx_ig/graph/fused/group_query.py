"""GroupQueryAttention of ONNX Runtime: heads that share keys, caches, windows, rotation, caps and sinks.

Source: the operator's schema; positions and lengths as ONNX Runtime's CPU kernel counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.fused.attention import heads, merged
from onnx_ig.graph.fused.rotary import rotated, rows_at
from onnx_ig.graph.fused.table import Fused, Unexpanded, fused

_REMEDY = "Export the model for the CPU or without fused attention."
_NOT_TAKEN = {
    "sliding_window_cache": "its cache holds a window only",
    "qk_output": "it gives scores out",
}
_OPERANDS_NOT_TAKEN = {
    12: "its cache is quantised",
    13: "its cache is quantised",
    14: "it normalises queries inside",
    15: "it normalises keys inside",
    16: "its chunks are padded (query_seqlens)",
}


@dataclass
class _Places:
    """Where things stand, int64: `own` [B, S] the position of each query, `before` [B, 1] how many keys were there
    ahead of the new ones, `total` [B, 1] how many there are now, `length` [1] the most keys of any row."""

    own: ir.Value
    before: ir.Value
    total: ir.Value
    length: ir.Value


@fused("GroupQueryAttention")
def group_query_attention(f: Fused) -> None:
    """softmax(scale * q k^T + bias) v, causal, each head of keys serving num_heads / kv_num_heads heads of queries.

    Keys and values stand behind those of the cache; row b has seqlens_k[b] + 1 of them. The node itself stays for its
    outputs `present_key` and `present_value` where something takes them.
    """
    for name, reason in _NOT_TAKEN.items():
        if int(f.attr(name, 0)):
            raise Unexpanded(f"{reason} ({name})", _REMEDY)
    for index, reason in _OPERANDS_NOT_TAKEN.items():
        if f.operand(index) is not None:
            raise Unexpanded(reason, _REMEDY)
    op, count, shared = f.op, int(f.attr("num_heads")), int(f.attr("kv_num_heads"))
    q, k, v = _projected(f, count, shared)
    places = _places(f, q)
    if int(f.attr("do_rotary", 0)):
        q, k = _turned(f, q, k, places)
    past_k, past_v = f.operand(3), f.operand(4)
    if past_k is not None and past_v is not None and f.dim(past_k, 2) != 0:
        k, v = _behind(f, past_k, k, places), _behind(f, past_v, v, places)
    if count != shared:
        k, v = _repeated(f, k, count // shared), _repeated(f, v, count // shared)
    weights = _weights(f, q, k, places)
    f.stand_in(merged(f, op.MatMul(weights, v)))


def _projected(f: Fused, count: int, shared: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    key, value = f.operand(1), f.operand(2)
    if key is not None and value is not None:
        if f.ranked(key) != 3:
            raise Unexpanded("its keys are not [batch, sequence, width]", _REMEDY)
        return heads(f, f.x, count), heads(f, key, shared), heads(f, value, shared)
    size = f.op.Div(f.op.Shape(f.x, start=2, end=3), count + 2 * shared)
    parts = [f.op.Mul(size, n) for n in (count, shared, shared)]
    q, k, v = f.op.Split(f.x, f.op.Concat(*parts, axis=0), outputs=3, axis=2)
    return heads(f, q, count), heads(f, k, shared), heads(f, v, shared)


def _places(f: Fused, q: ir.Value) -> _Places:
    """A first prompt (as many new keys as there are in all) starts at 0 in every row, later ones end at their length."""
    op = f.op
    new = op.Shape(q, start=2, end=3)
    length = op.Reshape(f.cast(f.need(6), ir.DataType.INT64), [1])
    total = op.Unsqueeze(op.Add(f.cast(f.need(5), ir.DataType.INT64), 1), [1])
    total = op.Reshape(total, [-1, 1])
    before = op.Where(op.Equal(length, new), np.zeros((1, 1), np.int64), op.Sub(total, new))
    own = op.Add(before, op.Range(0, op.Squeeze(new, [0]), 1))
    return _Places(own, before, total, length)


def _turned(f: Fused, q: ir.Value, k: ir.Value, places: _Places) -> tuple[ir.Value, ir.Value]:
    op, cos, sin = f.op, f.need(7), f.need(8)
    given = f.operand(9)
    if given is None:  # rows of padding lie beyond the end; any position in the cache does for them
        at = op.Where(op.Less(places.own, places.total), places.own, np.ones((1, 1), np.int64))
        at = op.Where(op.Equal(places.before, 0), places.own, at)
    else:
        first = op.Add(op.Slice(given, [0, 0], [1, 1], [0, 1]), op.Range(0, op.Squeeze(op.Shape(q, start=2, end=3)), 1))
        at = op.Where(op.Equal(places.length, op.Shape(q, start=2, end=3)), first, given)
    half, size = f.dim(cos, 1), _head_size(f)
    partial = half is None or size is None or 2 * half != size
    found = (rows_at(f, cos, at), rows_at(f, sin, at))
    between = bool(f.attr("rotary_interleaved", 0))
    return rotated(f, q, *found, partial, between), rotated(f, k, *found, partial, between)


def _head_size(f: Fused) -> int | None:
    width, packed = f.dim(f.x, 2), f.operand(1) is None
    heads_in = int(f.attr("num_heads")) + (2 * int(f.attr("kv_num_heads")) if packed else 0)
    return None if width is None else width // heads_in


def _behind(f: Fused, past: ir.Value, new: ir.Value, places: _Places) -> ir.Value:
    """[B, N, T, H]: entry j is past[j] below `before`, then new[j - before].

    The cache may be longer than what it holds, and rows may hold different numbers, so entries are picked by position.
    """
    op = f.op
    held = op.Shape(past, start=2, end=3)
    both = op.Concat(past, new, axis=2)
    place = op.Range(0, op.Squeeze(places.length, [0]), 1)
    later = op.Add(op.Sub(place, places.before), held)
    index = op.Where(op.Less(place, places.before), place, later)
    last = op.Sub(op.Shape(both, start=2, end=3), 1)
    index = op.Min(index, last)
    rows = op.Concat(op.Shape(index, start=0, end=1), [1, -1, 1], axis=0)
    shape = op.Concat(op.Shape(both, start=0, end=2), places.length, op.Shape(both, start=3, end=4), axis=0)
    return op.GatherElements(both, op.Expand(op.Reshape(index, rows), shape), axis=2)


def _repeated(f: Fused, x: ir.Value, times: int) -> ir.Value:
    """[B, K, T, H] -> [B, K * times, T, H], each head `times` times in a row."""
    op = f.op
    wide = op.Unsqueeze(x, [2])
    many = op.Concat(op.Shape(x, start=0, end=2), [times], op.Shape(x, start=2, end=4), axis=0)
    flat = op.Concat([0, -1], op.Shape(x, start=2, end=4), axis=0)
    return op.Reshape(op.Expand(wide, many), flat)


def _weights(f: Fused, q: ir.Value, k: ir.Value, places: _Places) -> ir.Value:
    """[B, N, S, T]."""
    op, dtype = f.op, f.dtype(q)
    scale, size = float(f.attr("scale", 0.0)), _head_size(f)
    scores = op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2]))
    if scale or size:
        scores = op.Mul(scores, f.like(scale or (size or 1) ** -0.5, q))
    else:
        scores = op.Div(scores, op.Sqrt(op.Cast(op.Shape(q, start=3, end=4), to=dtype.value)))
    cap = float(f.attr("softcap", 0.0))
    if cap:
        scores = op.Mul(op.Tanh(op.Div(scores, f.like(cap, q))), f.like(cap, q))
    bias = f.operand(10)
    if bias is not None:
        ends = op.Shape(k, start=2, end=3)
        scores = op.Add(scores, op.Slice(bias, [0], ends, [3]))
    place = op.Range(0, op.Squeeze(op.Shape(k, start=2, end=3), [0]), 1)
    own = op.Unsqueeze(places.own, [1, 3])
    causal = int(f.attr("causal", 1))
    hidden = op.Greater(place, own) if causal else op.GreaterOrEqual(place, op.Unsqueeze(places.total, [1, 2]))
    window = int(f.attr("local_window_size", -1))
    if window > 0:
        hidden = op.Or(hidden, op.LessOrEqual(place, op.Sub(own, window)))
    scores = op.Where(hidden, f.like(float(np.finfo(dtype.numpy()).min), q), scores)
    sink = f.operand(11)
    if sink is None and not int(f.attr("smooth_softmax", 0)):
        return op.Softmax(scores, axis=-1)
    column = op.Concat(op.Shape(scores, start=0, end=3), [1], axis=0)
    level = f.like(0.0, q) if sink is None else op.Reshape(sink, [1, -1, 1, 1])
    wide = op.Softmax(op.Concat(scores, op.Expand(level, column), axis=3), axis=-1)
    return op.Slice(wide, [0], [-1], [3])
