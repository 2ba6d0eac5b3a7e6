"""Nodes written out where shape inference, onnx's or a runtime's, reads them otherwise than runtimes compute them.

A wrong shape is worse than none: everything inferred behind it is wrong, and rules trust shapes.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.names import Names
from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = ["settle"]

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def settle(model: ir.Model) -> bool:
    """Write the first node out that needs it. Returns whether there was one: shapes must be inferred anew then, and the
    next one looked for.

    STFT without `onesided`: the default is 1 (ONNX STFT-17), inference takes 0.
    Pools whose ceil_mode would start a window in the end pads: the operators and runtimes leave it out (AveragePool-19,
    MaxPool-22), inference counts it. They get end pads without ceil_mode. Lengths must be known numbers for that.
    Range from tensors of one axis and one element (the standard's own body of AffineGrid): ONNX Runtime runs it, and
    does not load it where it knows the shapes.
    """
    for graph in model.graphs():
        for node in graph:
            if node.domain not in ("", "ai.onnx"):
                continue
            if node.op_type == "STFT" and "onesided" not in node.attributes:
                node.attributes["onesided"] = ir.AttrInt64("onesided", 1)
                for output in node.outputs:
                    output.shape = None
                return True
            if node.op_type in _POOLS and _settle_pool(node):
                return True
            if node.op_type == "Range" and _settle_range(node, model):
                return True
    return False


def _settle_range(node: ir.Node, model: ir.Model) -> bool:
    long = [i for i, v in enumerate(node.inputs) if v is not None and v.shape is not None and len(v.shape) == 1]
    if not long or node.graph is None:
        return False
    op = Inserter(node.graph, Names(model), model.opset_imports[""])
    op.before = node
    for index in long:
        node.replace_input_with(index, op.Squeeze(node.inputs[index]))
    return True


def _settle_pool(node: ir.Node) -> bool:
    attributes, x = node.attributes, node.inputs[0]
    if x is None or x.shape is None or not all(isinstance(d, int) for d in x.shape[2:]):
        return False
    auto_pad = attributes.get_string("auto_pad", "NOTSET")
    if attributes.get_int("ceil_mode", 0) != 1 or auto_pad not in ("NOTSET", "VALID"):
        return False
    lengths = [int(d) for d in x.shape[2:]]  # type: ignore[arg-type]
    rank = len(lengths)
    ones = [1] * rank
    kernel = attributes.get_ints("kernel_shape", ones)
    strides, dilations = attributes.get_ints("strides", ones), attributes.get_ints("dilations", ones)
    pads = list(attributes.get_ints("pads", [0] * (2 * rank)))
    if auto_pad == "VALID":
        pads = [0] * (2 * rank)
    counts, ends, wrong = [], [], False
    for i, length in enumerate(lengths):
        extent, padded = (kernel[i] - 1) * dilations[i] + 1, length + pads[i]
        count = -(-(padded + pads[i + rank] - extent) // strides[i]) + 1
        if (count - 1) * strides[i] >= padded:
            count, wrong = count - 1, True
        counts.append(count)
        ends.append(max((count - 1) * strides[i] + extent - padded, 0))
    longer = any(e > p for e, p in zip(ends, pads[rank:], strict=True))
    counted = attributes.get_int("count_include_pad", 0) == 1
    if not wrong or (longer and counted) or any(e >= k for e, k in zip(ends, kernel, strict=True)):
        return False  # longer pads would change the mean, or be longer than runtimes accept
    attributes.pop("auto_pad", None)
    attributes["ceil_mode"] = ir.AttrInt64("ceil_mode", 0)
    attributes["pads"] = ir.AttrInt64s("pads", [*pads[:rank], *ends])
    for output in node.outputs:
        if output.shape is not None:
            output.shape = ir.Shape([*x.shape[:2], *counts])
    return True
