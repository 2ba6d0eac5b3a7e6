"""Einsum: the cotangent of each operand is an Einsum of the cotangent with the other operands."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnx_ig.rules.broadcast import same_dim
from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]
Dim = int | ir.SymbolicDim
_REST = "..."


@gradient("Einsum")
def einsum(c: Context, gy: ir.Value) -> Values:
    """Y[out] = Σ Π X_j[term_j]: gX_i[term_i] = Σ gY[out] Π_{j≠i} X_j[term_j].

    A label that only X_i has was summed: its cotangent repeats along it. A label of length 1 that met a longer one was
    broadcast: its cotangent is summed. A label twice in one term reads the diagonal: its cotangent lies on it.
    Source: ONNX Einsum-12 (numpy.einsum).
    """
    operands = [c.operand(i) for i in range(len(c.inputs))]
    terms, out = _parse(str(c.attr("equation")))
    terms, out = _spell_out(terms, out, [c.rank(x) for x in operands])
    return tuple(_cotangent(c, gy, operands, terms, out, i) if c.wants(i) else None for i in range(len(operands)))


def _cotangent(
    c: Context, gy: ir.Value, operands: Sequence[ir.Value], terms: Sequence[list[str]], out: list[str], i: int
) -> ir.Value:
    term = terms[i]
    own = sorted(
        set(term), key=lambda label: (label != _REST, term.index(label))
    )  # "..." first: sums are from the left
    others = [(x, t) for j, (x, t) in enumerate(zip(operands, terms, strict=True)) if j != i]
    met = {*out, *(label for _, t in others for label in t)}
    if _REST in met and _REST not in own:
        kept, leading = [_REST, *(label for label in own if label in met)], True
    else:
        kept, leading = [label for label in own if label in met], False
    g = _product(c, gy, out, others, kept)
    missing = [k - len(own) for k, label in enumerate(own) if label not in met]
    if missing:
        g = c.op.Unsqueeze(g, missing)
    x = operands[i]
    if own != term:  # its diagonal, with "..." first
        x = c.op.Einsum(x, equation=f"{''.join(term)}->{''.join(own)}")
        x.shape = _diagonal_shape(operands[i], term, own)
    g = _fit(c, g, x, own, [(gy, out), *others], summed_rest=leading)
    return g if own == term else _spread(c, g, x, own, term)


def _product(
    c: Context, gy: ir.Value, out: list[str], others: Sequence[tuple[ir.Value, list[str]]], kept: list[str]
) -> ir.Value:
    """Σ gY Π X_j over every label but `kept`; factors without a label multiply the result."""
    factors = [(x, t) for x, t in [(gy, out), *others] if t]
    scalars = [x for x, t in [(gy, out), *others] if not t]
    result: ir.Value | None = None
    if len(factors) == 1 and factors[0][1] == kept:
        result = factors[0][0]
    elif factors:
        equation = f"{','.join(''.join(t) for _, t in factors)}->{''.join(kept)}"
        result = c.op.Einsum(*(x for x, _ in factors), equation=equation)
    for scalar in scalars:
        result = scalar if result is None else c.op.Mul(result, scalar)
    assert result is not None
    return result


def _fit(
    c: Context,
    g: ir.Value,
    x: ir.Value,
    own: list[str],
    met: Sequence[tuple[ir.Value, list[str]]],
    *,
    summed_rest: bool,
) -> ir.Value:
    """`g` repeated and summed to the shape of `x`: nothing is done where the lengths provably agree."""
    if not summed_rest and _REST not in own and x.shape is not None:
        repeat, total = False, False
        for label, dim in zip(own, x.shape, strict=True):
            lengths = [d for value, term in met for d in _lengths(value, term, label)]
            agreed = [d is not None and same_dim(d, dim) for d in lengths]
            repeat = repeat or not (dim == 1 or any(agreed))
            longer = any(d != 1 and not same for d, same in zip(lengths, agreed, strict=True))
            total = total or (longer and (dim == 1 or not isinstance(dim, int)))
        if repeat:
            g = c.op.Expand(g, c.op.Shape(x))
        return c.sum_to(g, None, x) if total else g
    return c.sum_to(c.op.Expand(g, c.op.Shape(x)), None, x)


def _spread(c: Context, g: ir.Value, x: ir.Value, own: list[str], term: list[str]) -> ir.Value:
    """`g`, labelled `own`, on the diagonals of `term`, axes in its order: a product with an identity each."""
    free = _letters([term])
    labels, factors, seen = [], [(g, "".join(own))], set()
    for label in term:
        if label not in seen:
            seen.add(label)
            labels.append(label)
            continue
        fresh = next(free)
        places = c.op.Range(0, c.op.Squeeze(_length(c, x, own, label), [0]), 1)
        same = c.op.Equal(c.op.Unsqueeze(places, [0]), c.op.Unsqueeze(places, [1]))
        factors.append((c.mask(same, g), label + fresh))
        labels.append(fresh)
    equation = f"{','.join(t for _, t in factors)}->{''.join(labels)}"
    return c.op.Einsum(*(v for v, _ in factors), equation=equation)


def _length(c: Context, x: ir.Value, own: list[str], label: str) -> ir.Value:
    axis = own.index(label)
    if _REST in own:  # it comes first
        axis -= len(own)
    return c.op.Shape(x, start=axis, end=axis + 1 if axis != -1 else None)


def _lengths(value: ir.Value, term: list[str], label: str) -> list[Dim | None]:
    """The dimensions that `value` has for a label; None for one that is not known."""
    if label not in term:
        return []
    if value.shape is None or len(value.shape) != len(term):
        return [None]
    return [d for d, mine in zip(value.shape, term, strict=True) if mine == label]


def _diagonal_shape(x: ir.Value, term: list[str], own: list[str]) -> ir.Shape | None:
    if x.shape is None or len(x.shape) != len(term):
        return None
    return ir.Shape([x.shape[term.index(label)] for label in own])


def _parse(equation: str) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand and of the output, with "..." as one label; the implicit output is worked out."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_labels(t) for t in left.split(",")]
    if arrow:
        return terms, _labels(right)
    flat = [label for t in terms for label in t if label != _REST]
    once = sorted(label for label in set(flat) if flat.count(label) == 1)
    return terms, ([_REST] if any(_REST in t for t in terms) else []) + once


def _labels(term: str) -> list[str]:
    head, dots, tail = term.partition(_REST)
    return [*head, *([_REST] if dots else []), *tail]


def _spell_out(
    terms: list[list[str]], out: list[str], ranks: Sequence[int | None]
) -> tuple[list[list[str]], list[str]]:
    """Letters for the axes under "...", aligned from the right, where the ranks of the terms that have it are known."""
    counts = [None if r is None else r - len(t) + 1 for t, r in zip(terms, ranks, strict=True) if _REST in t]
    if not counts or None in counts:
        return terms, out
    known = [count for count in counts if count is not None]
    free = _letters([*terms, out])
    letters = [next(free) for _ in range(max(known))]
    sizes = iter(known)

    def spelled(term: list[str], count: int) -> list[str]:
        at = term.index(_REST)
        return [*term[:at], *letters[len(letters) - count :], *term[at + 1 :]]

    written = [spelled(t, next(sizes)) if _REST in t else t for t in terms]
    return written, spelled(out, len(letters)) if _REST in out else out


def _letters(terms: Sequence[Sequence[str]]) -> Iterator[str]:
    used = {label for term in terms for label in term}
    return (letter for letter in string.ascii_letters if letter not in used)
