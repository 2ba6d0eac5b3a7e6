"""Classification losses. x [N, C, d1, ...] scores or log-probabilities, target [N, d1, ...] class indices, weight [C]."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from onnx_ig.rules.axes import channels, narrow, per_channel, widen
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(c: Context, gy: ir.Value) -> Values:
    """l = -w[t]*x[t], then none, sum, or mean = sum(l)/sum(w[t]); entries with t = ignore_index count for nothing.

    gx = -gy*w[t] at class t; gw_c = -sum(gy*x) over the entries with t = c, for the mean -sum(gy*(x + y))/sum(w[t]).
    Source: ONNX NegativeLogLikelihoodLoss-22.
    """
    x = widen(c, c.operand(0))
    loss = _Loss.of(c, gy, x)
    gx = narrow(c, loss.gradient, c.operand(0))
    return (gx, None, _weight_gradient(c, loss, x))[: len(c.inputs)]


@gradient("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(c: Context, gy: ir.Value | None, glog: ir.Value | None = None) -> Values:
    """The loss above of p = log_softmax(x) over axis 1, which is the second output.

    gx = gp - exp(p)*sum_axis1(gp), gp what comes from the loss and from p itself.
    Source: ONNX SoftmaxCrossEntropyLoss-13.
    """
    scores = c.operand(0)
    p = widen(c, c.outputs[1]) if c.has_output(1) else c.op.LogSoftmax(widen(c, scores), axis=1)
    loss = None if gy is None else _Loss.of(c, gy, p)
    gp = None if glog is None else widen(c, glog)
    if loss is not None:
        gp = loss.gradient if gp is None else c.op.Add(loss.gradient, gp)
    gx = None
    if gp is not None:
        total = c.op.ReduceSum(gp, [1], keepdims=1)
        gx = narrow(c, c.op.Sub(gp, c.op.Mul(c.op.Exp(p), total)), scores)
    return (gx, None, None if loss is None else _weight_gradient(c, loss, p))[: len(c.inputs)]


class _Loss(NamedTuple):
    """Pieces of one loss, all broadcasting to the shape of x and in float32 at least."""

    hit: ir.Value
    """Whether the class of this column is the target, and not ignored."""
    share: ir.Value
    """Cotangent of each entry's loss."""
    gradient: ir.Value
    """Cotangent of x."""

    @classmethod
    def of(cls, c: Context, gy: ir.Value, x: ir.Value) -> _Loss:
        scores, weight = c.operand(0), c.input(2)
        target = c.op.Unsqueeze(c.op.Cast(c.operand(1), to=ir.DataType.INT64.value), [1])
        number = c.op.Squeeze(c.op.Shape(scores, start=1, end=2), [0])
        hit = c.op.Equal(target, per_channel(c, c.op.Range(0, number, 1), scores))
        ignored = c.attr("ignore_index")
        if ignored is not None:
            hit = c.op.And(hit, c.op.Not(c.op.Equal(target, ignored)))
        weights = c.mask(hit, x)
        if weight is not None:
            weights = c.op.Mul(weights, per_channel(c, narrow(c, weight, x), scores))
        share = widen(c, gy)
        reduction = c.attr("reduction", "mean")
        if reduction == "none":
            share = c.op.Unsqueeze(share, [1])
        elif reduction == "mean":
            total = c.op.ReduceSum(weights, keepdims=0)
            share = c.op.Div(share, c.op.Where(c.op.Equal(total, 0.0), 1.0, total))
        return cls(hit, share, c.op.Neg(c.op.Mul(weights, share)))


def _weight_gradient(c: Context, loss: _Loss, x: ir.Value) -> ir.Value | None:
    weight = c.input(2)
    if weight is None or not c.wants(2):
        return None
    if c.attr("reduction", "mean") == "mean":
        x = c.op.Add(x, widen(c, c.output))
    terms = c.op.Mul(c.op.Where(loss.hit, x, 0.0), loss.share)
    return channels(c, c.op.Neg(terms), c.operand(0), weight)
