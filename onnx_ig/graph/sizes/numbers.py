"""Integer arithmetic of graphs on sizes: Shape -> Gather -> Concat -> Reshape and what stands between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.sizes.size import ONE, Size, product

if TYPE_CHECKING:
    from onnx_ig.graph.sizes.symbols import Symbols

__all__ = ["LONGEST", "Numbers", "compute", "from_array"]

LONGEST = 64
"""Vectors above this length are data, not shapes."""

Element = Size | None
"""A size; None where it depends on the number of rows in a way that is no product."""


class Numbers:
    """The elements of a scalar (`rank` 0) or vector (1), row by row."""

    def __init__(self, rank: int, elements: Sequence[Element]):
        self.rank = rank
        self.elements = tuple(elements)

    @property
    def closed(self) -> bool:
        """Whether they are the same for any number of rows."""
        return all(e is not None and not e.open for e in self.elements)

    def integers(self) -> list[int] | None:
        """Plain numbers; None where one is not known."""
        found = [e.known for e in self.elements if e is not None]
        return [n for n in found if n is not None] if len(found) == len(self.elements) and None not in found else None


def from_array(array: np.ndarray) -> Numbers | None:
    """Numbers of a constant; a fraction is a symbol of its own."""
    if array.ndim > 1 or array.size > LONGEST or array.dtype.kind not in "iufb" or not np.isfinite(array).all():
        return None
    flat = [
        Size(int(n)) if float(n).is_integer() else Size.named(f"{_FRACTION}{n!r}") for n in array.reshape(-1).tolist()
    ]
    return Numbers(array.ndim, flat)


_FRACTION = "."


def compute(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    """Numbers of the outputs of a node that computes sizes; None for any other."""
    if node.domain != "":
        return None
    rule = _RULES.get(node.op_type)
    return rule(a, node) if rule is not None else None


def _operands(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    found = [a.numbers(v) for v in node.inputs if v is not None]
    numbers = [n for n in found if n is not None]
    return numbers if len(numbers) == len(found) and numbers else None


def _invented(name: str, elements: Sequence[Element]) -> Element:
    """A size that nothing is known of but where it comes from; None where rows are in it."""
    if any(e is None or e.open for e in elements):
        return None
    return Size.named(f"{name}({','.join(map(str, elements))})")


# Reading shapes


def _shape(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    dims = a.sizes(node.inputs[0])
    if dims is None:
        return None
    return [Numbers(1, dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(dims))])]


def _size(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    dims = a.sizes(node.inputs[0])
    return None if dims is None else [Numbers(0, [product(dims)])]


# Moving them about


def _same(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    numbers = a.numbers(node.inputs[0])
    return None if numbers is None else [numbers]


def _cast(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    numbers = a.numbers(node.inputs[0])
    if numbers is None:
        return None
    whole = ir.DataType(node.attributes["to"].as_int()) in _WHOLE
    return [Numbers(numbers.rank, [_floored("Cast", e) if whole else e for e in numbers.elements])]


_WHOLE = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.UINT64, ir.DataType.UINT32, ir.DataType.INT16})


def _floored(name: str, element: Element) -> Element:
    """A size is whole already; a product with a fraction is not."""
    if element is None or any(s.startswith(_FRACTION) for s in element.symbols):
        return _invented(name, [element])
    return element


def _floor(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    numbers = a.numbers(node.inputs[0])
    return None if numbers is None else [Numbers(numbers.rank, [_floored(node.op_type, e) for e in numbers.elements])]


def _gather(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    data, index = a.numbers(node.inputs[0]), a.numbers(node.inputs[1])
    positions = None if index is None else index.integers()
    if data is None or index is None or positions is None or data.rank != 1:
        return None
    return [Numbers(index.rank, [data.elements[i] for i in positions])]


def _slice(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    data, *bounds = [a.numbers(v) for v in node.inputs]
    if data is None or data.rank != 1:
        return None
    found = [None if b is None else b.integers() for b in bounds]
    if any(f is None for f in (*found[:2], *(f for f, v in zip(found[2:], node.inputs[3:], strict=False) if v))):
        return None
    start, end = found[0], found[1]
    step = found[3] if len(found) > 3 and found[3] else [1]
    return [Numbers(1, data.elements[start[0] : _end(end[0]) : step[0]])]  # type: ignore[index]


def _end(end: int) -> int | None:
    return None if abs(end) >= 2**31 - 1 else end


def _concat(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    parts = _operands(a, node)
    if parts is None or any(p.rank != 1 for p in parts):
        return None
    elements = [e for p in parts for e in p.elements]
    return [Numbers(1, elements)] if len(elements) <= LONGEST else None


def _reshaped(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    numbers, shape = a.numbers(node.inputs[0]), node.outputs[0].shape
    if numbers is None or shape is None or len(shape) > 1:
        return None
    return [Numbers(len(shape), numbers.elements)]


def _split(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    numbers = a.numbers(node.inputs[0])
    sizes = a.integers(node.inputs[1]) if len(node.inputs) > 1 else None
    if numbers is None:
        return None
    count = len(node.outputs)
    if sizes is None:
        if len(node.inputs) > 1 or len(numbers.elements) % count:
            return None
        sizes = [len(numbers.elements) // count] * count
    ends = np.cumsum([0, *sizes]).tolist()
    return [Numbers(1, numbers.elements[s:e]) for s, e in pairwise(ends)]


def _filled(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    length = a.integers(node.inputs[0])
    if length is None or len(length) > 1 or (length and length[0] > LONGEST):
        return None
    value = node.attributes.get("value")
    element = from_array(value.as_tensor().numpy()) if value is not None else Numbers(1, [Size(0)])
    return None if element is None else [Numbers(len(length), list(element.elements) * (length[0] if length else 1))]


def _expand(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    numbers, target = a.numbers(node.inputs[0]), a.integers(node.inputs[1])
    if numbers is None or target is None or len(target) > 1 or (target and target[0] > LONGEST):
        return None
    length = max(target[0] if target else 1, len(numbers.elements))
    elements = list(numbers.elements) * (length if len(numbers.elements) == 1 else 1)
    return [Numbers(max(numbers.rank, len(target)), elements)]


# Arithmetic


def _elementwise(function: Callable[..., Element]) -> Callable[[Symbols, ir.Node], list[Numbers] | None]:
    def rule(a: Symbols, node: ir.Node) -> list[Numbers] | None:
        operands = _operands(a, node)
        if operands is None:
            return None
        length = max(len(n.elements) for n in operands)
        columns = [n.elements * (length if len(n.elements) == 1 else 1) for n in operands]
        if any(len(c) != length for c in columns):
            return None
        return [Numbers(max(n.rank for n in operands), [function(*row) for row in zip(*columns, strict=True)])]

    return rule


def _add(a: Element, b: Element) -> Element:
    if a == Size(0):
        return b
    if b == Size(0):
        return a
    if a is not None and b is not None and a.symbols == b.symbols:
        return Size(a.number + b.number, a.symbols if a.number + b.number else ())
    return _invented("Add", [a, b])


def _neg(a: Element) -> Element:
    return None if a is None else Size(-a.number, a.symbols)


def _sub(a: Element, b: Element) -> Element:
    if a is not None and b is not None and a.symbols != b.symbols and b.number:
        return _invented("Sub", [a, b])
    return _add(a, _neg(b))


def _mul(a: Element, b: Element) -> Element:
    if a is None or b is None:
        return None
    return a * b if a.number * b.number else Size(0)


def _div(a: Element, b: Element) -> Element:
    if a is None or b is None:
        return None
    exact = a.over(b)
    return exact if exact is not None else _invented("Div", [a, b])


def _mod(a: Element, b: Element) -> Element:
    if a is None or b is None:
        return None
    if a.known is not None and b.known:
        return Size(a.known % b.known)
    return Size(0) if a.over(b) is not None else _invented("Mod", [a, b])


def _chosen(name: str, pick: Callable[[int, int], int]) -> Callable[..., Element]:
    def choose(*elements: Element) -> Element:
        best = elements[0]
        for element in elements[1:]:
            if best is None or element is None:
                return None
            if best == element:
                continue
            if best.known is None or element.known is None:
                best = _invented(name, [best, element])
            else:
                best = Size(pick(best.known, element.known))
        return best

    return choose


def _compared(name: str, test: Callable[[int, int], bool]) -> Callable[[Element, Element], Element]:
    def compare(a: Element, b: Element) -> Element:
        if a is None or b is None:
            return None
        if a.symbols == b.symbols and (not a.symbols or a.number == b.number):
            return Size(int(test(a.number, b.number)))
        for size, other, flipped in ((a, b, False), (b, a, True)):
            if size.number > 0 and other.known is not None and other.known < 0 and size.symbols:
                return Size(int(test(-1, 0) if flipped else test(0, -1)))  # a size is never below 0
        return _invented(name, [a, b])

    return compare


def _where(condition: Element, a: Element, b: Element) -> Element:
    if a == b:
        return a
    if condition is not None and condition.known is not None:
        return a if condition.known else b
    return _invented("Where", [condition, a, b])


def _logic(name: str, test: Callable[..., bool]) -> Callable[..., Element]:
    def decide(*elements: Element) -> Element:
        known = [None if e is None else e.known for e in elements]
        if None in known:
            return _invented(name, elements)
        return Size(int(test(*map(bool, known))))

    return decide


def _reduce_product(a: Symbols, node: ir.Node) -> list[Numbers] | None:
    numbers = a.numbers(node.inputs[0])
    if numbers is None or any(e is None for e in numbers.elements):
        return None
    total = product(e for e in numbers.elements if e is not None)
    return [Numbers(1 if node.attributes.get_int("keepdims", 1) else 0, [total if numbers.elements else ONE])]


_RULES: dict[str, Callable[[Symbols, ir.Node], list[Numbers] | None]] = {
    "Shape": _shape,
    "Size": _size,
    "Identity": _same,
    "Cast": _cast,
    "Floor": _floor,
    "Ceil": _floor,
    "Round": _floor,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    "Reshape": _reshaped,
    "Split": _split,
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Add": _elementwise(_add),
    "Sub": _elementwise(_sub),
    "Neg": _elementwise(_neg),
    "Mul": _elementwise(_mul),
    "Div": _elementwise(_div),
    "Mod": _elementwise(_mod),
    "Max": _elementwise(_chosen("Max", max)),
    "Min": _elementwise(_chosen("Min", min)),
    "Equal": _elementwise(_compared("Equal", lambda p, q: p == q)),
    "Greater": _elementwise(_compared("Greater", lambda p, q: p > q)),
    "GreaterOrEqual": _elementwise(_compared("GreaterOrEqual", lambda p, q: p >= q)),
    "Less": _elementwise(_compared("Less", lambda p, q: p < q)),
    "LessOrEqual": _elementwise(_compared("LessOrEqual", lambda p, q: p <= q)),
    "Not": _elementwise(_logic("Not", lambda p: not p)),
    "And": _elementwise(_logic("And", lambda p, q: p and q)),
    "Or": _elementwise(_logic("Or", lambda p, q: p or q)),
    "Where": _elementwise(_where),
    "ReduceProd": _reduce_product,
}
