"""Normalisations with scale and bias. Notation: m mean, v variance, r = 1/sqrt(v + epsilon), xhat = (x - m)*r.

Statistics run over the axes that each operator names. For y = xhat*scale + bias with g = gy*scale

    gx = r*(g - mean(g) - xhat*mean(g*xhat)),   gscale = sum(gy*xhat),   gbias = sum(gy)

(Ioffe & Szegedy 2015, section 3). float16 statistics and sums run in float32, as the standard asks of the forward.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.axes import Axes, channels, count, narrow, others, per_channel, trailing, widen
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("BatchNormalization")
def batch_normalization(
    c: Context, gy: ir.Value | None, gmean: ir.Value | None = None, gvariance: ir.Value | None = None
) -> Values:
    """At inference m and v are operands; in training mode they are those of the batch. x [N, C, ...], the rest [C].

    Inference: gx = gy*scale*r, gm = -scale*r*sum(gy), gv = -scale*r^3/2*sum(gy*(x - m)).
    Training: as above over all axes but 1; the running statistics are momentum*old + (1 - momentum)*batch, so their
    cotangents also reach x. Source: ONNX BatchNormalization-15.
    """
    if c.attr("training_mode", 0):
        return _batch_training(c, gy, gmean, gvariance)
    if gy is None:
        return (None,) * 5
    x = widen(c, c.operand(0))
    scale, mean, variance = (narrow(c, c.operand(i), x) for i in (1, 3, 4))
    r = _inverse_deviation(c, variance)
    factor = c.op.Mul(scale, r)
    gx = c.op.Mul(gy, per_channel(c, narrow(c, factor, gy), c.operand(0))) if c.wants(0) else None
    wide = widen(c, gy)
    gscale = gbias = gmean = gvariance = None
    if c.wants(1) or c.wants(4):
        centred = c.op.Sub(x, per_channel(c, mean, c.operand(0)))
        moment = channels(c, c.op.Mul(wide, centred), c.operand(0), scale)
        gscale = narrow(c, c.op.Mul(moment, r), c.operand(1))
        curvature = c.op.Mul(c.op.Mul(factor, -0.5), c.op.Mul(r, r))
        gvariance = narrow(c, c.op.Mul(moment, curvature), c.operand(4))
    if c.wants(2) or c.wants(3):
        total = channels(c, wide, c.operand(0), scale)
        gbias = narrow(c, total, c.operand(2))
        gmean = narrow(c, c.op.Neg(c.op.Mul(total, factor)), c.operand(3))
    return gx, gscale, gbias, gmean, gvariance


def _batch_training(c: Context, gy: ir.Value | None, gmean: ir.Value | None, gvariance: ir.Value | None) -> Values:
    operand, scale = c.operand(0), c.operand(1)
    x, axes = widen(c, operand), others(c, operand)
    mean, centred = _centred(c, x, axes)
    r = _inverse_deviation(c, _mean(c, c.op.Mul(centred, centred), axes))
    parts: list[ir.Value] = []
    gscale = gbias = None
    if gy is not None:
        wide = widen(c, gy)
        g = c.op.Mul(wide, per_channel(c, narrow(c, scale, x), operand))
        parts.append(_through_statistics(c, g, centred, r, axes))
        if c.wants(1):
            gscale = channels(c, c.op.Mul(wide, c.op.Mul(centred, r)), operand, scale)
        if c.wants(2):
            gbias = channels(c, wide, operand, c.operand(2))
    momentum = c.attr("momentum", 0.9)
    if gmean is not None:
        share = c.op.Div(c.op.Mul(narrow(c, gmean, x), 1 - momentum), count(c, operand, axes, mean, c.dtype(x)))
        parts.append(c.op.Expand(per_channel(c, share, operand), c.op.Shape(x)))
    if gvariance is not None:
        share = c.op.Mul(narrow(c, gvariance, x), 2 * (1 - momentum))
        share = c.op.Div(share, count(c, operand, axes, mean, c.dtype(x)))
        parts.append(c.op.Mul(centred, per_channel(c, share, operand)))
    gx = parts[0] if parts else None
    for part in parts[1:]:
        gx = c.op.Add(gx, part)
    return (
        None if gx is None else narrow(c, gx, operand),
        gscale,
        gbias,
        None if gmean is None else c.op.Mul(gmean, momentum),
        None if gvariance is None else c.op.Mul(gvariance, momentum),
    )


@gradient("LayerNormalization")
def layer_normalization(
    c: Context, gy: ir.Value | None, gmean: ir.Value | None = None, gr: ir.Value | None = None
) -> Values:
    """Statistics over the axes from `axis` on; outputs y, m and r.

    From m: gm/n. From r: -gr*r^3*(x - m)/n, n elements normalised together. Source: ONNX LayerNormalization-17.
    The forward's own m and r are used where the runtime gives them: a node with three outputs is also not fused with
    the residual sum before it, which on ONNX Runtime's CPU is slower than the two apart.
    """
    operand, scale, bias = c.operand(0), c.operand(1), c.input(2)
    x, axes = widen(c, operand), trailing(c, operand, c.attr("axis", -1))
    stored = c.lowering.layer_norm == "statistics" and c.attr("stash_type", 1) == 1
    if stored and x.dtype == ir.DataType.FLOAT:
        mean, r = (c.ask_output(i, ir.DataType.FLOAT) for i in (1, 2))
        centred = c.op.Sub(x, mean)
    else:
        mean, centred = _centred(c, x, axes)
        r = _inverse_deviation(c, _mean(c, c.op.Mul(centred, centred), axes))
    gx = gscale = gbias = None
    if gy is not None:
        wide = widen(c, gy)
        if c.wants(0):
            gx = _through_statistics(c, c.op.Mul(wide, narrow(c, scale, x)), centred, r, axes)
        if c.wants(1):
            gscale = c.sum_to(c.op.Mul(wide, c.op.Mul(centred, r)), operand.shape, scale)
        if bias is not None and c.wants(2):
            gbias = narrow(c, c.sum_to(wide, operand.shape, bias), bias)
    if gmean is not None:
        part = c.op.Div(narrow(c, gmean, x), count(c, operand, axes, mean, c.dtype(x)))
        part = c.op.Expand(part, c.op.Shape(x))
        gx = part if gx is None else c.op.Add(gx, part)
    if gr is not None:
        slope = c.op.Mul(c.op.Mul(narrow(c, gr, x), r), c.op.Mul(r, r))
        slope = c.op.Div(slope, count(c, operand, axes, mean, c.dtype(x)))
        part = c.op.Neg(c.op.Mul(centred, slope))
        gx = part if gx is None else c.op.Add(gx, part)
    given = (
        None if gx is None else narrow(c, gx, operand),
        None if gscale is None else narrow(c, gscale, scale),
        gbias,
    )
    return given[: len(c.inputs)]


@gradient("InstanceNormalization")
def instance_normalization(c: Context, gy: ir.Value) -> Values:
    """Statistics over the spatial axes of x [N, C, ...]; scale, bias [C]. Source: ONNX InstanceNormalization-22."""
    operand, scale = c.operand(0), c.operand(1)
    x, wide, axes = widen(c, operand), widen(c, gy), trailing(c, operand, 2)
    _, centred = _centred(c, x, axes)
    r = _inverse_deviation(c, _mean(c, c.op.Mul(centred, centred), axes))
    g = c.op.Mul(wide, per_channel(c, narrow(c, scale, x), operand))
    return (
        narrow(c, _through_statistics(c, g, centred, r, axes), operand) if c.wants(0) else None,
        channels(c, c.op.Mul(wide, c.op.Mul(centred, r)), operand, scale) if c.wants(1) else None,
        channels(c, wide, operand, c.operand(2)) if c.wants(2) else None,
    )


@gradient("GroupNormalization")
def group_normalization(c: Context, gy: ir.Value) -> Values:
    """Statistics over groups of C/num_groups channels of x [N, C, ...].

    Scale and bias are [num_groups] up to opset 20 and [C] from 21 on. Source: ONNX GroupNormalization-18 and -21.
    """
    operand, scale, bias = c.operand(0), c.operand(1), c.operand(2)
    x, wide, by_channel = widen(c, operand), widen(c, gy), c.op.opset >= 21
    shape = _group_shape(c, operand)
    _, centred = _centred(c, c.op.Reshape(x, shape), [2])
    r = _inverse_deviation(c, _mean(c, c.op.Mul(centred, centred), [2]))
    weights = narrow(c, scale, x)
    if by_channel:
        g = c.op.Reshape(c.op.Mul(wide, per_channel(c, weights, operand)), shape)
    else:
        grouped = c.op.Reshape(wide, shape)
        g = c.op.Mul(grouped, c.op.Unsqueeze(weights, [1]))
    gx = gscale = gbias = None
    if c.wants(0):
        gx = narrow(c, c.reshape_like(_through_statistics(c, g, centred, r, [2]), operand), operand)
    if c.wants(1) and by_channel:
        xhat = c.reshape_like(c.op.Mul(centred, r), operand)
        gscale = channels(c, c.op.Mul(wide, xhat), operand, scale)
    elif c.wants(1):
        xhat = c.op.Mul(centred, r)
        gscale = narrow(c, c.op.ReduceSum(c.op.Mul(grouped, xhat), [0, 2], keepdims=0), scale)
    if c.wants(2) and by_channel:
        gbias = channels(c, wide, operand, bias)
    elif c.wants(2):
        gbias = narrow(c, c.op.ReduceSum(grouped, [0, 2], keepdims=0), bias)
    return gx, gscale, gbias


@gradient("RMSNormalization")
def rms_normalization(c: Context, gy: ir.Value) -> Values:
    """y = x*r*scale with r = 1/sqrt(mean(x^2) + epsilon) over the axes from `axis` on, g = gy*scale:

    gx = r*(g - x*r^2*mean(g*x)). Source: ONNX RMSNormalization-23; Zhang & Sennrich 2019.
    """
    operand, scale = c.operand(0), c.operand(1)
    x, axes = widen(c, operand), trailing(c, operand, c.attr("axis", -1))
    wide = narrow(c, gy, x)
    r = _inverse_deviation(c, _mean(c, c.op.Mul(x, x), axes), 1e-5)
    gx = gscale = None
    if c.wants(0):
        g = c.op.Mul(wide, narrow(c, scale, x))
        gx = narrow(c, c.op.Mul(c.op.Sub(g, _projection(c, g, x, r, axes)), r), operand)
    if c.wants(1):
        gscale = narrow(c, c.sum_to(c.op.Mul(wide, c.op.Mul(x, r)), operand.shape, scale), scale)
    return gx, gscale


def _mean(c: Context, v: ir.Value, axes: Axes) -> ir.Value:
    return c.op.ReduceMean(v, axes, keepdims=1, noop_with_empty_axes=1)


def _centred(c: Context, x: ir.Value, axes: Axes) -> tuple[ir.Value, ir.Value]:
    """The mean, and x without it."""
    mean = _mean(c, x, axes)
    return mean, c.op.Sub(x, mean)


def _inverse_deviation(c: Context, variance: ir.Value, default: float = 1e-5) -> ir.Value:
    return c.op.Reciprocal(c.op.Sqrt(c.op.Add(variance, c.attr("epsilon", default))))


def _projection(c: Context, g: ir.Value, centred: ir.Value, r: ir.Value, axes: Axes) -> ir.Value:
    """xhat*mean(g*xhat); multiplied so that r^2, which may leave the range of float32, never stands alone."""
    moment = _mean(c, c.op.Mul(g, centred), axes)
    return c.op.Mul(centred, c.op.Mul(c.op.Mul(moment, r), r))


def _through_statistics(c: Context, g: ir.Value, centred: ir.Value, r: ir.Value, axes: Axes) -> ir.Value:
    """r*(g - xhat*mean(g*xhat) - mean(g))."""
    rest = c.op.Sub(g, _projection(c, g, centred, r, axes))
    return c.op.Mul(c.op.Sub(rest, _mean(c, g, axes)), r)


def _group_shape(c: Context, x: ir.Value) -> list[int] | ir.Value:
    """[N, groups, elements of a group]."""
    groups: int = c.attr("num_groups")
    if x.shape is not None and all(isinstance(d, int) for d in x.shape[1:]):
        elements = 1
        for d in x.shape[1:]:
            elements *= int(d)  # type: ignore[arg-type]
        return [-1, groups, elements // groups]
    rest = c.op.ReduceProd(c.op.Shape(x, start=1), [0], keepdims=1)
    return c.op.Concat(c.size(x, 0), [groups], c.op.Div(rest, groups), axis=0)
