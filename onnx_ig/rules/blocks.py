"""DepthToSpace and SpaceToDepth: permutations, whose adjoints are their inverses."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import dims, joined
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("DepthToSpace")
def depth_to_space(c: Context, gy: ir.Value) -> Values:
    """gx = SpaceToDepth(gy), its channels in the order of the mode. x [N, b*b*C, H, W], y [N, C, b*H, b*W].

    SpaceToDepth orders channels (block, C) as mode DCR does; CRD has (C, block). Source: ONNX DepthToSpace-13.
    """
    op, size = c.op, c.attr("blocksize")
    blocks = op.SpaceToDepth(gy, blocksize=size)
    if c.attr("mode", "DCR") == "DCR":
        return (blocks,)
    x = c.operand(0)
    parts = op.Reshape(
        blocks, joined(op, dims(op, x, 0, 1), [size * size], dims(op, gy, 1, 2), dims(op, x, 2)), allowzero=1
    )
    return (c.reshape_like(op.Transpose(parts, perm=[0, 2, 1, 3, 4]), x),)


@gradient("SpaceToDepth")
def space_to_depth(c: Context, gy: ir.Value) -> Values:
    """gx = DepthToSpace(gy) of the same mode. x [N, C, b*H, b*W], y [N, b*b*C, H, W]. Source: ONNX SpaceToDepth-28."""
    return (c.op.DepthToSpace(gy, blocksize=c.attr("blocksize"), mode=c.attr("mode", "DCR")),)
