"""Pools whose ceil_mode shape inference counts one window too many for."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["settle_ceiling"]

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def settle_ceiling(model: ir.Model) -> bool:
    """Write out, as end pads, the ceil_mode of the first pool that would start a window in its end pads.

    The operators and runtimes leave such a window out (ONNX AveragePool-19, MaxPool-22), onnx's shape inference counts
    it, and every shape behind it is wrong. Lengths must be known numbers for that to happen. Returns whether there was
    such a pool: shapes must be inferred anew then, and the next one looked for.
    """
    for graph in model.graphs():
        for node in graph:
            if node.domain in ("", "ai.onnx") and node.op_type in _POOLS and _settle(node):
                return True
    return False


def _settle(node: ir.Node) -> bool:
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
