"""Normalisations with the sums ahead of them, group normalisation, and the embedding that BERT starts with."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.fused.table import Fused, fused
from onnx_ig.graph.lookups import ROLE

_EPSILON = 1e-12
"""Default of ONNX Runtime's operators; that of the standard's LayerNormalization is 1e-5."""


@fused("SkipLayerNormalization")
def skip_layer_normalization(f: Fused) -> None:
    """y = LayerNormalization(s) of s = input + skip (+ bias); outputs y, mean, 1 / deviation, s."""
    total = f.op.Add(f.x, f.need(1))
    bias = f.operand(4)
    if bias is not None:
        total = f.op.Add(total, bias)
    y, mean, inverse = f.op.LayerNormalization(
        total, f.need(2), f.operand(3), outputs=3, axis=-1, epsilon=float(f.attr("epsilon", _EPSILON))
    )
    f.replace(y, mean, inverse, total)


@fused("SkipSimplifiedLayerNormalization")
def skip_simplified(f: Fused) -> None:
    """y = gamma * s / sqrt(mean(s^2) + epsilon) of s = input + skip (+ bias); outputs y, none, 1 / root, s."""
    total = f.op.Add(f.x, f.need(1))
    bias = f.operand(3)
    if bias is not None:
        total = f.op.Add(total, bias)
    y, inverse = root_mean_square(f, total, f.need(2), float(f.attr("epsilon", _EPSILON)))
    f.replace(y, None, inverse, total)


@fused("SimplifiedLayerNormalization")
@fused("SimplifiedLayerNormalization", domain="")
def simplified(f: Fused) -> None:
    """y = scale * x / sqrt(mean(x^2) + epsilon), the mean over the axes from `axis` on; outputs y, 1 / root."""
    axis = int(f.attr("axis", -1))
    f.replace(*root_mean_square(f, f.x, f.need(1), float(f.attr("epsilon", 1e-5)), axis))


@fused("LayerNormalization")
def layer_normalization(f: Fused) -> None:
    """The standard operator under ONNX Runtime's domain."""
    keep = {n: f.attr(n) for n in ("axis", "epsilon", "stash_type") if f.attr(n) is not None}
    f.replace(*f.op.LayerNormalization(f.x, f.need(1), f.operand(2), outputs=3, **keep))


def root_mean_square(
    f: Fused, x: ir.Value, scale: ir.Value, epsilon: float, axis: int = -1
) -> tuple[ir.Value, ir.Value]:
    """(y, 1 / root), the statistics in float32 for narrower types, as ONNX Runtime computes them."""
    dtype = f.dtype(x)
    wide = x if dtype == ir.DataType.DOUBLE else f.cast(x, ir.DataType.FLOAT)
    axes = [axis] if axis == -1 else list(range(axis if axis < 0 else axis - f.ranked(x), 0))
    mean = f.op.ReduceMean(f.op.Mul(wide, wide), axes, keepdims=1)
    inverse = f.op.Reciprocal(f.op.Sqrt(f.op.Add(mean, epsilon)))
    return f.op.Mul(f.cast(f.op.Mul(wide, inverse), f.dtype(scale)), scale), inverse


@fused("GroupNorm")
def group_norm(f: Fused) -> None:
    """Group normalisation with scale and bias a channel, channels last by default; activation 1 is SiLU."""
    f.replace(_group_normalized(f, f.x))


@fused("SkipGroupNorm")
def skip_group_norm(f: Fused) -> None:
    """GroupNorm of s = x + skip (+ bias); outputs y, s. A skip [N, C] belongs to every position."""
    rank = f.ranked(f.x)
    skip, bias = f.need(3), f.operand(4)
    last = int(f.attr("channels_last", 1))
    if f.ranked(skip) == 2:
        skip = f.op.Unsqueeze(skip, list(range(1, rank - 1)) if last else list(range(2, rank)))
    total = f.op.Add(f.x, skip)
    if bias is not None:
        total = f.op.Add(total, _a_channel(f, bias, rank, last))
    f.replace(_group_normalized(f, total), total)


def _group_normalized(f: Fused, x: ir.Value) -> ir.Value:
    op, rank, last = f.op, f.ranked(f.x), int(f.attr("channels_last", 1))
    first = op.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)]) if last else x
    wide = f.cast(first, ir.DataType.FLOAT)
    groups = op.Reshape(wide, [0, int(f.attr("groups")), -1])
    away = op.Sub(groups, op.ReduceMean(groups, [-1], keepdims=1))
    variance = op.ReduceMean(op.Mul(away, away), [-1], keepdims=1)
    even = op.Div(away, op.Sqrt(op.Add(variance, float(f.attr("epsilon", 1e-5)))))
    y = op.Reshape(even, op.Shape(first))
    if last:
        y = op.Transpose(y, perm=[0, *range(2, rank), 1])
    scale, shift = (_a_channel(f, f.cast(f.need(i), ir.DataType.FLOAT), rank, last) for i in (1, 2))
    y = op.Add(op.Mul(y, scale), shift)
    if int(f.attr("activation", 0)):
        y = op.Mul(y, op.Sigmoid(y))
    return f.cast(y, f.dtype(f.x))


def _a_channel(f: Fused, vector: ir.Value, rank: int, last: int) -> ir.Value:
    return vector if last else f.op.Reshape(vector, [-1, *[1] * (rank - 2)])


@fused("EmbedLayerNormalization")
def embed_layer_normalization(f: Fused) -> None:
    """LayerNormalization of word + position (+ segment) embeddings; outputs y, mask_index, the sum.

    mask_index is the number of words, int32 [N]: how many entries of the mask are 1, 0 without a mask.
    """
    ids, segments = f.x, f.operand(1)
    word, position, segment = f.need(2), f.need(3), f.operand(4)
    places = f.operand(8)
    if places is None:
        length = f.op.Squeeze(f.op.Shape(ids, start=1, end=2), [0])
        places = f.op.Range(0, length, 1)
    at = f.op.Gather(position, places)
    at.meta[ROLE] = "positions"
    total = f.op.Add(f.op.Gather(word, ids), at)
    if segment is not None and segments is not None:
        part = f.op.Gather(segment, segments)
        part.meta[ROLE] = "segments"
        total = f.op.Add(total, part)
    y = f.op.LayerNormalization(total, f.need(5), f.operand(6), axis=-1, epsilon=float(f.attr("epsilon", _EPSILON)))
    f.replace(y, words(f, ids, f.operand(7)) if f.used(1) else None, total)


@fused("TorchEmbedding")
def torch_embedding(f: Fused) -> None:
    """Rows of a table; what it says of a padding row concerns training."""
    f.replace(f.op.Gather(f.x, f.need(1)))


def words(f: Fused, ids: ir.Value, mask: ir.Value | None) -> ir.Value:
    """The output mask_index, int32 [N]."""
    if mask is None:
        zero = f.cast(f.op.Mul(ids, 0), ir.DataType.INT32)
        return f.op.ReduceSum(zero, [1], keepdims=0)
    ones = f.op.Cast(f.op.Equal(mask, 1), to=ir.DataType.INT32.value)
    return f.op.ReduceSum(ones, [1], keepdims=0)
