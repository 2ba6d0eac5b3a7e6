"""Lists of tensors and optional values, resolved to the tensors in them where their construction can be followed.

Exporters write lists where the source had Python lists: most have a fixed length, or are a tensor cut along one axis.
What remains (lists whose length only the run knows) is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.appending import stack_appended
from onnx_ig.graph.names import Names
from onnx_ig.graph.subgraphs import subgraphs
from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = ["resolve_sequences"]


def resolve_sequences(model: ir.Model) -> bool:
    """Replace what is read from lists and optional values by what was put in, in place.

    Returns whether anything was changed, so that types and shapes are to be inferred again.
    """
    dims = (d for v in model.graph.inputs if v.shape is not None for d in v.shape if isinstance(d, ir.SymbolicDim))
    symbols = frozenset(d.value for d in dims if d.value is not None)
    found = _Resolver(Names(model), model.opset_imports[""], symbols)
    found.visit(model.graph)
    if found.changed:
        for graph in model.graphs():
            _remove_unread(graph)
    return found.changed


@dataclass
class _Resolver:
    """What is known of the lists seen so far: their tensors, or the tensor that they cut into slices of length 1.

    `symbols` are the dimensions of the model's inputs, which no iteration of a loop changes.
    """

    names: Names
    opset: int
    symbols: frozenset[str]
    changed: bool = False
    elements: dict[ir.Value, list[ir.Value]] = field(default_factory=dict)
    slices: dict[ir.Value, _Slices] = field(default_factory=dict)
    held: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def visit(self, graph: ir.Graph) -> None:
        op = Inserter(graph, self.names, self.opset)
        for node in list(graph):
            for inner in subgraphs(node):
                self.visit(inner)
            if node.domain == "" and node.op_type in _READERS:
                op.before = node
                _READERS[node.op_type](self, node, op)

    def steady(self, value: ir.Value) -> bool:
        """Whether the shape of a value of a loop body is known to be the same in every iteration."""
        dims = [None] if value.shape is None else list(value.shape)
        return all(isinstance(d, int) or getattr(d, "value", None) in self.symbols for d in dims)

    def replace(self, node: ir.Node, value: ir.Value) -> None:
        """The only output of `node` is `value`."""
        _rewrite(node, "Identity", [value])
        self.changed = True


@dataclass(frozen=True)
class _Slices:
    """The list of x[..., i, ...] along `axis`; the axis stays, of length 1, where `keeps`."""

    tensor: ir.Value
    axis: int
    keeps: bool


def _construct(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    r.elements[node.outputs[0]] = [v for v in node.inputs if v is not None]


def _same(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    x, y = node.inputs[0], node.outputs[0]
    if x is None:
        return
    for known in (r.elements, r.slices, r.held):
        if x in known:
            known[y] = known[x]  # type: ignore[assignment]


def _insert(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    before, tensor = _elements(r, node), node.inputs[1]
    position = _position(node, 2)
    if before is None or tensor is None or position is None:
        return
    at = len(before) if position == _LAST else position + len(before) if position < 0 else position
    r.elements[node.outputs[0]] = [*before[:at], tensor, *before[at:]]


def _erase(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    before = _elements(r, node)
    position = _position(node, 1)
    if not before or position is None:
        return
    at = -1 if position == _LAST else position
    after = list(before)
    del after[at]
    r.elements[node.outputs[0]] = after


def _split(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    x, sizes = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    axis, keeps = _integer(node, "axis", 0), bool(_integer(node, "keepdims", 1))
    if x is None:
        return
    if sizes is None:
        r.slices[node.outputs[0]] = _Slices(x, axis, keeps)
        return
    fixed = _constant(sizes)
    length = x.shape[axis] if x.shape is not None else None
    if fixed is None:
        return
    if fixed.ndim == 0:
        if not isinstance(length, int):
            return
        size = int(fixed)
        fixed = np.array([min(size, length - start) for start in range(0, length, size)])
    if fixed.size == 0:
        return
    parts = op.Split(x, fixed.astype(np.int64), axis=axis, outputs=len(fixed))
    r.elements[node.outputs[0]] = list(parts) if len(fixed) > 1 else [parts]
    r.changed = True


def _at(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    elements, position = _elements(r, node), node.inputs[1]
    fixed = _constant(position)
    if elements is not None and fixed is not None and -len(elements) <= fixed < len(elements):
        r.replace(node, elements[int(fixed)])
    cut = r.slices.get(node.inputs[0]) if node.inputs[0] is not None else None
    if cut is not None:
        taken = op.Gather(cut.tensor, position, axis=cut.axis)
        r.replace(node, op.Unsqueeze(taken, [cut.axis]) if cut.keeps else taken)


def _length(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    elements = _elements(r, node)
    cut = r.slices.get(node.inputs[0]) if node.inputs[0] is not None else None
    if elements is not None:
        r.replace(node, op.constant(np.asarray(len(elements), np.int64)))
    elif cut is not None:
        end = cut.axis + 1 if cut.axis != -1 else None
        r.replace(node, op.Squeeze(op.Shape(cut.tensor, start=cut.axis, end=end), [0]))


def _concat(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    elements, axis, new = _elements(r, node), _integer(node, "axis", 0), bool(_integer(node, "new_axis", 0))
    cut = r.slices.get(node.inputs[0]) if node.inputs[0] is not None else None
    if elements:
        if new:
            elements = [op.Unsqueeze(v, [axis]) for v in elements]
        _rewrite(node, "Concat", elements, axis=axis)
        r.changed = True
    elif cut is not None:
        joined = _joined(cut, axis, new, op)
        if joined is not None:
            r.replace(node, joined)


def _joined(cut: _Slices, axis: int, new: bool, op: Inserter) -> ir.Value | None:
    """The slices of a tensor put together again: the tensor, its axes in another order, or two of them as one."""
    x = cut.tensor
    if cut.axis == axis and cut.keeps != new:
        return x
    if x.shape is None or (cut.keeps and new):
        return None
    rank = len(x.shape)
    source = cut.axis % rank
    if cut.keeps:  # joined along another axis: [.., 1, .., T * d, ..]
        target = axis % rank
        if target == source:
            return x
        x, source = op.Unsqueeze(x, [source + 1]), source
        rank, target = rank + 1, target if target < source else target + 1
    elif new:
        target = axis % rank
        return op.Transpose(x, perm=_moved(rank, source, target))
    else:
        target = axis % (rank - 1)
        target = target if target < source else target + 1
    others = [a for a in range(rank) if a != source]
    order = [*others[: others.index(target)], source, *others[others.index(target) :]]
    x = op.Transpose(x, perm=order)
    at = order.index(source)
    return op.Reshape(x, op.Concat(op.Shape(x, end=at), [-1], op.Shape(x, start=at + 2), axis=0))


def _moved(rank: int, source: int, target: int) -> list[int]:
    order = [a for a in range(rank) if a != source]
    order.insert(target, source)
    return order


def _loop(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    body_op = Inserter(node.attributes["body"].as_graph(), r.names, r.opset)
    for final, stack in stack_appended(node, lambda v: r.elements.get(v) == [], r.steady, op, body_op):
        r.slices[final] = _Slices(stack, 0, keeps=False)
        r.changed = True


def _wrap(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    if node.inputs and node.inputs[0] is not None:
        r.held[node.outputs[0]] = node.inputs[0]


def _unwrap(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    value = node.inputs[0]
    if value is None:
        return
    if value in r.held:
        value = r.held[value]
    elif not isinstance(value.type, ir.TensorType | ir.SequenceType):
        return
    r.replace(node, value)
    _same(r, node, op)


def _has(r: _Resolver, node: ir.Node, op: Inserter) -> None:
    value = node.inputs[0] if node.inputs else None
    if value is None:
        r.replace(node, op.constant(np.asarray(False)))
    elif value in r.held or isinstance(value.type, ir.TensorType | ir.SequenceType):
        r.replace(node, op.constant(np.asarray(True)))


_READERS: dict[str, Callable[[_Resolver, ir.Node, Inserter], None]] = {
    "ConcatFromSequence": _concat,
    "Identity": _same,
    "Loop": _loop,
    "Optional": _wrap,
    "OptionalGetElement": _unwrap,
    "OptionalHasElement": _has,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}

_LAST = 2**62


def _elements(r: _Resolver, node: ir.Node) -> list[ir.Value] | None:
    return None if node.inputs[0] is None else r.elements.get(node.inputs[0])


def _position(node: ir.Node, index: int) -> int | None:
    """A position that the file fixes; `_LAST` where it is left out, None where only the run knows it."""
    if index >= len(node.inputs) or node.inputs[index] is None:
        return _LAST
    fixed = _constant(node.inputs[index])
    return None if fixed is None else int(fixed)


def _constant(value: ir.Value | None) -> np.ndarray | None:
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def _integer(node: ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def _rewrite(node: ir.Node, op_type: str, inputs: list[ir.Value], **attributes: int) -> None:
    node.op_type = op_type
    node.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    node.attributes.clear()
    for name, number in attributes.items():
        node.attributes.add(ir.AttrInt64(name, number))


def _remove_unread(graph: ir.Graph) -> None:
    """Nodes that only built a list or an optional value that nothing reads any more."""
    for node in reversed(list(graph)):
        if (
            node.domain == ""
            and node.op_type in _READERS
            and node.op_type != "Loop"
            and not any(v.uses() or v.is_graph_output() for v in node.outputs)
        ):
            graph.remove(node, safe=True)
