"""Rows of tables as floats where they are picked: attributions of tokens start there.

Two habits of exporters move them away. Quantisers leave a table in integers and dequantise behind what moves the rows
about, perhaps several times; PyTorch writes EmbeddingBag as a Loop that picks the rows of each bag inside.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import is_float
from onnx_ig.graph.lookups import STORED
from onnx_ig.graph.names import Names
from onnx_ig.graph.subgraphs import subgraphs
from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = ["pick_rows_as_floats"]

_MOVES = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Expand", "Slice"})


def pick_rows_as_floats(model: ir.Model) -> bool:
    """Dequantise rows of tables before they are moved, and pick the rows of bags outside loops; in place.

    Rows that only products of integers read become floats and integers again, so that there are floats to start from.
    The results are the same to the bit. Types and shapes must have been inferred; returns whether anything was changed.
    """
    names = Names(model)
    changed = False
    for node in list(model.graph):
        if _is_quantised_lookup(node):
            changed = _dequantised_first(model, node, names) or changed
            changed = _floats_on_the_way(model, node, names) or changed
        for body in subgraphs(node):
            for inner in list(body):
                if _picks_a_slice(inner, model.graph):
                    _pick_outside(model, node, inner, names)
                    changed = True
    return changed


def _is_quantised_lookup(node: ir.Node) -> bool:
    table = node.inputs[0] if node.inputs else None
    return node.op_type == "Gather" and table is not None and table.is_initializer() and table.dtype in STORED


def _dequantised_first(model: ir.Model, lookup: ir.Node, names: Names) -> bool:
    """Move every DequantizeLinear with one scale behind what only moves the rows to right behind the lookup."""
    op = Inserter(model.graph, names, model.opset_imports[""])
    changed = False
    for chain in list(_chains(lookup.outputs[0])):
        moves, last = chain[:-1], chain[-1]
        scale = last.inputs[1]
        if not moves or scale is None or scale.shape is None or list(scale.shape) not in ([], [1]):
            continue
        if not scale.is_initializer():
            continue
        op.before = last
        value = _there_already(lookup, last)
        if value is None:
            value = op.node("DequantizeLinear", (lookup.outputs[0], *last.inputs[1:]), {})
        for node in moves:
            copy = ir.Node(
                node.domain, node.op_type, [value, *node.inputs[1:]], list(node.attributes.values()),
                name=op.node_name(node.op_type), num_outputs=1,
            )  # fmt: skip
            copy.outputs[0].name = names.numbered("ig")
            op.place(copy)
            value = copy.outputs[0]
        _stand_in(value, last)
        changed = True
    return changed


def _floats_on_the_way(model: ir.Model, lookup: ir.Node, names: Names) -> bool:
    """Put DequantizeLinear and QuantizeLinear between a lookup and the products of integers that read its rows.

    Rounding gives back what was there. The scale is 1 unless the model itself has one: what is attributed to a row, its
    value times its gradient, does not depend on it.
    """
    rows = lookup.outputs[0]
    readers = list(_products(rows))
    zeros = {node.inputs[2] if len(node.inputs) > 2 else None for node in readers}
    if len(zeros) != 1 or any(use.node.graph is not model.graph for use in rows.uses()):
        return False
    (zero,) = zeros
    present = [n for n, i in rows.uses() if n.op_type == "DequantizeLinear" and i == 0]
    op = Inserter(model.graph, names, model.opset_imports[""])
    others = [(use.node, use.idx) for use in rows.uses() if use.node not in present]
    op.before = next(n for n in model.graph if n is not lookup and (n in present or any(n is m for m, _ in others)))
    like = next((n for n in present if n.inputs[1] is not None and n.inputs[1].is_initializer()), None)
    scale = op.constant(np.ones((), np.float32)) if like is None else like.inputs[1]
    floats = op.DequantizeLinear(rows, scale, zero) if like is None else _there_already(lookup, like)
    back = op.QuantizeLinear(floats, scale, zero)
    for node, index in others:
        node.replace_input_with(index, back)
    return True


def _products(value: ir.Value) -> Iterator[ir.Node]:
    """Products of integers that read `value`, as it is or moved about."""
    for node, index in value.uses():
        if index == 0 and node.op_type in ("MatMulInteger", "ConvInteger"):
            yield node
        elif index == 0 and node.op_type in _MOVES:
            yield from _products(node.outputs[0])


def _there_already(lookup: ir.Node, like: ir.Node) -> ir.Value | None:
    """The rows as floats where the model has them, by the same scale and zero point, made right behind the lookup."""
    for node, index in lookup.outputs[0].uses():
        if node.op_type == "DequantizeLinear" and index == 0 and list(node.inputs[1:]) == list(like.inputs[1:]):
            graph = lookup.graph
            assert isinstance(graph, ir.Graph)
            graph.remove(node)
            graph.insert_after(lookup, node)
            return node.outputs[0]
    return None


def _chains(value: ir.Value) -> Iterator[list[ir.Node]]:
    """Nodes that move `value` about, with the DequantizeLinear behind them at the end of each list."""
    for node, index in value.uses():
        if index != 0:
            continue
        if node.op_type == "DequantizeLinear":
            yield [node]
        elif node.op_type in _MOVES:
            for rest in _chains(node.outputs[0]):
                yield [node, *rest]


def _stand_in(value: ir.Value, node: ir.Node) -> None:
    old, graph = node.outputs[0], node.graph
    assert isinstance(graph, ir.Graph)
    value.type, value.shape = old.type, old.shape
    name, old.name = old.name, None
    value.name = name
    old.replace_all_uses_with(value, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _picks_a_slice(node: ir.Node, main: ir.Graph) -> bool:
    """Whether a node of a body picks rows of a stored table of floats by a stretch of ids of the main graph."""
    if node.op_type != "Gather" or node.domain != "" or node.attributes.get_int("axis", 0) != 0:
        return False
    table, cut = node.inputs[0], node.inputs[1].producer() if node.inputs[1] is not None else None
    if table is None or table.const_value is None or not is_float(table.dtype):
        return False
    if cut is None or cut.op_type != "Slice" or cut.graph is not node.graph or len(cut.inputs) < 4:
        return False
    whole, axes = cut.inputs[0], cut.inputs[3]
    along = None if axes is None or axes.const_value is None else axes.const_value.numpy().tolist()
    return whole is not None and whole.graph is main and along == [0]


def _pick_outside(model: ir.Model, owner: ir.Node, node: ir.Node, names: Names) -> None:
    """Gather(table, ids[a:b]) in a body becomes Gather(table, ids) ahead of its owner and its rows [a:b] inside."""
    body, table, cut = node.graph, node.inputs[0], node.inputs[1].producer()  # type: ignore[union-attr]
    assert isinstance(body, ir.Graph)
    assert table is not None
    assert cut is not None
    op = Inserter(model.graph, names, model.opset_imports[""])
    op.before = owner
    if table.graph is not model.graph:
        assert table.const_value is not None
        table = op.constant(table.const_value)
    rows = op.Gather(table, cut.inputs[0])
    inner = Inserter(body, names, model.opset_imports[""])
    inner.before = node
    _stand_in(inner.node("Slice", (rows, *cut.inputs[1:]), {}), node)
