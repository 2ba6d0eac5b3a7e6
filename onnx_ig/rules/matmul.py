"""Products of matrices. Weights are read where the forward pass reads them; a transpose of one folds at load."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]
_INT64 = ir.DataType.INT64.value


@gradient("MatMul")
def matmul(c: Context, gy: ir.Value) -> Values:
    """Y = A B: gA = gY Bᵀ, gB = Aᵀ gY, summed over the axes along which the batch of each was broadcast.

    A [..., m, k] or [k], B [..., k, n] or [k], Y [..., m, n] without the axis that a vector lacks; any rank, known or
    not. Source: ONNX MatMul-13 (numpy.matmul).
    """
    a, b = c.operand(0), c.operand(1)
    rank_a, rank_b = c.rank(a), c.rank(b)
    if rank_b == 2:
        return _by_matrix(c, gy, a, b)
    if rank_a is None or rank_b is None:
        return _any_rank(c, gy, a, b)
    if rank_a == 1 and rank_b == 1:
        return c.op.Mul(gy, b), c.op.Mul(gy, a)
    if rank_b == 1:
        return _by_vector(c, gy, a, b)
    if rank_a == 1:
        row = c.op.Unsqueeze(gy, [-2])  # [..., 1, n]
        ga = gb = None
        if c.wants(0):
            ga = c.op.ReduceSum(c.op.MatMul(row, _swap(c, b, rank_b)), list(range(rank_b - 1)), keepdims=0)
        if c.wants(1):
            gb = c.op.Mul(c.op.Unsqueeze(a, [-1]), row)
        return ga, gb
    batch = None if c.output.shape is None else tuple(c.output.shape)[:-2]
    ga = gb = None
    if c.wants(0):
        ga = c.op.MatMul(gy, _swap(c, b, rank_b))
        ga = c.sum_to(ga, None if batch is None or a.shape is None else (*batch, *a.shape[-2:]), a)
    if c.wants(1):
        gb = c.op.MatMul(_swap(c, a, rank_a), gy)
        gb = c.sum_to(gb, None if batch is None or b.shape is None else (*batch, *b.shape[-2:]), b)
    return ga, gb


def _by_matrix(c: Context, gy: ir.Value, a: ir.Value, b: ir.Value) -> Values:
    """B [k, n], the weight of a linear layer: gA = gY Bᵀ has the shape of A whatever its rank."""
    ga = c.op.MatMul(gy, c.op.Transpose(b, perm=[1, 0])) if c.wants(0) else None
    gb = None
    if c.wants(1):  # rows of all batches in one product
        gb = c.op.MatMul(c.op.Transpose(c.op.Flatten(a, axis=-1), perm=[1, 0]), c.op.Flatten(gy, axis=-1))
    return ga, gb


def _by_vector(c: Context, gy: ir.Value, a: ir.Value, b: ir.Value) -> Values:
    """A [..., m, k], b [k], y [..., m]: gA = gy ⊗ b, gb = Σ gy A."""
    ga = c.op.Mul(c.op.Unsqueeze(gy, [-1]), b) if c.wants(0) else None
    gb = None
    if c.wants(1):
        gb = c.op.Squeeze(c.op.MatMul(c.op.Flatten(gy, axis=0), c.op.Flatten(a, axis=-1)), [0])
    return ga, gb


def _any_rank(c: Context, gy: ir.Value, a: ir.Value, b: ir.Value) -> Values:
    """Ranks that only the run knows: vectors become matrices by reshaping, at run time, as numpy.matmul does."""
    op = c.op
    shape_a, shape_b, shape_y = op.Shape(a), op.Shape(b), op.Shape(gy)
    rank_a, rank_b, rank_y = (op.Size(shape) for shape in (shape_a, shape_b, shape_y))
    # [1, *shape_a] from position 1, or 0 where A is a vector; [*shape_b, 1] up to its rank, at least 2
    vector_a, vector_b = (op.Cast(op.Less(rank, 2), to=_INT64) for rank in (rank_a, rank_b))
    matrix_a = _span(c, op.Concat([1], shape_a, axis=0), op.Sub(1, vector_a), op.Add(rank_a, 1))
    matrix_b = _span(c, op.Concat(shape_b, [1], axis=0), 0, op.Add(rank_b, vector_b))
    batch = _span(c, shape_y, 0, op.Add(op.Sub(rank_y, 2), op.Add(vector_a, vector_b)))
    rows, columns = op.Gather(matrix_a, [-2], axis=0), op.Gather(matrix_b, [-1], axis=0)
    gy = op.Reshape(gy, op.Concat(batch, rows, columns, axis=0), allowzero=1)
    a2, b2 = op.Reshape(a, matrix_a, allowzero=1), op.Reshape(b, matrix_b, allowzero=1)
    ga = gb = None
    if c.wants(0):
        ga = c.sum_to(op.MatMul(gy, op.Einsum(b2, equation="...ij->...ji")), None, a2)
        ga = op.Reshape(ga, shape_a, allowzero=1)
    if c.wants(1):
        gb = c.sum_to(op.MatMul(op.Einsum(a2, equation="...ij->...ji"), gy), None, b2)
        gb = op.Reshape(gb, shape_b, allowzero=1)
    return ga, gb


def _span(c: Context, vector: ir.Value, start: int | ir.Value, end: ir.Value) -> ir.Value:
    """Entries `start` to `end`. Not a Slice: ONNX Runtime infers a wrong length from bounds that it does not know."""
    return c.op.Gather(vector, c.op.Range(start, end, 1), axis=0)


def _swap(c: Context, x: ir.Value, rank: int) -> ir.Value:
    """The last two axes exchanged."""
    return c.op.Transpose(x, perm=[*range(rank - 2), rank - 1, rank - 2])


@gradient("Gemm")
def gemm(c: Context, gy: ir.Value) -> Values:
    """Y = alpha A' B' + beta C: gA' = alpha gY B'ᵀ, gB' = alpha A'ᵀ gY, gC = beta gY summed to C.

    A' [m, k] and B' [k, n] are A and B, transposed by transA and transB. Source: ONNX Gemm-13.
    """
    a, b, bias = c.operand(0), c.operand(1), c.input(2)
    across_a, across_b = int(c.attr("transA", 0)), int(c.attr("transB", 0))
    alpha, beta = float(c.attr("alpha", 1.0)), float(c.attr("beta", 1.0))
    ga = gb = gc = None
    if c.wants(0):
        if across_a:
            ga = c.op.Gemm(b, gy, transA=across_b, transB=1, alpha=alpha)
        else:
            ga = c.op.Gemm(gy, b, transB=1 - across_b, alpha=alpha)
    if c.wants(1):
        if across_b:
            gb = c.op.Gemm(gy, a, transA=1, transB=across_a, alpha=alpha)
        else:
            gb = c.op.Gemm(a, gy, transA=1 - across_a, alpha=alpha)
    if bias is not None and c.wants(2):
        gc = c.sum_to(gy, c.output.shape, bias)
        gc = gc if beta == 1.0 else c.op.Mul(gc, beta)
    return (ga, gb, gc)[: len(c.inputs)]
