"""Normalisations of old opsets."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.upgrade.adapter import Old, adapter


@adapter("BatchNormalization", until=14)
def batch_normalization(o: Old) -> None:
    """Training was asked for by naming the outputs behind the first; since opset 14 by `training_mode`.

    `spatial=0` (up to opset 8) has a statistic for every position, [C, D1, ...]: written out.
    `is_test` (up to opset 6) says inference whatever outputs there are; with one output it never meant anything.
    """
    tested, spatial = o.take("is_test", 0), o.take("spatial", 1)
    training = not tested and any(o.named_output(i) for i in range(1, len(o.node.outputs)))
    if any(o.used_output(i) for i in ((3, 4) if training else (1, 2, 3, 4))):
        raise o.refuse("outputs that only training gives are used, and opset 14 on has none of them")
    if spatial == 0:
        if training:
            raise o.refuse("spatial=0 in training mode has no form in later opsets")
        _per_position(o)
        return
    if len(o.node.outputs) > 1:
        o.node.resize_outputs(3 if training and len(o.node.outputs) >= 3 else 1)
    if training:
        o.put("training_mode", 1)


def _per_position(o: Old) -> None:
    op, (x, scale, bias, mean, variance) = o.op, o.node.inputs
    deviation = op.Sqrt(op.Add(variance, o.like(o.take("epsilon", 1e-5), o.x)))
    o.replace(op.Add(op.Mul(op.Div(op.Sub(x, mean), deviation), scale), bias))


@adapter("GroupNormalization", until=21)
def group_normalization(o: Old) -> None:
    """Up to opset 20 scale and bias have one entry a group, from opset 21 on one a channel.

    The groups become the channels of an InstanceNormalization, [N, C, ...] -> [N, G, C/G * ...]: the same formula. In
    double, for which ONNX Runtime has no InstanceNormalization on the CPU, it is written out.
    """
    op, (x, scale, bias) = o.op, (o.x, o.operand(1), o.operand(2))
    groups, epsilon = o.take("num_groups"), o.take("epsilon", 1e-5)
    grouped = op.Reshape(x, [0, groups, -1])
    if x.dtype == ir.DataType.DOUBLE:
        centred = op.Sub(grouped, op.ReduceMean(grouped, [2], keepdims=1))
        variance = op.ReduceMean(op.Mul(centred, centred), [2], keepdims=1)
        y = op.Div(centred, op.Sqrt(op.Add(variance, o.like(epsilon, x))))
        y = op.Add(op.Mul(y, op.Unsqueeze(scale, [1])), op.Unsqueeze(bias, [1]))
    else:
        y = op.InstanceNormalization(grouped, scale, bias, epsilon=epsilon)
    o.replace(op.Reshape(y, op.Shape(x)))


@adapter("MeanVarianceNormalization", until=9)
def mean_variance_normalization(o: Old) -> None:
    """Experimental form, on [N, C, H, W]: over the positions of a channel and all samples, or the channels too.

    With `normalize_variance=0` the mean is taken off and nothing else.
    """
    axes = [0, 1, 2, 3] if o.take("across_channels", 0) else [0, 2, 3]
    if o.take("normalize_variance", 1):
        o.put("axes", axes)
    else:
        o.replace(o.op.Sub(o.x, o.op.ReduceMean(o.x, axes, keepdims=1)))
