"""What the expansion of a fused node works with, and the table it registers in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.upgrade.adapter import Inserter, Old

__all__ = ["FUSED", "MICROSOFT", "ML", "REASON", "Fused", "Unexpanded", "fused"]

MICROSOFT = "com.microsoft"
ML = "ai.onnx.ml"

REASON = "onnx_ig.reason"
"""Key in `node.meta` of a node that stays as it is: (why it cannot be taken apart, what to do)."""

Expansion = Callable[["Fused"], None]
FUSED: dict[tuple[str, str], Expansion] = {}
"""(domain, operator) -> the function that writes a node out in standard operators."""


def fused(*operators: str, domain: str = MICROSOFT) -> Callable[[Expansion], Expansion]:
    """Decorator: the function writes nodes of these operators out in standard ones."""

    def register(function: Expansion) -> Expansion:
        for operator in operators:
            FUSED[domain, operator] = function
        return function

    return register


class Unexpanded(Exception):
    """Raised inside an expansion: the node stays; where it lies on a differentiated path it is refused for `reason`."""

    def __init__(self, reason: str, remedy: str = ""):
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class Fused(Old):
    """A node to be written out. Unlike a node of an old opset it keeps its attributes, in case it has to stay."""

    def __init__(self, node: ir.Node, op: Inserter, imports: dict[str, int]):
        super().__init__(node, op)
        self.opset = op.opset
        self._imports = imports

    def at_least(self, opset: int) -> None:
        """Raise the model to an opset that has what is to be emitted; from 20 to 21 no operator changes its meaning."""
        self.op.opset = self._imports[""] = max(self._imports[""], opset)

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; `default` where the node has none."""
        attribute = self.node.attributes.get(name)
        return default if attribute is None or attribute.value is None else attribute.value

    def need(self, index: int) -> ir.Value:
        """Operand `index`, which the operator requires."""
        value = self.operand(index)
        if value is None:
            raise Unexpanded(f"its required operand {index} is missing", "The file is not valid.")
        return value

    def dtype(self, value: ir.Value) -> ir.DataType:
        """Element type; the node stays where it is not known."""
        if value.dtype is None:
            raise Unexpanded(f"the type of its operand {value.name!r} is not known", "Check the types in the file.")
        return value.dtype

    def ranked(self, value: ir.Value) -> int:
        """Number of axes; the node stays where it is not known."""
        if value.shape is None:
            raise Unexpanded(
                f"the rank of its operand {value.name!r} is not known",
                "Run onnx.shape_inference, or declare the shapes of the model's inputs.",
            )
        return len(value.shape)

    def dim(self, value: ir.Value, axis: int) -> int | None:
        """The length of an axis where the file fixes it."""
        if value.shape is None or not -len(value.shape) <= axis < len(value.shape):
            return None
        dim = value.shape[axis]
        return int(dim) if isinstance(dim, int) else None

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The array of an operand that the file fixes, else None."""
        if value is None or value.const_value is None or value.is_graph_input():
            return None
        return value.const_value.numpy()

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """`value` in another type, itself where it has it already."""
        return value if value.dtype == dtype else self.op.Cast(value, to=dtype.value)

    def size(self, value: ir.Value, axis: int) -> ir.Value | list[int]:
        """The length of an axis as an operand of one entry: a constant where known. `axis` counts from the start."""
        known = self.dim(value, axis)
        return [known] if known is not None else self.op.Shape(value, start=axis, end=axis + 1)

    def reshape(self, value: ir.Value, *parts: ir.Value | list[int]) -> ir.Value:
        """`value` in the shape of the joined parts; -1 and 0 as in Reshape (0 copies)."""
        if all(isinstance(p, list) for p in parts):
            return self.op.Reshape(value, [d for p in parts for d in p])  # type: ignore[union-attr]
        return self.op.Reshape(value, self.op.Concat(*parts, axis=0))

    def used(self, index: int) -> bool:
        """Whether something takes output `index`."""
        return self.used_output(index)

    def replace(self, *values: ir.Value | None) -> None:
        """Take the node out; `values` stand for its outputs under their names, None where nothing takes the output."""
        given: set[ir.Value] = {v for v in self.node.inputs if v is not None}
        for old, new in zip(self.node.outputs, values, strict=False):
            if not old.name or new is None:
                continue
            if new in given:
                new = self.op.Identity(new)
            given.add(new)
            new.type, new.shape = new.type or old.type, old.shape
            new.doc_string = old.doc_string
            new.metadata_props.update(old.metadata_props)
            name, old.name = old.name, None
            new.name = name
            old.replace_all_uses_with(new, replace_graph_outputs=True)
        self.op.graph.remove(self.node, safe=True)

    def stand_in(self, value: ir.Value, index: int = 0) -> None:
        """Let `value` stand for one output; the node stays where something takes its others."""
        if not any(self.used(i) for i in range(len(self.node.outputs)) if i != index):
            self.replace(*(value if i == index else None for i in range(len(self.node.outputs))))
            return
        own = self.node.outputs[index]
        name, own.name = own.name, self.op.names.fresh(f"{own.name}_fused")
        value.name, value.type, value.shape = name, value.type or own.type, own.shape
        own.replace_all_uses_with(value, replace_graph_outputs=True)
        self.node.meta[REASON] = (
            "only its main output can be differentiated",
            "Choose values that do not need others.",
        )
