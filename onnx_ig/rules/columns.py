"""Col2Im: sliding blocks added up to an image."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import Vector, dims, joined, product
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.separable import identity

Values = tuple[ir.Value | None, ...]


@gradient("Col2Im")
def col2im(c: Context, gy: ir.Value) -> Values:
    """gx = the blocks of gy: a Conv whose K kernels each pick one tap. x [N, C*K, windows], y [N, C, *image].

    Source: ONNX Col2Im-18; the channels of x run over C, then over the taps of a block in row-major order.
    """
    op, x = c.op, c.operand(0)
    block = _block(c)
    taps = product(op, block)
    kernels = op.Reshape(identity(op, taps, c.dtype(gy)), joined(op, taps, [1], block))
    one_channel = op.Reshape(gy, joined(op, [-1, 1], dims(op, gy, 2)))
    blocks = op.Conv(
        one_channel, kernels, strides=c.attr("strides"), dilations=c.attr("dilations"), pads=c.attr("pads")
    )
    return c.reshape_like(blocks, x), None, None


def _block(c: Context) -> Vector:
    fixed = c.constant(c.operand(2))
    return c.operand(2) if fixed is None else [int(k) for k in fixed]
