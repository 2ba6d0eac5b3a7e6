"""What used to be an attribute and became an operand."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.upgrade.adapter import Old, adapter


@adapter(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
    until=18,
)
@adapter("ReduceSum", "Squeeze", "Unsqueeze", until=13)
def axes(o: Old) -> None:
    """`axes`; an empty list means every axis, as leaving it out does."""
    values = o.take("axes")
    if values:
        o.put_operand(1, values)


@adapter("Split", until=2)
def split_operand(o: Old) -> None:
    """Split-1: the optional operand `split` has the type of the data."""
    sizes = o.operand(1)
    if sizes is not None:
        o.put_operand(1, o.op.Cast(sizes, to=ir.DataType.INT64.value))


@adapter("Split", until=13)
def split_sizes(o: Old) -> None:
    """`split`."""
    sizes = o.take("split")
    if sizes:
        o.put_operand(1, sizes)


@adapter("Split", until=18)
def split_count(o: Old) -> None:
    """Without sizes, opset 18 wants the number of parts said."""
    if o.operand(1) is None:
        o.node.resize_inputs(1)
        o.put("num_outputs", len(o.node.outputs))


@adapter("Slice", until=10)
def slice_(o: Old) -> None:
    """`starts`, `ends`, `axes`."""
    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        values = o.take(name)
        if values is not None:
            o.put_operand(index, values)


@adapter("Pad", until=2)
def pad_renamed(o: Old) -> None:
    """Pad-1 called `pads` `paddings`."""
    o.put("pads", o.take("paddings"))


@adapter("Pad", until=11)
def pad(o: Old) -> None:
    """`pads`, `value`."""
    o.put_operand(1, o.take("pads"))
    value = o.take("value", 0.0)
    if value:
        o.put_operand(2, o.like(value, o.x))


@adapter("Clip", until=11)
def clip(o: Old) -> None:
    """`min`, `max`. Their defaults, the extremes of float32, bind nothing but infinities: kept, as -inf may follow."""
    limit = float(np.finfo(np.float32).max)
    for index, (name, default) in enumerate((("min", -limit), ("max", limit)), start=1):
        o.put_operand(index, o.like(o.take(name, default), o.x))


@adapter("TopK", until=10)
def top_k(o: Old) -> None:
    """`k`."""
    o.put_operand(1, [o.take("k")])


@adapter("Reshape", until=5)
def reshape(o: Old) -> None:
    """`shape`."""
    o.put_operand(1, o.take("shape", []))


@adapter("Tile", until=6)
def tile(o: Old) -> None:
    """Tile-1 repeats one axis: scalars `tiles` and `axis`, of the data's type."""
    op, (tiles, axis) = o.op, (o.operand(1), o.operand(2))
    if tiles is None or axis is None:
        raise o.refuse("its operands tiles and axis are required")
    tiles, axis = (op.Reshape(op.Cast(v, to=ir.DataType.INT64.value), [1]) for v in (tiles, axis))
    ones = op.Expand([1], op.Shape(op.Shape(o.x)))
    o.put_operand(1, op.ScatterElements(ones, axis, tiles, axis=0))
    o.node.resize_inputs(2)


@adapter("DFT", until=20)
def dft(o: Old) -> None:
    """`axis`, whose default changed too: 1 up to opset 19, -2 since."""
    o.put_operand(2, np.asarray(o.take("axis", 1), np.int64))


@adapter("Dropout", until=12)
def dropout(o: Old) -> None:
    """`ratio` and `is_test` go: without `training_mode`, Dropout-12 passes its operand on, as runtimes always did.

    The mask was false everywhere in ONNX Runtime, and of the data's type up to opset 9; since opset 12 it is true.
    """
    o.take("ratio")
    o.take("is_test")
    if o.used_output(1):
        shape = o.op.Shape(o.x)
        if o.opset < 10:
            mask = o.op.CastLike(o.op.ConstantOfShape(shape), o.x)
        else:
            mask = o.op.ConstantOfShape(shape, value=ir.tensor(np.zeros(1, np.bool_)))
        o.replace(o.op.Identity(o.x), mask)
    elif len(o.node.outputs) > 1:
        o.node.resize_outputs(1)
