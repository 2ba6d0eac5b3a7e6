"""Rows of a table are looked up before ids are turned or cut, so that they have the places that the ids have as fed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import is_float
from onnx_ig.graph.fused.table import Fused
from onnx_ig.graph.names import Names
from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = ["look_up_first"]


def look_up_first(model: ir.Model) -> bool:
    """Gather(table, move(ids)) becomes move(Gather(table, ids)), in place, for a Transpose or Slice of a graph input.

    The table is a matrix; its rows are a last axis that the move leaves alone. Returns whether anything was changed. Shapes
    must have been inferred.
    """
    op = Inserter(model.graph, Names(model), model.opset_imports[""])
    changed = False
    for node in list(model.graph):
        if node.domain or node.op_type != "Gather" or node.attributes.get_int("axis"):
            continue
        table, ids = node.inputs
        if table is None or ids is None or not is_float(table.dtype) or table.shape is None or len(table.shape) != 2:
            continue
        f, moves = Fused(node, op, model.opset_imports), []
        while (move := _move(ids)) is not None:
            moves.append(move)
            ids = move.inputs[0]
            assert ids is not None
        if not moves or not ids.is_graph_input():
            continue
        rows = op.Gather(table, ids, axis=0)
        for move in reversed(moves):
            rows = _moved(op, move, rows)
        f.replace(rows)
        changed = True
    return changed


def _move(value: ir.Value) -> ir.Node | None:
    """The Transpose or Slice that gave `value`, where it can be done to values with one more axis.

    What else is read of a value that is cut may be ids of other tables, and out of the range of this one.
    """
    node = value.producer()
    if node is None or node.domain or node.op_type not in ("Transpose", "Slice") or node.inputs[0] is None:
        return None
    if node.inputs[0].shape is None or not len(node.inputs[0].shape):
        return None
    if node.op_type == "Slice" and any(u.node is not node and u.node.op_type != "Shape" for u in node.inputs[0].uses()):
        return None
    axes = node.inputs[3] if node.op_type == "Slice" and len(node.inputs) > 3 else None
    return node if axes is None or axes.const_value is not None else None


def _moved(op: Inserter, move: ir.Node, rows: ir.Value) -> ir.Value:
    x = move.inputs[0]
    assert x is not None
    assert x.shape is not None
    rank = len(x.shape)
    if move.op_type == "Transpose":
        perm = move.attributes.get_ints("perm", None)
        return op.Transpose(rows, perm=[*(range(rank - 1, -1, -1) if perm is None else perm), rank])
    starts, ends, axes, steps = (*move.inputs[1:], None, None)[:4]
    first = axes
    if axes is not None:
        assert axes.const_value is not None
        first = op.constant(np.asarray([int(a) % rank for a in axes.const_value.numpy()], np.int64))
    return op.Slice(rows, starts, ends, first, steps)
