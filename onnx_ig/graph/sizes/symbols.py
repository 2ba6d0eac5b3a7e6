"""Dimensions and small integer values of a graph, followed node by node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.sizes.numbers import LONGEST, Numbers, compute, from_array
from onnx_ig.graph.sizes.size import ONE, Size, product

__all__ = ["ENTRY_BY_ENTRY", "Symbols", "completed"]

ENTRY_BY_ENTRY = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor",
    "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal",
    "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "StringConcat", "StringNormalizer", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
)  # fmt: skip
"""Operators that work entry by entry, with broadcasting."""


class Symbols:
    """Sizes as far as they are known, of a graph whose shapes have been inferred.

    Dimensions of one name are one size: the file says so of its inputs, inference of what it names itself. Where a node
    tells that a name of inference's own stands for something better known, that is kept.
    """

    def __init__(self) -> None:
        self._numbers: dict[ir.Value, Numbers | None] = {}
        self._aliases: dict[str, Size] = {}
        self._capped: dict[Size, tuple[Size, int]] = {}
        self._graph: ir.Graph | None = None

    def follow(self, node: ir.Node) -> list[Numbers] | None:
        """Take in what a node computes. Returns its outputs' numbers where it computes with sizes."""
        for value in node.outputs:  # a body may be followed again, under other circumstances
            self._numbers.pop(value, None)
        found = compute(self, node)
        if found is not None:
            self._numbers.update(zip(node.outputs, found, strict=True))
        self._graph = self._graph or node.graph
        dims = self.told(node) if node.graph is self._graph else None  # a branch need not run
        if dims is not None:
            self.learn(node.outputs[0], dims)
        return found

    def forget(self, value: ir.Value) -> None:
        """The value is another one now."""
        self._numbers.pop(value, None)

    # Dimensions

    def sizes(self, value: ir.Value | None) -> list[Size] | None:
        """The dimensions; None where not even their number is known."""
        if value is None or value.shape is None:
            return None
        return [self._size(value, axis, dim) for axis, dim in enumerate(value.shape)]

    def _size(self, value: ir.Value, axis: int, dim: int | ir.SymbolicDim) -> Size:
        if isinstance(dim, int):
            return Size(dim)
        if dim.value is None:
            return Size.named(f"{value.name}#{axis}")
        name = str(dim.value)
        return self._aliases.get(name) or Size.parse(name)

    def learn(self, value: ir.Value, dims: Sequence[Size | None]) -> None:
        """Names that inference gave dimensions of `value` stand for `dims`."""
        for dim, size in zip(value.shape or (), dims, strict=False):
            if isinstance(dim, int) or dim.value is None or size is None or size.open:
                continue
            if str(dim.value).startswith("unk__") and size != Size.named(str(dim.value)):
                self._aliases.setdefault(str(dim.value), size)

    def told(self, node: ir.Node) -> list[Size | None] | None:
        """Dimensions of the output, where the sizes known here tell more than inference; None elsewhere."""
        if node.domain != "":
            return None
        if node.op_type == "Reshape":
            return self._reshaped(node)
        if node.op_type == "Expand":
            target = self.numbers(node.inputs[1])
            data = self.sizes(node.inputs[0])
            return None if target is None or data is None else self.met([data, list(target.elements)])
        if node.op_type == "ConstantOfShape":
            target = self.numbers(node.inputs[0])
            return None if target is None else list(target.elements)
        if node.op_type == "Range":
            return self._counted(node)
        if node.op_type == "Slice":
            return self._sliced(node)
        if node.op_type in ENTRY_BY_ENTRY:
            operands = [self.sizes(v) for v in node.inputs if v is not None]
            known = [d for d in operands if d is not None]
            return self.met(known) if len(known) == len(operands) > 1 else None
        return None

    def met(self, operands: Sequence[Sequence[Size | None]]) -> list[Size | None]:
        """Dimensions of an entry-by-entry result."""
        rank = max(len(d) for d in operands)
        columns = zip(*[(*[ONE] * (rank - len(d)), *d) for d in operands], strict=True)
        return [self._met(column) for column in columns]

    def _met(self, column: Sequence[Size | None]) -> Size | None:
        wide = {s for s in column if s != ONE}
        if not wide:
            return ONE
        for size in list(wide):  # min(T, 512) meets T: they are the same, or the runtime refuses
            cap = None if size is None else self._capped.get(size)
            if cap is not None and cap[0] in wide and cap[1] > 1:
                wide.discard(size)
        numbers = [s for s in wide if s is not None and s.known is not None]
        if numbers:
            return numbers[0]
        return wide.pop() if len(wide) == 1 else None

    def _reshaped(self, node: ir.Node) -> list[Size | None] | None:
        target, dims = self.numbers(node.inputs[1]), self.sizes(node.inputs[0])
        if target is None:
            return None
        wanted = list(target.elements)
        if not node.attributes.get_int("allowzero", 0):
            copied: Sequence[Size | None] = dims or [None] * len(wanted)
            wanted = [copied[i] if e == Size(0) and i < len(copied) else e for i, e in enumerate(wanted)]
        known = [e for e in wanted if e is not None]
        if Size(-1) not in wanted:
            return wanted
        rest = completed(dims, known) if dims is not None and len(known) == len(wanted) else None
        return [None if e == Size(-1) else e for e in wanted] if rest is None else list(rest)

    def _counted(self, node: ir.Node) -> list[Size | None] | None:
        start, limit, step = (self.numbers(v) for v in node.inputs)
        if start is None or limit is None or step is None or step.integers() != [1]:
            return None
        return list(limit.elements) if start.integers() == [0] else None

    def _sliced(self, node: ir.Node) -> list[Size | None] | None:
        dims = self.sizes(node.inputs[0])
        starts, ends, axes, steps = [self.numbers(v) for v in (*node.inputs, None, None)[1:5]]
        places = None if axes is None else axes.integers()
        if dims is None or starts is None or ends is None or places is None or (len(node.inputs) > 4 and steps is None):
            return None
        found: list[Size | None] = list(dims)
        jumps = steps.integers() if steps is not None else [1] * len(places)
        for index, axis in enumerate(places):
            start, end = starts.elements[index], ends.elements[index]
            from_start = start == Size(0) and jumps is not None and jumps[index] == 1
            found[axis % len(dims)] = self._cut(dims[axis % len(dims)], end) if from_start else None
        return found

    def _cut(self, dim: Size, end: Size | None) -> Size | None:
        """The length of the part up to `end`."""
        if end is None or (end.known is not None and end.known < 0):
            return None
        if end == dim or (end.known is not None and end.known >= 2**31 - 1):
            return dim
        if end.known is not None or dim.known is None:
            return Size(min(dim.known, end.known)) if dim.known is not None and end.known is not None else None
        cut = Size.named(f"Min({end},{dim})")
        self._capped[cut] = (end, dim.known)
        return cut

    # Values

    def numbers(self, value: ir.Value | None) -> Numbers | None:
        """The sizes in a scalar or vector of numbers; None where it is no such value."""
        if value is None:
            return None
        if value not in self._numbers and self.steady(value):
            self._numbers[value] = self._own_numbers(value)
        return self._numbers.get(value)

    def steady(self, value: ir.Value) -> bool:
        """Whether a value that no rule followed may be given symbols of its own."""
        return True

    def _own_numbers(self, value: ir.Value) -> Numbers | None:
        shape = value.shape
        if shape is None or len(shape) > 1 or value.dtype not in _NUMERIC:
            return None
        length = shape[0] if len(shape) else 1
        if not isinstance(length, int) or length > LONGEST:
            return None
        array = self.constant(value)
        if array is not None:
            return from_array(array)
        return Numbers(len(shape), [Size.named(f"{value.name}[{i}]") for i in range(length)])

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The array that the file fixes, else None."""
        if value is None or value.const_value is None or value.is_graph_input():
            return None
        return value.const_value.numpy()

    def integers(self, value: ir.Value | None) -> list[int] | None:
        """Numbers of an operand that are known before it runs; None where one is not."""
        numbers = self.numbers(value)
        return None if numbers is None else numbers.integers()


def completed(dims: Sequence[Size], wanted: Sequence[Size]) -> list[Size] | None:
    """A target shape with -1 replaced by what is left for it; None where that is no size for certain."""
    if Size(-1) not in wanted:
        return list(wanted)
    place = list(wanted).index(Size(-1))
    rest = product(dims).over(product(s for i, s in enumerate(wanted) if i != place))
    return None if rest is None else [*wanted[:place], rest, *wanted[place + 1 :]]


_NUMERIC = frozenset(
    {
        ir.DataType.INT64,
        ir.DataType.INT32,
        ir.DataType.BOOL,
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
    }
)
