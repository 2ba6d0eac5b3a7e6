"""Writing by index: data with updates put, added, multiplied, or compared into it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("ScatterElements", "ScatterND")
def scatter(c: Context, gy: ir.Value) -> Values:
    """y = data with updates u_k written at places p_k; read(t)_k = t[p_k], write(t, v) puts v into t.

    none  gdata = write(gy, 0), gu = read(gy); the standard forbids duplicate places
    add   gdata = gy, gu = read(gy)
    mul   gdata = gy * Π u, gu_k = read(gy * data)_k * Π of the other updates at that place
    max, min: gy goes to whoever equals y, in equal shares

    Source: ONNX ScatterElements-18, ScatterND-18.
    """
    reduction = str(c.attr("reduction", "none"))
    if reduction == "mul":
        return _product(c, gy)
    if reduction in ("max", "min"):
        return _extremum(c, gy)
    data, updates = None, None
    if c.wants(0):
        data = gy if reduction == "add" else _write(c, gy, c.zeros_like(c.operand(2)))
    if c.wants(2):
        updates = _read(c, gy)
    return data, None, updates


def _product(c: Context, gy: ir.Value) -> Values:
    """The others' product without dividing by an update of zero: zeros at a place are counted, the rest multiplied."""
    op, data, updates = c.op, c.operand(0), c.operand(2)
    ones = op.Expand(np.ones(1, c.dtype(data).numpy()), op.Shape(data))
    gdata = op.Mul(gy, _write(c, ones, updates, "mul")) if c.wants(0) else None
    if not c.wants(2):
        return gdata, None, None
    zero = op.Equal(updates, 0.0)
    nonzero = op.Where(zero, 1.0, updates)
    zeros_there = _read(c, _write(c, c.zeros_like(data), c.mask(zero, updates), "add"))
    others = op.Div(_read(c, _write(c, ones, nonzero, "mul")), nonzero)
    alone = op.Equal(zeros_there, c.mask(zero, updates))  # no other update there is zero
    others = op.Where(alone, others, 0.0)
    return gdata, None, op.Mul(_read(c, op.Mul(gy, data)), others)


def _extremum(c: Context, gy: ir.Value) -> Values:
    op, data, updates = c.op, c.operand(0), c.operand(2)
    kept = op.Equal(data, c.output)
    taken = op.Equal(updates, _read(c, c.output))
    count = _write(c, c.mask(kept, data), c.mask(taken, updates), "add")
    share = op.Div(gy, op.Max(count, 1.0))
    gdata = op.Where(kept, share, 0.0) if c.wants(0) else None
    gupdates = op.Where(taken, _read(c, share), 0.0) if c.wants(2) else None
    return gdata, None, gupdates


def _read(c: Context, table: ir.Value) -> ir.Value:
    """What `table`, shaped as data, holds at the places written, shaped as the updates."""
    if c.node.op_type == "ScatterND":
        return c.op.GatherND(table, c.operand(1))
    return c.op.GatherElements(table, c.operand(1), axis=int(c.attr("axis", 0)))


def _write(c: Context, table: ir.Value, values: ir.Value, reduction: str = "none") -> ir.Value:
    emit: Callable[..., ir.Value] = c.op.ScatterND
    attributes: dict[str, int | str] = {"reduction": reduction}
    if c.node.op_type == "ScatterElements":
        emit, attributes["axis"] = c.op.ScatterElements, int(c.attr("axis", 0))
    return emit(table, c.operand(1), values, **attributes)


@gradient("TensorScatter")
def tensor_scatter(c: Context, gy: ir.Value) -> Values:
    """The update overwrites a stretch of the cache along the axis: gpast = gy with zeros there, gupdate = gy there.

    past, y [B, P..., L, Q...], update [B, P..., S, Q...]; sample b writes from write_indices[b] on, around the end
    where mode is circular. Source: ONNX TensorScatter-24.
    """
    op, past, update, starts = c.op, c.operand(0), c.operand(1), c.input(2)
    axis, mode = int(c.attr("axis", -2)), c.attr("mode")
    gpast = gupdate = None
    if c.wants(0):
        gpast = op.TensorScatter(gy, c.zeros_like(update), starts, axis=axis, mode=mode)
    if c.wants(1):
        length = op.Squeeze(op.Shape(update, start=axis, end=axis + 1 if axis != -1 else None), [0])
        places = op.Unsqueeze(op.Range(0, length, 1), [0])  # [1, S]
        if starts is not None:
            places = op.Add(places, op.Unsqueeze(starts, [1]))
            if mode == "circular":
                places = op.Mod(places, c.size(past, axis))
        places = op.Unsqueeze(op.Expand(places, op.Concat(op.Shape(past, end=1), [1], axis=0)), [2])  # [B, S, 1]
        table = op.Transpose(_four_axes(c, gy, axis), perm=[0, 2, 1, 3])  # [B, L, P, Q]
        rows = op.Transpose(op.GatherND(table, places, batch_dims=1), perm=[0, 2, 1, 3])
        gupdate = c.reshape_like(rows, update)
    return (gpast, gupdate, None)[: len(c.inputs)]


def _four_axes(c: Context, x: ir.Value, axis: int) -> ir.Value:
    """`x` as [first axis, axes before `axis`, `axis`, axes after it]."""
    op = c.op
    lengths = [
        op.Shape(x, end=1),
        op.ReduceProd(op.Shape(x, start=1, end=axis), [0], keepdims=1),
        op.Shape(x, start=axis, end=axis + 1 if axis != -1 else None),
        op.ReduceProd(op.Shape(x, start=axis + 1 if axis != -1 else 2**31), [0], keepdims=1),
    ]
    return op.Reshape(x, op.Concat(*lengths, axis=0), allowzero=1)
