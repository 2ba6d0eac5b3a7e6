"""Operators that rearrange, repeat, join or cut whole tensors: each cotangent is the inverse arrangement, or a sum."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import declare_zero, gradient

Values = tuple[ir.Value | None, ...]


@gradient("Reshape", "Flatten")
def reshape(c: Context, gy: ir.Value) -> Values:
    """gx = gy in the shape of x. Source: ONNX Reshape-19, Flatten-13."""
    return (c.reshape_like(gy, c.operand(0)), *(None,) * (len(c.inputs) - 1))


@gradient("Squeeze", "Unsqueeze")
def squeeze(c: Context, gy: ir.Value) -> Values:
    """gx = gy with the axes put back, or taken away again. Source: ONNX Squeeze-13, Unsqueeze-13."""
    x, axes = c.operand(0), c.input(1)
    if axes is None:  # every axis of size 1, which only the run may know
        return (c.reshape_like(gy, x), *(None,) * (len(c.inputs) - 1))
    if axes.shape is None or len(axes.shape) != 1:
        axes = c.op.Reshape(axes, [-1])  # runtimes let Unsqueeze have its one axis as a scalar, but not Squeeze
    inverse = c.op.Unsqueeze if c.node.op_type == "Squeeze" else c.op.Squeeze
    return inverse(gy, axes), None


@gradient("Transpose")
def transpose(c: Context, gy: ir.Value) -> Values:
    """gx = gy under the inverse permutation. Source: ONNX Transpose-13."""
    perm = c.attr("perm")
    inverse = None if perm is None else [int(i) for i in np.argsort(perm)]
    return (c.op.Transpose(gy, perm=inverse),)


@gradient("Expand")
def expand(c: Context, gy: ir.Value) -> Values:
    """gx = gy summed over the axes that were expanded. Source: ONNX Expand-13."""
    x = c.operand(0)
    return c.sum_to(gy, c.output.shape, x), None


@gradient("Tile")
def tile(c: Context, gy: ir.Value) -> Values:
    """gx = sum of the copies: gy as [r0, d0, r1, d1, ...], summed over every r. Source: ONNX Tile-13."""
    x, repeats = c.operand(0), c.operand(1)
    counts, dims = c.constant(repeats), c.static_shape(x)
    if counts is not None and dims is not None:
        shape: list[int] = []
        axes: list[int] = []
        for count, dim in zip(counts.tolist(), dims, strict=True):
            if count != 1:
                axes.append(len(shape))
                shape.append(count)
            shape.append(dim)
        if not axes:
            return gy, None
        return c.op.ReduceSum(c.op.Reshape(gy, shape, allowzero=1), axes, keepdims=0), None
    pairs = c.op.Concat(c.op.Unsqueeze(repeats, [1]), c.op.Unsqueeze(c.op.Shape(x), [1]), axis=1)
    copies = c.op.Reshape(gy, c.op.Reshape(pairs, [-1]), allowzero=1)
    every_r = c.op.Range(0, c.op.Squeeze(c.op.Mul(c.op.Shape(repeats), 2), [0]), 2)
    return c.op.ReduceSum(copies, every_r, keepdims=0, noop_with_empty_axes=1), None


@gradient("Concat")
def concat(c: Context, gy: ir.Value) -> Values:
    """Each operand gets its stretch of gy along the axis. Source: ONNX Concat-13."""
    axis, count = int(c.attr("axis")), len(c.inputs)
    if count == 1:
        return (gy,)
    operands = [c.operand(i) for i in range(count)]
    sizes = [c.size(x, axis) for x in operands]
    known = [s[0] if isinstance(s, list) else None for s in sizes]
    wanted = [i for i in range(count) if c.wants(i)]
    if len(wanted) == 1 and None not in known:  # the others' stretches need not be copied
        only = wanted[0]
        start = sum(known[:only])  # type: ignore[arg-type]
        part = c.op.Slice(gy, [start], [start + known[only]], [axis])  # type: ignore[operator]
        return tuple(part if i == only else None for i in range(count))
    lengths = known if None not in known else c.op.Concat(*sizes, axis=0)
    return c.op.Split(gy, lengths, axis=axis, outputs=count)


@gradient("Split")
def split(c: Context, *gys: ir.Value | None) -> Values:
    """gx = the cotangents of the parts joined; a part that nothing reads has zeros. Source: ONNX Split-18."""
    parts = []
    for part, g in zip(c.outputs, gys, strict=True):
        if g is None:
            part.name = part.name or c.op.names.numbered("ig_part")
            g = c.zeros_like(part)
        parts.append(g)
    gx = parts[0] if len(parts) == 1 else c.op.Concat(*parts, axis=int(c.attr("axis", 0)))
    return (gx, *(None,) * (len(c.inputs) - 1))


@gradient("Trilu")
def trilu(c: Context, gy: ir.Value) -> Values:
    """gx = the same triangle of gy. Source: ONNX Trilu-14."""
    return (c.op.Trilu(gy, c.input(1), upper=c.attr("upper")), None)[: len(c.inputs)]


@gradient("ReverseSequence")
def reverse_sequence(c: Context, gy: ir.Value) -> Values:
    """gx = gy reversed again. Source: ONNX ReverseSequence-10."""
    axes = {name: c.attr(name) for name in ("batch_axis", "time_axis")}
    return c.op.ReverseSequence(gy, c.operand(1), **axes), None


@gradient("Range")
def range_(c: Context, gy: ir.Value) -> Values:
    """y[i] = start + i*delta: gstart = sum(gy), gdelta = sum(gy*i); the count of elements is piecewise constant.

    Source: ONNX Range-11.
    """
    steps = c.op.Range(0, c.op.Size(gy), 1)
    weighted = c.op.Mul(gy, c.op.Cast(steps, to=c.dtype(c.output).value))
    start = c.op.ReduceSum(gy, [0], keepdims=0) if c.wants(0) else None
    return start, None, c.op.ReduceSum(weighted, [0], keepdims=0) if c.wants(2) else None


declare_zero("Shape", "Size", "ConstantOfShape", "NonZero", "ArgMax", "ArgMin", "EyeLike")
