"""Products with weights of a few bits, unpacked in the graph: the file keeps them as they are, a runtime folds them at load.

Source: the schemas of com.microsoft; for the 4-bit float tables Dettmers et al., "QLoRA", 2023, and bitsandbytes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.fused.table import Fused, Unexpanded, fused

_FP4 = [0.0, 0.005208333, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25]
_NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]  # fmt: skip


@fused("MatMulNBits")
def matmul_nbits(f: Fused) -> None:
    """A @ W^T + bias of W [N, K] = (q - zero) scale, a scale and a zero point for each block of a row.

    q are packed along K, the first in the lowest bits; the zero points too, or they are floats; left out, they are the
    middle of the range. With accuracy_level 4 ONNX Runtime rounds A too, which this does not.
    """
    rows, inner, size, bits = (int(f.attr(n, d)) for n, d in (("N", 0), ("K", 0), ("block_size", 0), ("bits", 4)))
    if bits not in (2, 4, 8):
        raise Unexpanded(f"its weights have {bits} bits, which are packed across bytes", "Quantise to 2, 4 or 8 bits.")
    if f.operand(4) is not None:
        raise Unexpanded("its blocks are permuted (g_idx)", "Quantise without g_idx.")
    if int(f.attr("weight_prepacked", 0)):
        raise Unexpanded("its weights are packed for one runtime (weight_prepacked)", "Export it without prepacking.")
    op, dtype, blocks = f.op, f.dtype(f.x), -(-inner // size)
    packed = op.Reshape(f.need(1), [rows, blocks, size * bits // 8])
    q = f.cast(unpacked(f, packed, bits, [rows, blocks, size]), dtype)
    zero = f.operand(3)
    if zero is None:
        q = op.Sub(q, f.like(2.0 ** (bits - 1), f.x))
    else:
        if f.dtype(zero) == ir.DataType.UINT8:
            width = -(-blocks * bits // 8)
            zero = unpacked(f, op.Reshape(zero, [rows, width]), bits, [rows, width * 8 // bits])
            zero = op.Slice(zero, [0], [blocks], [1])
        q = op.Sub(q, op.Reshape(f.cast(zero, dtype), [rows, blocks, 1]))
    scaled = op.Mul(q, op.Reshape(f.cast(f.need(2), dtype), [rows, blocks, 1]))
    weights = op.Reshape(scaled, [rows, blocks * size])
    if blocks * size != inner:
        weights = op.Slice(weights, [0], [inner], [1])
    y, bias = op.MatMul(f.x, op.Transpose(weights, perm=[1, 0])), f.operand(5)
    f.replace(y if bias is None else op.Add(y, bias))


def unpacked(f: Fused, packed: ir.Value, bits: int, shape: list[int], lowest_first: bool = True) -> ir.Value:
    """Numbers of `bits` bits out of bytes, in `shape`, as bytes."""
    if bits == 8:
        return f.op.Reshape(packed, shape)
    mask, parts = np.uint8(2**bits - 1), []
    for shift in range(0, 8, bits):
        moved = f.op.BitShift(packed, np.uint8(shift), direction="RIGHT") if shift else packed
        parts.append(f.op.Unsqueeze(f.op.BitwiseAnd(moved, mask), [-1]))
    if not lowest_first:
        parts.reverse()
    return f.op.Reshape(f.op.Concat(*parts, axis=-1), shape)


@fused("MatMulBnb4")
def matmul_bnb4(f: Fused) -> None:
    """A @ W^T of W [N, K] whose entries are places in a table of 16, times the largest magnitude of each block.

    Two entries a byte, the first in the upper half; blocks run on through the rows.
    """
    rows, inner, size = (int(f.attr(n)) for n in ("N", "K", "block_size"))
    if int(f.attr("training_mode", 0)) or not int(f.attr("transB", 1)):
        raise Unexpanded("it is the product of a training graph", "Export the model for inference.")
    op, dtype = f.op, f.dtype(f.x)
    table = np.asarray(_NF4 if int(f.attr("quant_type")) else [*_FP4, *(-v for v in _FP4)]).astype(dtype.numpy())
    count = -(-rows * inner // 2) * 2
    places = op.Cast(unpacked(f, f.need(1), 4, [count], lowest_first=False), to=ir.DataType.INT32.value)
    values = op.Gather(table, places)
    blocks = -(-rows * inner // size)
    if blocks * size != count:
        values = op.Pad(values, [0, blocks * size - count])
    scaled = op.Mul(op.Reshape(values, [blocks, size]), op.Reshape(f.cast(f.need(2), dtype), [blocks, 1]))
    flat = op.Reshape(scaled, [blocks * size])
    if blocks * size != rows * inner:
        flat = op.Slice(flat, [0], [rows * inner], [0])
    weights = op.Reshape(flat, [rows, inner])
    f.replace(op.MatMul(f.x, op.Transpose(weights, perm=[1, 0])))
