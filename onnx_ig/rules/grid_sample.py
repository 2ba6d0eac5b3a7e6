"""GridSample: an image read at the positions of a grid."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import dims, entry, joined, product
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.sampling import AxisTap, Image, axis_taps, reflected

Values = tuple[ir.Value | None, ...]


@gradient("GridSample")
def grid_sample(c: Context, gy: ir.Value) -> Values:
    """y = sum over taps of weight * x[tap]: gx[tap] += weight gy, ggrid = sum over taps and channels of slope x[tap] gy.

    x [N, C, L...], grid [N, n..., r], y [N, C, n...] with r = 2 or 3; grid[..., 0] runs along the last axis. In mode
    nearest nothing flows to the grid. Positions at kinks take the slope of ONNX Runtime's branch. Source: ONNX
    GridSample-20.
    """
    op, x, grid = c.op, c.operand(0), c.operand(1)
    rank = _rank(c)
    image, cotangents = Image.of(op, x), Image.of(op, gy)
    axes, chains = [], []
    for axis in range(rank):
        taps, chain = _axis(c, image, grid, axis, rank)
        axes.append(taps)
        chains.append(chain)
    moves = c.wants(1) and _mode(c) != "nearest"
    parts: list[tuple[ir.Value, ir.Value]] = []
    totals: list[ir.Value | None] = [None] * rank
    for tap in image.taps(axes):
        if c.wants(0):
            parts.append((tap.row, op.Mul(cotangents.rows, op.Unsqueeze(tap.weight, [1]))))
        if moves:
            along = op.ReduceSum(op.Mul(cotangents.rows, image.read(tap.row)), [1], keepdims=0)
            for axis, slope in enumerate(tap.slopes):
                term = op.Mul(along, slope)
                totals[axis] = term if totals[axis] is None else op.Add(totals[axis], term)
    gx = c.reshape_like(image.added(parts), x) if c.wants(0) else None
    if not moves:
        return gx, None
    columns = [op.Unsqueeze(op.Mul(t, op.Reshape(k, [-1])), [1]) for t, k in zip(totals, chains, strict=True)]
    ggrid = c.reshape_like(op.Concat(*columns[::-1], axis=1), grid)
    return gx, op.Cast(ggrid, to=c.dtype(grid).value) if c.dtype(grid) != c.dtype(x) else ggrid


def _rank(c: Context) -> int:
    for value, extra in ((c.operand(0), 2), (c.operand(1), 2), (c.output, 2)):
        if value.shape is not None:
            return len(value.shape) - extra
    raise c.refuse(
        "whether its images have two or three axes is not known", "Declare the shapes of the model's inputs."
    )


def _mode(c: Context) -> str:
    """The modes under the names of opset 20."""
    mode = c.attr("mode", "linear")
    return {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)


def _axis(c: Context, image: Image, grid: ir.Value, axis: int, rank: int) -> tuple[list[AxisTap], ir.Value]:
    """Taps along one axis for samples [N, Q], and the derivative of the position by the grid."""
    op, dtype, mode = c.op, c.dtype(c.operand(0)), _mode(c)
    padding, align = c.attr("padding_mode", "zeros"), c.attr("align_corners", 0) == 1
    component = op.Slice(grid, [rank - 1 - axis], [rank - axis], [-1])
    samples = product(op, dims(op, grid, 1, rank + 1))
    at = op.Reshape(component, joined(op, dims(op, grid, 0, 1), samples), allowzero=1)
    if c.dtype(grid) != dtype:
        at = op.Cast(at, to=dtype.value)
    length = entry(op, image.lengths, axis)
    size = (
        op.constant(np.asarray(length, dtype.numpy())) if isinstance(length, list) else op.Cast(length, to=dtype.value)
    )
    last = op.Sub(size, 1.0)
    if align:
        position, chain, low = op.Mul(op.Mul(op.Add(at, 1.0), 0.5), last), op.Mul(last, 0.5), 0.0
    else:
        position = op.Mul(op.Sub(op.Mul(op.Add(at, 1.0), size), 1.0), 0.5)
        chain, low = op.Mul(size, 0.5), -0.5
    if mode == "nearest":
        position = op.Round(position)
    if padding == "border" and mode != "cubic":  # cubic clamps the elements that it reads, not the position
        outside = op.Or(op.Less(position, low), op.Greater(position, op.Sub(last, low)))
        position = op.Where(outside, op.Max(op.Min(position, last), 0.0), position)
        chain = op.Where(outside, 0.0, chain)
    elif padding == "reflection":
        position, slope = reflected(op, position, low, last)
        chain = op.Mul(slope, chain)
    else:
        chain = op.Expand(chain, op.Shape(position))
    return axis_taps(op, position, size, mode, padding, low), chain
