"""Bringing a model to the one form that rules are written for.

Old opsets are brought up, functions inlined, constants become initializers, nodes are in order, every value has a type
and a shape as far as inference can tell. The prepared model computes what the original does.
"""

from __future__ import annotations

import logging

import onnx_ir as ir
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
    ShapeInferencePass,
    TopologicalSortPass,
)

from onnx_ig.errors import ModelError
from onnx_ig.graph.subgraphs import lift_weights
from onnx_ig.graph.upgrade import upgrade

__all__ = ["infer", "prepare"]

_log = logging.getLogger(__name__)


def prepare(model: ir.Model) -> ir.Model:
    """Prepare `model` in place and return it.

    Raises ModelError where its opset is not supported or a function cannot be inlined.
    """
    upgrade(model)
    try:
        InlinePass()(model)
        TopologicalSortPass()(model)
        RemoveInitializersFromInputsPass()(model)
        LiftConstantsToInitializersPass(lift_all_constants=False, size_limit=0)(model)
        lift_weights(model)
    except Exception as error:
        raise ModelError(f"the model cannot be prepared: {error}") from error
    model.ir_version = max(model.ir_version or 10, 10)
    infer(model)
    return model


def infer(model: ir.Model) -> None:
    """Infer types and shapes of all values from those of the graph inputs, on a weightless copy.

    Shapes that the file declares for intermediate values are dropped first: exporters and optimisers leave stale ones,
    and a wrong shape is worse than none. Types are kept, for operators that inference does not know.
    """
    for graph in model.graphs():
        for node in graph:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.shape = None
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
