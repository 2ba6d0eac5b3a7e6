"""What the nodes that make a value prove about its sign.

A divisor that cannot be 0 needs no guard: in a layer normalisation or a swish written out in elementary operators the
guards would be passes over whole activations.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context

__all__ = ["positive"]

_DEPTH = 8
_MOVES = frozenset({"Identity", "Reshape", "Flatten", "Transpose", "Unsqueeze", "Squeeze", "Expand", "Tile"})
_AVERAGES = frozenset({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "GlobalAveragePool", "AveragePool"})
_NEVER_NEGATIVE = frozenset(
    {"Exp", "Abs", "Relu", "Sqrt", "Sigmoid", "HardSigmoid", "Softplus", "Softmax", "ReduceL1", "ReduceL2"}
    | {"ReduceSumSquare"}
)


def positive(c: Context, value: ir.Value | None, depth: int = _DEPTH) -> bool:
    """Whether `value` is above 0 everywhere (or NaN), rounding and underflow considered: exp(x) may be 0."""
    if value is None or depth == 0:
        return False
    fixed = c.constant(value)
    if fixed is not None:
        return bool((fixed > 0).all())
    node = value.producer()
    if node is None or node.domain not in ("", "ai.onnx"):
        return False
    inputs = node.inputs
    if node.op_type in _MOVES or node.op_type == "Sqrt":
        return positive(c, inputs[0], depth - 1)
    if node.op_type in ("Add", "Sum"):
        some = any(positive(c, v, depth - 1) for v in inputs)
        return some and all(_never_negative(c, v, depth - 1) for v in inputs)
    if node.op_type == "Max":
        return any(positive(c, v, depth - 1) for v in inputs)
    if node.op_type == "Clip":
        return len(inputs) > 1 and all(positive(c, v, depth - 1) for v in inputs[1:])
    return node.op_type == "Pow" and positive(c, inputs[0], depth - 1) and c.constant(inputs[1]) == 0.5


def _never_negative(c: Context, value: ir.Value | None, depth: int) -> bool:
    if value is None or depth == 0:
        return False
    fixed = c.constant(value)
    if fixed is not None:
        return bool((fixed >= 0).all())
    node = value.producer()
    if node is None or node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in _NEVER_NEGATIVE or positive(c, value, depth):
        return True
    inputs = node.inputs
    if node.op_type in _MOVES or node.op_type in _AVERAGES:
        return _never_negative(c, inputs[0], depth - 1)
    if node.op_type == "Mul" and inputs[0] is inputs[1]:
        return True
    if node.op_type == "Pow":
        power = c.constant(inputs[1])
        return power is not None and bool((power % 2 == 0).all())
    return node.op_type in ("Add", "Sum", "Mul", "Div") and all(_never_negative(c, v, depth - 1) for v in inputs)
