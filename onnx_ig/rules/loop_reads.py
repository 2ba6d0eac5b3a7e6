"""Rows that a Loop reads from an outer value, one an iteration: their cotangents are put back once, behind the loop."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ig.rules.context import Context

__all__ = ["RowRead", "put_back", "row_reads"]


@dataclass(frozen=True)
class RowRead:
    """`row` = Gather(`value`, `index`, axis=`axis`) in a body: `value` of an outer scope, `index` a scalar."""

    value: ir.Value
    index: ir.Value
    axis: int
    row: ir.Value


def row_reads(body: ir.Graph, outer: Collection[ir.Value], on_path: Collection[ir.Value]) -> list[RowRead]:
    """The reads of one row of a value of `outer` whose result is `on_path`.

    In the backward of the body itself each would become a sum of the whole outer value, zero but for a row, in every
    iteration: a cost quadratic in the number of iterations.
    """
    found = []
    for node in body:
        if node.op_type != "Gather" or node.domain not in ("", "ai.onnx") or node.outputs[0] not in on_path:
            continue
        value, index = node.inputs[0], node.inputs[1]
        if value is None or value not in outer or index is None or index.shape is None or len(index.shape) != 0:
            continue
        axis = node.attributes.get_int("axis", 0)
        if axis != 0:
            if value.shape is None:
                continue
            axis %= len(value.shape)
        found.append(RowRead(value, index, axis, node.outputs[0]))
    return found


def put_back(c: Context, read: RowRead, rows: ir.Value, places: ir.Value) -> ir.Value | None:
    """Cotangent of `read.value` from those of the rows, [T, ...], and their places, [T]: what Gather of all would get."""
    op, axis = c.op, read.axis
    before = [op.Shape(read.value, start=0, end=axis)] if axis else []
    shape = op.Concat(op.Shape(places), *before, op.Shape(read.value, start=axis + 1), axis=0)
    rows = op.Reshape(rows, shape, allowzero=1)  # without iterations, runtimes make up the other dimensions
    if axis and read.value.shape is not None:
        rank = len(read.value.shape)
        rows = op.Transpose(rows, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank)])
    gathered = op.Gather(read.value, places, axis=axis)
    node = gathered.producer()
    (found,) = c.differentiate([node], [gathered], [rows], [read.value])
    if not gathered.uses():
        node.graph.remove(node, safe=True)
    return found
