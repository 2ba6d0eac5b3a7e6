"""Removing what no output needs."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

__all__ = ["remove_unused"]


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and initializers that no output needs, in place.

    onnx_ir's pass takes empty operands off the end of a node, also the condition of a Loop, which must be there.
    """
    RemoveUnusedNodesPass()(model)
    for graph in model.graphs():
        for node in graph:
            if node.domain == "" and node.op_type == "Loop" and len(node.inputs) < 2:
                node.resize_inputs(2)
