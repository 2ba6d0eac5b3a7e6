"""Operators that kept their form and changed what it means."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.upgrade.adapter import Old, adapter


@adapter("Softmax", "LogSoftmax", "Hardmax", until=13)
def flattened(o: Old) -> None:
    """Up to opset 12 all axes from `axis` on are one; since opset 13 `axis` alone is meant.

    The two agree where `axis` is the last, or all axes behind it have length 1.
    """
    x, axis = o.x, o.take("axis", 1)
    if x.shape is not None:
        rank = len(x.shape)
        axis = axis + rank if axis < 0 else axis
        if all(d == 1 for d in x.shape[axis + 1 :]):
            o.put("axis", -1 if axis >= rank - 1 else axis)
            return
    elif axis == -1:
        o.put("axis", -1)
        return
    flat = o.op.node(o.node.op_type, (o.op.Flatten(x, axis=axis),), {"axis": -1})
    o.replace(o.op.Reshape(flat, o.op.Shape(x)))


@adapter("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor", until=7)
def aligned(o: Old) -> None:
    """Up to opset 6 `axis` says at which axis of the first operand the second starts; without it they end together."""
    axis = o.take("axis")
    if not o.take("broadcast", 0) or axis is None:
        return
    a, b = o.x, o.operand(1)
    if b is None:
        raise o.refuse("it has one operand")
    o.put_operand(1, _with_trailing_ones(o, a, b, axis))


def _with_trailing_ones(o: Old, a: ir.Value, b: ir.Value, axis: int) -> ir.Value:
    rank_a, rank_b = o.rank(a), o.rank(b)
    if rank_a is not None and rank_b is not None:
        missing = rank_a - (axis + rank_a if axis < 0 else axis) - rank_b
        return o.op.Unsqueeze(b, list(range(rank_b, rank_b + missing))) if missing > 0 else b
    op = o.op
    behind = [-axis] if axis < 0 else op.Sub(op.Shape(op.Shape(a)), [axis])
    ones = op.Expand([1], op.Sub(behind, op.Shape(op.Shape(b))))
    return op.Reshape(b, op.Concat(op.Shape(b), ones, axis=0))


@adapter("Gemm", until=7)
def gemm(o: Old) -> None:
    """`broadcast` goes: the third operand always broadcasts."""
    o.take("broadcast")


@adapter("PRelu", until=7)
def prelu(o: Old) -> None:
    """Up to opset 6 a slope [C] belongs to axis 1; since opset 7 it would belong to the last."""
    x, slope = o.x, o.operand(1)
    if slope is None:
        raise o.refuse("it has no slope")
    if slope.shape is not None and (len(slope.shape) != 1 or slope.shape[0] == 1):
        return
    rank = o.rank(x)
    if rank is None:
        ones = o.op.Expand([1], o.op.Sub(o.op.Shape(o.op.Shape(x)), [2]))
        o.put_operand(1, o.op.Reshape(slope, o.op.Concat([-1], ones, axis=0)))
    elif rank > 2:
        o.put_operand(1, o.op.Unsqueeze(slope, list(range(1, rank - 1))))


@adapter("Concat", until=4)
def concat(o: Old) -> None:
    """`axis` was optional, 1 by default."""
    o.put("axis", o.take("axis", 1))


@adapter("Cast", until=6)
def cast(o: Old) -> None:
    """`to` was the name of a type."""
    name = o.take("to", "")
    if name not in ir.DataType.__members__:
        raise o.refuse(f"there is no type {name!r} to cast to")
    o.put("to", ir.DataType[name].value)


@adapter("Selu", until=6)
def selu(o: Old) -> None:
    """The default constants had fewer digits."""
    o.put("alpha", o.take("alpha", 1.6732))
    o.put("gamma", o.take("gamma", 1.0507))


@adapter("LpPool", "GlobalLpPool", until=2)
def norm_order(o: Old) -> None:
    """`p` was a float."""
    p = o.take("p", 2.0)
    if p != int(p):
        raise o.refuse(f"p={p}, and opset 2 on knows integers only")
    o.put("p", int(p))


@adapter("RNN", "GRU", "LSTM", until=7)
def recurrent(o: Old) -> None:
    """`output_sequence` goes: an output that is not wanted is left out."""
    o.take("output_sequence")


@adapter("RoiAlign", until=16)
def roi_align(o: Old) -> None:
    """The half-pixel shift became an attribute, on by default; up to opset 15 there is none."""
    o.put("coordinate_transformation_mode", "output_half_pixel")


@adapter("GridSample", until=20)
def grid_sample(o: Old) -> None:
    """`mode` was renamed for more than two spatial axes."""
    mode = o.take("mode", "bilinear")
    o.put("mode", {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))
