"""Operators that work entry by entry, with broadcasting."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.places import placed
from onnx_ig.graph.batch.states import Index, Mixes, State, batch_rule
from onnx_ig.graph.sizes import ENTRY_BY_ENTRY


@batch_rule(*ENTRY_BY_ENTRY)
@batch_rule("BiasAdd", "BiasGelu", "FastGelu", "Gelu", "QuickGelu", domain="com.microsoft")
@batch_rule("LabelEncoder", "CategoryMapper", "Binarizer", domain="ai.onnx.ml")
def entry_by_entry(a: Analysis, node: ir.Node) -> State:
    """Broadcasting aligns the last axes; the rows' axes must meet, and free operands be the same for all rows."""
    if any(isinstance(a.state(v), Index) for v in node.inputs):
        return placed(a, node)
    return a.broadcast(node.inputs)


@batch_rule("Cast", "Identity")
def unchanged(a: Analysis, node: ir.Node) -> State:
    """The entries stay what and where they are."""
    return a.state(node.inputs[0])


@batch_rule("CastLike")
def cast_like(a: Analysis, node: ir.Node) -> State:
    """Of the second operand only the type matters."""
    return a.state(node.inputs[0])


@batch_rule("Dropout")
def dropout(a: Analysis, node: ir.Node) -> State:
    """Passes its operand on unless it trains."""
    mode = a.constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if len(node.inputs) > 2 and node.inputs[2] is not None and (mode is None or mode.any()):
        raise Mixes("may draw random numbers (training_mode)")
    return a.rows_of(node.inputs[0])


@batch_rule("QuantizeLinear", "DequantizeLinear")
@batch_rule("QuantizeLinear", "DequantizeLinear", domain="com.microsoft")
def quantized(a: Analysis, node: ir.Node) -> State:
    """Scale and zero point are one number, or one for each entry of another axis."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    scale = node.inputs[1]
    assert scale is not None
    if a.rank(scale) == 0 or a.dims(scale)[0].known == 1:
        return state
    axis = node.attributes.get_int("axis", 1)
    if axis == state.axis or (axis < 0 and axis + a.rank(node.inputs[0]) == state.axis):  # type: ignore[arg-type]
        raise Mixes("has a scale for every row")
    return state


@batch_rule("QLinearAdd", "QLinearMul", domain="com.microsoft")
def quantized_pair(a: Analysis, node: ir.Node) -> State:
    """Two quantised operands with a scale and a zero point each."""
    scales = [v for i, v in enumerate(node.inputs) if i not in (0, 3)]
    if not a.free(*scales):
        raise Mixes("takes a scale from the rows")
    return a.broadcast([node.inputs[0], node.inputs[3]])


@batch_rule("QLinearSigmoid", "QLinearLeakyRelu", domain="com.microsoft")
def quantized_one(a: Analysis, node: ir.Node) -> State:
    """One quantised operand with scales."""
    return a.rows_of(node.inputs[0], *node.inputs[1:])
