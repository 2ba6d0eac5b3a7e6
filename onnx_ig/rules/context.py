"""What a rule sees of the node it differentiates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter, is_float
from onnx_ig.graph.subgraphs import captured_values
from onnx_ig.rules import lists
from onnx_ig.rules.broadcast import sum_to_shape
from onnx_ig.rules.lowering import Lowering
from onnx_ig.rules.registry import Refusal
from onnx_ig.rules.view import View

__all__ = ["Context", "Walker"]


class Walker(Protocol):
    """The reverse walk, for rules of operators that hold subgraphs."""

    def differentiate(
        self,
        nodes: Sequence[ir.Node],
        of: Sequence[ir.Value],
        cotangents: Sequence[ir.Value],
        wrt: Sequence[ir.Value],
        op: Emitter,
    ) -> list[ir.Value | None]: ...

    def on_path(self, nodes: Sequence[ir.Node], of: Sequence[ir.Value], wrt: Sequence[ir.Value]) -> set[ir.Value]: ...


class Context:
    """One node, its operands, and an emitter to write its cotangents with.

    `op`        emits operators (`c.op.Mul(gy, b)`).
    `inputs`    operands, None where an optional one is left out; `outputs`, `output` (the first one).
    `captured`  values of outer scopes that the node's subgraphs read; they count as operands after `inputs`.
    `wanted`    which operands lie on the path (a rule may skip the others; what it returns for them is dropped).
    `lowering`  the forms that suit the runtime.

    With a view, operands and outputs are seen through it: narrow floats and integers on the path as float32, which is
    what their cotangents are.
    """

    def __init__(
        self,
        node: ir.Node,
        op: Emitter,
        lowering: Lowering,
        wanted: Sequence[bool],
        reference: Callable[[ir.Value], ir.Value] | None = None,
        walker: Walker | None = None,
        view: View | None = None,
    ):
        self.node = node
        self.op = op
        self.lowering = lowering
        self.wanted = tuple(wanted)
        self._view = view
        self.inputs: tuple[ir.Value | None, ...] = tuple(None if v is None else self.seen(v) for v in node.inputs)
        self.outputs: tuple[ir.Value, ...] = tuple(self.seen(v) for v in node.outputs)
        self.captured = captured_values(node)
        self._reference = reference
        self._walker = walker

    @property
    def output(self) -> ir.Value:
        return self.outputs[0]

    def input(self, index: int) -> ir.Value | None:
        """Operand `index`; None where it is left out or beyond the end."""
        return self.inputs[index] if index < len(self.inputs) else None

    def operand(self, index: int) -> ir.Value:
        """Operand `index`, which the standard requires."""
        value = self.input(index)
        if value is None:
            raise self.refuse(f"its required operand {index} is missing", "The model is not valid ONNX.")
        return value

    def wants(self, index: int) -> bool:
        return index < len(self.wanted) and self.wanted[index]

    def has_output(self, index: int) -> bool:
        """Whether the optional output `index` exists and has a name or a use."""
        return index < len(self.outputs) and bool(self.outputs[index].name)

    def ask_output(self, index: int, dtype: ir.DataType) -> ir.Value:
        """Optional output `index` of the node itself, added to the node where the model left it out."""
        if not self.has_output(index):
            if index >= len(self.node.outputs):
                self.node.resize_outputs(index + 1)
            self.node.outputs[index].name = self.op.names.numbered("ig")
            self.node.outputs[index].dtype = dtype
            self.outputs = tuple(self.seen(v) for v in self.node.outputs)
        return self.outputs[index]

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value (ints and floats as tuples); `default` where the node has none."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.value is None:
            return default
        value = attribute.value
        if attribute.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
            return tuple(value)
        return value

    def rank(self, value: ir.Value) -> int | None:
        """Number of axes; None where it is not known before run time."""
        return None if value.shape is None else len(value.shape)

    def static_shape(self, value: ir.Value) -> tuple[int, ...] | None:
        """Dimensions where all are known numbers, else None."""
        if value.shape is None or not all(isinstance(d, int) for d in value.shape):
            return None
        return tuple(int(d) for d in value.shape)  # type: ignore[arg-type]

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The array of an operand that the file fixes; None where it is computed or fed."""
        value = None if value is None else self.own(value)
        if value is None or value.const_value is None or value.is_graph_input():
            return None
        return value.const_value.numpy()

    def dtype(self, value: ir.Value) -> ir.DataType:
        """Element type; refused where shape inference could not tell."""
        if value.dtype is None:
            raise self.refuse(
                f"the type of {value.name!r} is not known", "Run onnx.shape_inference on the model and check its types."
            )
        return value.dtype

    def is_float(self, value: ir.Value | None) -> bool:
        return value is not None and is_float(value.dtype)

    def sum_to(self, g: ir.Value, broadcast: Iterable[int | ir.SymbolicDim] | None, x: ir.Value) -> ir.Value:
        """`g`, whose shape is `broadcast` as far as known, summed to the shape of `x`."""
        return sum_to_shape(self.op, g, broadcast, x)

    def size(self, value: ir.Value, axis: int) -> list[int] | ir.Value:
        """The length of one axis as a 1-element int64 operand: a constant where known, else read at run time.

        `axis` may be negative; the rank need not be known.
        """
        if value.shape is not None and -len(value.shape) <= axis < len(value.shape):
            dim = value.shape[axis]
            if isinstance(dim, int):
                return [dim]
        return self.op.Shape(value, start=axis, end=axis + 1 if axis != -1 else None)

    def reshape_like(self, g: ir.Value, value: ir.Value) -> ir.Value:
        """`g`, which has as many elements as `value`, in the shape of `value`.

        With at most one unknown dimension the shape is a constant; zero dimensions are taken literally.
        """
        dims = None if value.shape is None else [d if isinstance(d, int) else -1 for d in value.shape]
        if dims is not None and 0 not in dims and dims.count(-1) <= 1:
            return self.op.Reshape(g, dims)
        return self.op.Reshape(g, self.op.Shape(value), allowzero=1)

    def zeros_like(self, value: ir.Value) -> ir.Value:
        """Zeros of the shape and type of `value`, at any dynamic shape; a list of zeros for a sequence."""
        if lists.is_sequence(value):
            return lists.zeros_like(self.op, value)
        return self.zeros(self.op.Shape(value), value)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The sum of two cotangents of one value, tensors or sequences."""
        return lists.add(self.op, a, b)

    def zeros(self, shape: ir.Value, like: ir.Value) -> ir.Value:
        """Zeros of the type of `like`; `shape` is a 1-D int64 value."""
        return self.op.ConstantOfShape(shape, value=ir.tensor(np.zeros(1, self.dtype(like).numpy())))

    def mask(self, condition: ir.Value, like: ir.Value) -> ir.Value:
        """A boolean as 0 and 1 in the type of `like`."""
        return self.op.Cast(condition, to=self.dtype(like).value)

    def reference(self, value: ir.Value) -> ir.Value:
        """The same value in the forward pass on the reference (rule sets with a twin only)."""
        own = self.own(value)
        other = self._on_reference(own)
        return value if other is own else self.seen(other)

    def on_reference(self) -> Context:
        """The same node in the forward pass on the reference."""
        node = self._on_reference(self.own(self.output)).producer()
        if node is None:
            raise self.refuse("its reference is not computed by a node of its own")
        return Context(node, self.op, self.lowering, self.wanted, view=self._view)

    def _on_reference(self, value: ir.Value) -> ir.Value:
        if self._reference is None:
            raise self.refuse("its rule needs a reference forward pass, which this rule set has not")
        return self._reference(value)

    def seen(self, value: ir.Value) -> ir.Value:
        """A value of the model as the rule sees it."""
        return value if self._view is None else self._view.see(value)

    def own(self, value: ir.Value) -> ir.Value:
        """The value of the model behind what the rule sees: itself, but for narrow types."""
        return value if self._view is None else self._view.own(value)

    def with_inputs(self, inputs: Sequence[ir.Value | None]) -> Context:
        """The same node seen with other operands."""
        other = Context(self.node, self.op, self.lowering, self.wanted, self._reference, self._walker, self._view)
        other.inputs = tuple(inputs)
        return other

    def within(self, graph: ir.Graph) -> Context:
        """The same node seen by an emitter into `graph`, a subgraph that the rule builds."""
        return Context(
            self.node, self.op.scope(graph), self.lowering, self.wanted, self._reference, self._walker, self._view
        )

    def differentiate(
        self,
        nodes: Sequence[ir.Node],
        of: Sequence[ir.Value],
        cotangents: Sequence[ir.Value],
        wrt: Sequence[ir.Value],
    ) -> list[ir.Value | None]:
        """Emit the walk back through `nodes`, nodes of a subgraph in order, from `cotangents` of `of` to `wrt`.

        Returns one cotangent for each of `wrt`, None where nothing flows. What blocks it is reported with the other
        nodes of the outer walk.
        """
        if self._walker is None:
            raise self.refuse("its subgraphs cannot be walked here")
        return self._walker.differentiate(nodes, of, cotangents, wrt, self.op)

    def on_path(self, nodes: Sequence[ir.Node], of: Sequence[ir.Value], wrt: Sequence[ir.Value]) -> set[ir.Value]:
        """The values of `nodes` (and of `of`, `wrt`) on a differentiable path from `wrt` to `of`; emits nothing."""
        if self._walker is None:
            raise self.refuse("its subgraphs cannot be walked here")
        return self._walker.on_path(nodes, of, wrt)

    def refuse(self, reason: str, remedy: str = "") -> Refusal:
        """`raise c.refuse(reason, remedy)`: full sentences without the final dot in `reason`."""
        return Refusal(reason, remedy)
