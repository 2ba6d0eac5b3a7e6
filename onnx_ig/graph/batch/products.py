"""Products of matrices and Einsum: rows may be carried along, not summed over."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.states import Mixes, Rows, State, batch_rule


@batch_rule("MatMul")
def matmul(a: Analysis, node: ir.Node) -> State:
    """[..., M, K] @ [..., K, P]; K is summed over."""
    return _product(a, node.inputs[0], node.inputs[1])


@batch_rule("MatMulInteger")
def matmul_integer(a: Analysis, node: ir.Node) -> State:
    """As MatMul; zero points must not come from the rows."""
    _no_rows(a, node.inputs[2:])
    return _product(a, node.inputs[0], node.inputs[1])


@batch_rule("MatMulIntegerToFloat", domain="com.microsoft")
def matmul_integer_to_float(a: Analysis, node: ir.Node) -> State:
    """As MatMul; scales, zero points and bias must not come from the rows."""
    _no_rows(a, node.inputs[2:])
    return _product(a, node.inputs[0], node.inputs[1])


@batch_rule("MatMulNBits", domain="com.microsoft")
def matmul_bits(a: Analysis, node: ir.Node) -> State:
    """[..., M, K] by packed weights [P, K]."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    _not_last(a, node.inputs[0], state)
    return state


@batch_rule("FusedMatMul", "TransposeMatMul", domain="com.microsoft")
def fused_matmul(a: Analysis, node: ir.Node) -> State:
    """As MatMul, with the last two axes of an operand exchanged."""
    if node.attributes.get_int("transBatchA", 0) or node.attributes.get_int("transBatchB", 0):
        raise Mixes("moves its batch axes")
    flags = [bool(node.attributes.get_int(f, 0)) for f in ("transA", "transB")]
    return _product(a, node.inputs[0], node.inputs[1], *flags)


@batch_rule("QLinearMatMul")
def quantized_matmul(a: Analysis, node: ir.Node) -> State:
    """Operands 0 and 3 are the matrices."""
    _no_rows(a, [v for i, v in enumerate(node.inputs) if i not in (0, 3)])
    return _product(a, node.inputs[0], node.inputs[3])


@batch_rule("Gemm")
@batch_rule("FusedGemm", domain="com.microsoft")
def gemm(a: Analysis, node: ir.Node) -> State:
    """Matrices of two axes; the third operand is added with broadcasting to [M, P]."""
    flags = [bool(node.attributes.get_int(f, 0)) for f in ("transA", "transB")]
    third = node.inputs[2] if len(node.inputs) > 2 else None
    if a.free(node.inputs[0], node.inputs[1]):
        raise Mixes("adds rows to a product that has none")
    state = _product(a, node.inputs[0], node.inputs[1], *flags)
    if third is None:
        return state
    shift = 2 - a.rank(third)
    if not a.free(third):
        added = a.rows_of(third)
        return a.same(state, added.at(added.axis + shift))
    if state.axis >= shift and not a.even(third, state.axis - shift):
        raise Mixes(f"pairs rows with entries of {third.name!r}")
    return state


def _no_rows(a: Analysis, values: Sequence[ir.Value | None]) -> None:
    for value in values:
        if value is not None and not a.free(value):
            raise Mixes(f"takes {value.name!r} from the rows")


def _not_last(a: Analysis, value: ir.Value | None, state: Rows) -> None:
    assert value is not None
    if state.axis == a.rank(value) - 1:
        raise Mixes("sums over the rows")


def _product(
    a: Analysis, left: ir.Value | None, right: ir.Value | None, left_turned: bool = False, right_turned: bool = False
) -> Rows:
    """The rows' axis in a product of matrices."""
    assert left is not None
    assert right is not None
    ranks = a.rank(left), a.rank(right)
    outer = max(max(ranks) - 2, 0)
    found: Rows | None = None
    for value, rank, turned, kept in ((left, ranks[0], left_turned, 0), (right, ranks[1], right_turned, 1)):
        if a.free(value):
            continue
        state = a.rows_of(value)
        behind = rank - state.axis  # 1: the last axis
        if behind > 2:
            position = outer + 2 - behind
        else:
            summed = (2 if kept else 1) if not turned else (1 if kept else 2)
            if rank == 1 or behind == summed:
                raise Mixes("sums over the rows")
            position = outer + kept
        found = a.same(found, state.at(position))
    assert found is not None
    for value, rank in zip((left, right), ranks, strict=True):
        axis = found.axis - (outer + 2 - rank)
        if a.free(value) and found.axis < outer and axis >= 0 and not a.even(value, axis):
            raise Mixes(f"pairs rows with entries of {value.name!r}")
    missing = (1 if ranks[0] == 1 else 0, 1 if ranks[1] == 1 else 0)  # a vector has no row or column in the result
    if found.axis > outer and missing[0]:
        return found.at(found.axis - 1)
    return found


@batch_rule("Einsum")
def einsum(a: Analysis, node: ir.Node) -> State:
    """The rows' label must be kept, and be the rows' in every operand that has it."""
    operands = [v for v in node.inputs if v is not None]
    equation = node.attributes["equation"].as_string().replace(" ", "")
    left, _, right = equation.partition("->")
    terms = [_labels(t, a.rank(v)) for t, v in zip(left.split(","), operands, strict=True)]
    if "->" not in equation:
        counts = "".join("".join(t) for t in terms)
        right = ("..." if "..." in left else "") + "".join(
            sorted(c for c in set(counts) if counts.count(c) == 1 and c.isalpha())
        )
    label: str | None = None
    found: Rows | None = None
    for value, term in zip(operands, terms, strict=True):
        if a.free(value):
            continue
        state = a.rows_of(value)
        if label is not None and term[state.axis] != label:
            raise Mixes("pairs rows with other rows")
        label = term[state.axis]
        if term.count(label) > 1:
            raise Mixes("takes a diagonal over the rows")
        found = a.same(found, state.at(0))
    result = _labels(right, None, max((len([c for c in t if c.isdigit()]) for t in terms), default=0))
    if found is None or label is None or label not in result:
        raise Mixes("sums over the rows")
    for value, term in zip(operands, terms, strict=True):
        if label in term and a.free(value) and not a.even(value, term.index(label)):
            raise Mixes(f"pairs rows with entries of {value.name!r}")
    return found.at(result.index(label))


def _labels(term: str, rank: int | None, dots: int = 0) -> list[str]:
    """Labels axis by axis; those of an ellipsis are digits, counted from its end."""
    head, ellipsis, tail = term.partition("...")
    if not ellipsis:
        return list(head)
    count = dots if rank is None else rank - len(head) - len(tail)
    return [*head, *(str(count - 1 - i) for i in range(count)), *tail]
