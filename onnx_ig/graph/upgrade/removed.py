"""Operators that are no longer in the standard, in terms of those that are.

The experimental ones of opset 1 are known from Caffe2 and WinML exports; ONNX Runtime runs them up to opset 9.
"""

from __future__ import annotations

import numpy as np

from onnx_ig.graph.upgrade.adapter import FOREVER, Old, adapter

_END = np.iinfo(np.int64).max


@adapter("Scatter", until=FOREVER)
def scatter(o: Old) -> None:
    """Renamed in opset 11."""
    o.node.op_type = "ScatterElements"


@adapter("DynamicSlice", until=FOREVER)
def dynamic_slice(o: Old) -> None:
    """What Slice is since opset 10."""
    o.node.op_type = "Slice"


@adapter("Affine", until=FOREVER)
def affine(o: Old) -> None:
    """alpha * x + beta."""
    alpha, beta = o.take("alpha", 1.0), o.take("beta", 0.0)
    o.replace(o.op.Add(o.op.Mul(o.x, o.like(alpha, o.x)), o.like(beta, o.x)))


@adapter("Scale", until=FOREVER)
def scale(o: Old) -> None:
    """scale * x."""
    o.replace(o.op.Mul(o.x, o.like(o.take("scale", 1.0), o.x)))


@adapter("ScaledTanh", until=FOREVER)
def scaled_tanh(o: Old) -> None:
    """alpha * tanh(beta * x)."""
    alpha, beta = o.take("alpha", 1.0), o.take("beta", 1.0)
    o.replace(o.op.Mul(o.op.Tanh(o.op.Mul(o.x, o.like(beta, o.x))), o.like(alpha, o.x)))


@adapter("ParametricSoftplus", until=FOREVER)
def parametric_softplus(o: Old) -> None:
    """alpha * log(1 + exp(beta * x))."""
    alpha, beta = o.take("alpha", 1.0), o.take("beta", 1.0)
    o.replace(o.op.Mul(o.op.Softplus(o.op.Mul(o.x, o.like(beta, o.x))), o.like(alpha, o.x)))


@adapter("ImageScaler", until=FOREVER)
def image_scaler(o: Old) -> None:
    """scale * x + bias, the bias a number for each channel of [N, C, H, W]."""
    factor, bias = o.take("scale", 1.0), o.take("bias", [])
    y = o.op.Mul(o.x, o.like(factor, o.x))
    if bias:
        column = o.op.constant(np.asarray(bias, np.float32).reshape(-1, 1, 1))
        y = o.op.Add(y, o.op.CastLike(column, o.x))
    o.replace(y)


@adapter("Crop", until=FOREVER)
def crop(o: Old) -> None:
    """Cuts `border` [left, top, right, bottom] off [N, C, H, W], or `scale` [height, width] out behind left and top."""
    left, top, right, bottom = o.take("border", [0, 0, 0, 0])
    size = o.take("scale")
    ends = [top + size[0], left + size[1]] if size else [-bottom or _END, -right or _END]
    o.replace(o.op.Slice(o.x, [top, left], ends, [2, 3]))
