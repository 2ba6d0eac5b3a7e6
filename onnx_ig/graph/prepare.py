"""Bringing a model to the one form that rules are written for.

Old opsets are brought up, functions inlined, constants become initializers, nodes are in order, every value has a type
and a shape as far as inference can tell. The prepared model computes what the original does.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import (
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
    TopologicalSortPass,
)

from onnx_ig.errors import ModelError
from onnx_ig.graph.inline import inline
from onnx_ig.graph.names import make_unique
from onnx_ig.graph.states import declare_states
from onnx_ig.graph.subgraphs import lift_weights
from onnx_ig.graph.types import infer
from onnx_ig.graph.upgrade import upgrade

__all__ = ["infer", "prepare"]


def prepare(model: ir.Model) -> ir.Model:
    """Prepare `model` in place and return it.

    Raises ModelError where its opset is not supported or a function cannot be inlined.
    """
    inline(model)
    try:
        TopologicalSortPass()(model)
        RemoveInitializersFromInputsPass()(model)
        make_unique(model)
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    except Exception as error:
        raise ModelError(f"the model cannot be prepared: {error}") from error
    upgrade(model)
    make_unique(model)
    lift_weights(model)
    model.ir_version = max(model.ir_version or 10, 10)
    infer(model)
    declare_states(model)
    return model
