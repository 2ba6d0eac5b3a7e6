"""A function body of CausalConvWithState for any shape: the standard's own needs the number of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

__all__ = ["causal_conv_body"]

_END = np.iinfo(np.int64).max


def causal_conv_body(node: ir.Node, version: int) -> onnx.FunctionProto:
    """y = act(sum over taps t of padded[..., l + t] * w[:, 0, t] + b), `padded` the past before x; the state is its end.

    x [B, C, L], w [C, 1, k], b [C], past [B, C, k-1]; the windows [B, C, L, k] are gathered. Source: ONNX
    CausalConvWithState-27.
    """
    has_bias, has_past = (len(node.inputs) > i and node.inputs[i] is not None for i in (2, 3))
    nodes: list[onnx.NodeProto] = []

    def emit(op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, inputs, [output], **attributes))
        return output

    def constant(name: str, value: int | list[int]) -> str:
        tensor = numpy_helper.from_array(np.asarray(value, np.int64))
        nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    zero, one, last = constant("zero", 0), constant("one", 1), constant("last", [-1])
    taps, length = emit("Shape", ["w"], "taps", start=2), emit("Shape", ["x"], "length", start=2)
    past = "past"
    if not has_past:
        begin = emit("Sub", [taps, constant("one_1d", [1])], "begin")
        shape = emit("Concat", [emit("Shape", ["x"], "outer", end=2), begin], "past_shape", axis=0)
        past = emit("Expand", [emit("CastLike", [zero, "x"], "nothing"), shape], "empty_past")
    padded = emit("Concat", [past, "x"], "padded", axis=2)
    at = emit("Range", [zero, emit("Squeeze", [length], "length_0d"), one], "at")
    tap = emit("Range", [zero, emit("Squeeze", [taps], "taps_0d"), one], "tap")
    places = emit("Add", [emit("Unsqueeze", [at, last], "at_2d"), tap], "places")
    products = emit("Mul", [emit("Gather", [padded, places], "windows", axis=2), "w"], "products")
    z = emit("ReduceSum", [products, last], "sums", keepdims=0)
    if has_bias:
        z = emit("Add", [z, emit("Unsqueeze", ["b", last], "b_2d")], "biased")
    if node.attributes.get_string("activation", "none") == "none":
        emit("Identity", [z], "y")
    else:  # silu and swish are one function
        emit("Mul", [z, emit("Sigmoid", [z], "gate")], "y")
    emit("Slice", [padded, length, constant("end", [_END]), constant("two", [2])], "state")
    return helper.make_function(
        "", node.op_type, ["x", "w", "b", "past"][: len(node.inputs)], ["y", "state"][: len(node.outputs)], nodes,
        [helper.make_opsetid("", version)],
    )  # fmt: skip
