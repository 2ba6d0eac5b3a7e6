"""Bringing a model to the one form that rules are written for.

Old opsets are brought up, functions inlined, constants become initializers, nodes are in order, every value has a type
and a shape as far as inference can tell. The prepared model computes what the original does.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
from onnx_ir.passes.common import (
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
    TopologicalSortPass,
)

from onnx_ig.errors import ModelError
from onnx_ig.graph.bodies import declare_bodies, own_constants
from onnx_ig.graph.branches import settle_branches
from onnx_ig.graph.constants import settle_constants
from onnx_ig.graph.expand import expand
from onnx_ig.graph.fused import unfuse
from onnx_ig.graph.inline import inline
from onnx_ig.graph.invariants import read_invariants_outside
from onnx_ig.graph.layouts import put_time_first
from onnx_ig.graph.lookups_first import look_up_first
from onnx_ig.graph.names import make_unique
from onnx_ig.graph.rows import pick_rows_as_floats
from onnx_ig.graph.sequences import resolve_sequences
from onnx_ig.graph.settle import settle
from onnx_ig.graph.states import declare_states
from onnx_ig.graph.subgraphs import lift_weights
from onnx_ig.graph.types import infer
from onnx_ig.graph.upgrade import upgrade

__all__ = ["DEFAULTS", "infer", "prepare"]

DEFAULTS = "onnx_ig.defaults"
"""Key of a graph's `meta`: its inputs that had a value in the file, as every weight has before IR version 4."""


def prepare(model: ir.Model, keep: Callable[[str, str], bool] | None = None) -> ir.Model:
    """Prepare `model` in place and return it.

    Inputs that have a value in the file, an initializer of their name, are constants from here on. Fused nodes of ONNX
    Runtime and of scikit-learn's exporters are written out. With `keep(domain, operator)`, operators for which it is
    false are expanded into their parts where the standard says what these are.

    Raises ModelError where its opset is not supported or a function cannot be inlined.
    """
    values = model.graph.initializers
    model.graph.meta[DEFAULTS] = [v.name for v in model.graph.inputs if v.name in values] or model.graph.meta.get(
        DEFAULTS, []
    )
    _flatten(model)
    put_time_first(model)
    lift_weights(model)
    model.ir_version = max(model.ir_version or 10, 10)
    infer(model)
    while settle_constants(model) | settle_branches(model):
        infer(model)
    while declare_bodies(model) or unfuse(model, keep) or (keep is not None and expand(model, keep)):
        _flatten(model)
        infer(model)
    if look_up_first(model):
        _flatten(model)
        infer(model)
    if pick_rows_as_floats(model):
        infer(model)
    declare_states(model)
    while resolve_sequences(model) or settle(model):
        infer(model)
        declare_states(model)
    if settle_constants(model):
        infer(model)
    return model


def _flatten(model: ir.Model) -> None:
    """Functions inlined, constants made initializers, one opset, names that are unique."""
    inline(model)
    try:
        TopologicalSortPass()(model)
        RemoveInitializersFromInputsPass()(model)
        make_unique(model)
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    except Exception as error:
        raise ModelError(f"the model cannot be prepared: {error}") from error
    upgrade(model)
    read_invariants_outside(model)
    own_constants(model)
    make_unique(model)
