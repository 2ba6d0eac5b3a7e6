"""What an adapter works with, and the table it registers in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ig.errors import ModelError
from onnx_ig.graph.emit import Emitter

__all__ = ["ADAPTERS", "FOREVER", "Adapter", "Inserter", "Old", "adapter"]

FOREVER = 1 << 30
"""`until` of operators that were removed: every opset that has them is too old."""

Adapter = Callable[["Old"], None]
ADAPTERS: defaultdict[str, list[tuple[int, Adapter]]] = defaultdict(list)
"""operator -> [(until, adapter)], in order of `until`."""


def adapter(*operators: str, until: int) -> Callable[[Adapter], Adapter]:
    """Decorator: the function brings nodes of these operators, of an opset below `until`, to the form of `until`."""

    def register(function: Adapter) -> Adapter:
        for operator in operators:
            ADAPTERS[operator].append((until, function))
            ADAPTERS[operator].sort(key=lambda entry: entry[0])
        return function

    return register


class Inserter(Emitter):
    """An emitter that inserts ahead of a node of the graph and derives the names of new nodes from it."""

    before: ir.Node

    def place(self, node: ir.Node) -> None:
        self.graph.insert_before(self.before, node)

    def node_name(self, op_type: str) -> str:
        return self.names.fresh(f"{self.before.name}_{op_type}" if self.before.name else f"ig_{op_type}")


class Old:
    """A node of an old opset.

    `op` emits ahead of it, in the opset that the model is brought to; `opset` is what the node was written for.
    """

    def __init__(self, node: ir.Node, op: Inserter):
        self.node = node
        self.op = op
        self.opset: int = node.version or 0
        op.before = node

    def take(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, which the node loses; `default` where it has none."""
        attribute = self.node.attributes.pop(name, None)
        return default if attribute is None or attribute.value is None else attribute.value

    def put(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def operand(self, index: int) -> ir.Value | None:
        """Operand `index`; None where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    @property
    def x(self) -> ir.Value:
        """The first operand. Raises ModelError where it is missing."""
        value = self.operand(0)
        if value is None:
            raise self.refuse("it has no operand")
        return value

    def put_operand(self, index: int, value: ir.Value | Sequence[int] | np.ndarray | None) -> None:
        """Set operand `index`; a list becomes an int64 constant."""
        if value is not None and not isinstance(value, ir.Value):
            value = self.op.constant(np.asarray(value, None if isinstance(value, np.ndarray) else np.int64))
        if index >= len(self.node.inputs):
            self.node.resize_inputs(index + 1)
        self.node.replace_input_with(index, value)

    def rank(self, value: ir.Value | None) -> int | None:
        """Number of axes; None where it is not known."""
        return None if value is None or value.shape is None else len(value.shape)

    def like(self, number: float, x: ir.Value) -> ir.Value:
        """A scalar in the type of `x`, whether or not that is known."""
        if x.dtype is not None:
            with np.errstate(over="ignore"):  # a float32 bound that float16 cannot hold is inf there
                return self.op.constant(np.asarray(number, np.float64).astype(x.dtype.numpy()))
        return self.op.CastLike(np.float32(number), x)

    def named_output(self, index: int) -> bool:
        """Whether output `index` is there, used or not."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index].name)

    def used_output(self, index: int) -> bool:
        """Whether a node or the graph's outputs take output `index`."""
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.uses()) or output.is_graph_output()

    def replace(self, *values: ir.Value) -> None:
        """Take the node out; `values`, newly emitted, stand for its outputs under their names."""
        graph = self.op.graph
        for old, new in zip(self.node.outputs, values, strict=False):
            new.type = old.type if old.type is not None else new.type
            new.shape = old.shape
            new.doc_string = old.doc_string
            new.metadata_props.update(old.metadata_props)
            name, old.name = old.name, None
            new.name = name
            old.replace_all_uses_with(new, replace_graph_outputs=True)
        graph.remove(self.node, safe=True)

    def refuse(self, reason: str) -> ModelError:
        """`raise old.refuse(...)`."""
        return ModelError(f"{self.node.op_type} (node {self.node.name!r}) of opset {self.opset}: {reason}")
