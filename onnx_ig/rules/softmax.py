"""Softmax, LogSoftmax and Hardmax along one axis."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import declare_zero, gradient

Values = tuple[ir.Value | None, ...]


@gradient("Softmax")
def softmax(c: Context, gy: ir.Value) -> Values:
    """gx = (gy - sum_axis(gy*y))*y; all [..., axis, ...]. Source: ONNX Softmax-13.

    A row of -inf alone (all keys masked) has y = NaN; its contribution is 0, so that a model that selects such rows
    away keeps its gradient.
    """
    y = _without_nan(c)
    total = c.op.ReduceSum(c.op.Mul(gy, y), [c.attr("axis", -1)], keepdims=1)
    return (c.op.Mul(c.op.Sub(gy, total), y),)


@gradient("LogSoftmax")
def log_softmax(c: Context, gy: ir.Value) -> Values:
    """gx = gy - exp(y)*sum_axis(gy). Rows of -inf alone count as exp(y) = 0. Source: ONNX LogSoftmax-13."""
    y = c.op.Exp(c.op.Where(c.op.IsNaN(c.output), float("-inf"), c.output))
    return (c.op.Sub(gy, c.op.Mul(y, c.op.ReduceSum(gy, [c.attr("axis", -1)], keepdims=1))),)


declare_zero("Hardmax")


def _without_nan(c: Context) -> ir.Value:
    """The output with 0 for NaN; the model's own `Where(IsNaN(y), 0, y)` where it has one (PyTorch exports it)."""
    y = c.output
    for use in y.uses():
        node = use.node
        if node.op_type != "Where" or use.idx != 2 or node.graph is not c.node.graph:
            continue
        condition, zero = node.inputs[0], c.constant(node.inputs[1])
        test = None if condition is None else condition.producer()
        if test is not None and test.op_type == "IsNaN" and test.inputs[0] is y and zero is not None and not zero.any():
            return node.outputs[0]
    return c.op.Where(c.op.IsNaN(y), 0.0, y)
