"""Reading by index: the cotangent is added up where the values were read, so that duplicates accumulate."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.adding import add_elements, add_rows
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.slicing import pad_back

Values = tuple[ir.Value | None, ...]
_INT64 = ir.DataType.INT64.value


@gradient("Gather")
def gather(c: Context, gy: ir.Value) -> Values:
    """gdata = gy added up at the indices. y [*data[:axis], *indices, *data[axis+1:]]. Source: ONNX Gather-13.

    One constant index is a Pad; constant indices without duplicates are a Gather by the inverse; the rest is a
    ScatterND that adds, on [axis, before, after].
    """
    data, indices = c.operand(0), c.operand(1)
    axis, fixed = int(c.attr("axis", 0)), c.constant(indices)
    if fixed is not None and fixed.size == 1 and fixed.ndim <= 1:
        if fixed.ndim == 0:
            gy = c.op.Unsqueeze(gy, [axis])
        return pad_back(c, gy, data, [axis], [[int(fixed.reshape(()))]], [[1]]), None
    dim = c.size(data, axis)
    if fixed is not None and isinstance(dim, list) and fixed.ndim == 1:
        gdata = _by_inverse(c, gy, fixed % dim[0] if dim[0] else fixed, dim[0], axis)
        if gdata is not None:
            return gdata, None
    return scatter_along(c, gy, data, indices, axis), None


def _by_inverse(c: Context, gy: ir.Value, indices: np.ndarray, length: int, axis: int) -> ir.Value | None:
    """Position p holds gy[k] where indices[k] = p, and the zero put behind gy where nothing read p."""
    if len(set(indices.tolist())) < len(indices):
        return None
    inverse = np.full(length, len(indices), np.int64)
    inverse[indices] = np.arange(len(indices))
    if len(indices) < length:
        gy = c.op.Pad(gy, [0, 1], None, [axis])
    return c.op.Gather(gy, inverse, axis=axis)


def scatter_along(c: Context, gy: ir.Value, data: ir.Value, indices: ir.Value, axis: int) -> ir.Value:
    """`gy` added up at `indices` along one axis of zeros in the shape of `data`; any rank, known or not."""
    op, dim = c.op, c.size(data, axis)
    flat = from_front(c, op.Reshape(indices, [-1]), dim, c.constant(indices))
    if c.lowering.gather == "one_hot":
        columns = op.Range(0, dim[0] if isinstance(dim, list) else op.Squeeze(dim, [0]), 1)
        hits = c.mask(op.Equal(op.Unsqueeze(columns, [1]), op.Unsqueeze(flat, [0])), gy)  # [D, Q]
        return c.reshape_like(op.MatMul(hits, _around(c, gy, data, flat, axis)), data)
    places = op.Unsqueeze(flat, [1])
    if axis == 0 and c.rank(indices) == 1:
        return add_rows(op, op.Shape(data), places, gy)
    rows = op.Transpose(_around(c, gy, data, flat, axis), perm=[1, 0, 2])
    summed = add_rows(op, op.Concat(dim, op.Shape(rows, start=1), axis=0), places, rows)
    return c.reshape_like(op.Transpose(summed, perm=[1, 0, 2]) if axis != 0 else summed, data)


def _around(c: Context, gy: ir.Value, data: ir.Value, flat: ir.Value, axis: int) -> ir.Value:
    """`gy` as [axes of data before `axis`, the Q indices, axes of data after it]."""
    op = c.op
    before, after = op.Shape(data, end=axis), op.Shape(data, start=axis + 1 if axis != -1 else 2**31)
    before, after = (op.ReduceProd(shape, [0], keepdims=1) for shape in (before, after))
    return op.Reshape(gy, op.Concat(before, op.Shape(flat), after, axis=0), allowzero=1)


def from_front(c: Context, indices: ir.Value, dim: list[int] | ir.Value, fixed: np.ndarray | None = None) -> ir.Value:
    """int64 indices counted from the front: ScatterND does not promise to take negative ones."""
    indices = c.op.Cast(indices, to=_INT64) if indices.dtype != ir.DataType.INT64 else indices
    if fixed is not None and (fixed >= 0).all():
        return indices
    return c.op.Where(c.op.Less(indices, 0), c.op.Add(indices, dim), indices)


@gradient("GatherElements")
def gather_elements(c: Context, gy: ir.Value) -> Values:
    """gdata = gy added up at the indices along the axis. Source: ONNX GatherElements-13."""
    data, indices = c.operand(0), c.operand(1)
    return add_elements(c.op, c.op.Shape(data), indices, gy, int(c.attr("axis", 0))), None


@gradient("GatherND")
def gather_nd(c: Context, gy: ir.Value) -> Values:
    """gdata = gy added up at the index tuples. Source: ONNX GatherND-13.

    data [*B, *D, *S], indices [*B, *M, k], y [*B, *M, *D[k:], *S]; with batch axes B these become one, whose position
    is put before each tuple.
    """
    op, data, indices = c.op, c.operand(0), c.operand(1)
    batch = int(c.attr("batch_dims", 0))
    shape, width = op.Shape(data), op.Shape(indices, start=-1)
    dims = op.Slice(shape, [batch], op.Add(width, [batch]), [0])
    tuples = from_front(c, indices, dims, c.constant(indices))
    if batch == 0 and c.lowering.gather == "scatter":
        return add_rows(op, shape, tuples, gy), None
    count = op.ReduceProd(op.Shape(data, end=batch), [0], keepdims=1)
    tail = op.Slice(shape, op.Add(width, [batch]), [2**31], [0])
    each = op.Div(op.ReduceProd(op.Shape(indices, end=-1), [0], keepdims=1), op.Max(count, [1]))
    tuples = op.Reshape(tuples, op.Concat(count, each, width, axis=0), allowzero=1)
    place = op.Reshape(op.Range(0, op.Squeeze(count, [0]), 1), [-1, 1, 1])
    if c.lowering.gather == "one_hot":
        table = op.Reshape(data, op.Concat([-1], op.ReduceProd(tail, [0], keepdims=1), axis=0))
        rows = _row_numbers(c, tuples, op.Concat(count, dims, axis=0), place)
        return c.reshape_like(scatter_along(c, gy, table, rows, 0), data), None
    place = op.Expand(place, op.Concat(count, each, [1], axis=0))
    updates = op.Reshape(gy, op.Concat(count, each, tail, axis=0), allowzero=1)
    flat = op.Concat(count, op.Shape(data, start=batch), axis=0)
    summed = add_rows(op, flat, op.Concat(place, tuples, axis=2), updates)
    return op.Reshape(summed, shape, allowzero=1), None


def _row_numbers(c: Context, tuples: ir.Value, dims: ir.Value, place: ir.Value) -> ir.Value:
    """Index tuples [b, m, k] into axes of the lengths `dims` = [b, ...] as positions in those axes laid flat, [b, m]."""
    op, indices = c.op, c.operand(1)
    width = indices.shape[-1] if indices.shape is not None and len(indices.shape) else None
    if not isinstance(width, int):
        raise c.refuse("the length of its index tuples is not known", "Declare the shapes of the model's inputs.")
    number = op.Squeeze(place, [2])
    for k in range(width):
        number = op.Add(op.Mul(number, op.Gather(dims, [k + 1], axis=0)), op.Gather(tuples, k, axis=2))
    return number


@gradient("OneHot")
def one_hot(c: Context, gy: ir.Value) -> Values:
    """y = off where the index does not match, on where it does: g[off, on] = sums of gy over either.

    Indices and depth are integers. Source: ONNX OneHot-11.
    """
    op, values = c.op, c.operand(2)
    on = op.OneHot(
        c.operand(0), c.operand(1), op.constant(np.array([0, 1], c.dtype(values).numpy())), axis=c.attr("axis")
    )
    total = op.ReduceSum(op.Mul(gy, on), keepdims=0)
    rest = op.ReduceSum(op.Mul(gy, op.Sub(1.0, on)), keepdims=0)
    return None, None, op.Concat(op.Unsqueeze(rest, [0]), op.Unsqueeze(total, [0]), axis=0)
