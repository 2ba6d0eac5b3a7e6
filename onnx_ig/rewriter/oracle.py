"""The oracle: score and signal of one output at any points, as nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.errors import NoGradientPathError
from onnx_ig.graph.emit import Emitter, is_float
from onnx_ig.graph.subgraphs import ORIGIN
from onnx_ig.graph.types import infer_missing
from onnx_ig.paths import compute_type, to_type
from onnx_ig.reverse import Walk, reverse
from onnx_ig.rules import Lowering, RuleSet
from onnx_ig.twin import Twin

__all__ = ["Oracle", "no_path", "score"]


@dataclass
class Oracle:
    """A forward pass at `points` and, on demand, the signal of the rule set there.

    `points` maps values of the model to the values they have here; everything else is shared with the model's own nodes.
    """

    model: ir.Model
    op: Emitter
    nodes: Sequence[ir.Node]
    points: Mapping[ir.Value, ir.Value]
    output: ir.Value

    def __post_init__(self) -> None:
        self._twin = Twin(self.nodes, self.points, self.op)
        self.value = self._twin.value(self.output)
        infer_missing(self.model)
        self._twin.hand_down_shapes()

    @property
    def copies(self) -> Sequence[ir.Node]:
        """The nodes of this forward pass, in topological order."""
        return self._twin.nodes

    def signal(
        self,
        wrt: Sequence[ir.Value],
        cotangent: ir.Value,
        *,
        rules: RuleSet,
        lowering: Lowering,
        reference: Callable[[ir.Value], ir.Value] | None = None,
    ) -> list[ir.Value]:
        """The cotangents of the points of `wrt` (keys of `points`); zeros for one that has no path.

        Raises NoGradientPathError where none has, UnsupportedOperatorError for operators without a rule.
        """
        moved = [self.points[v] for v in wrt]
        walk = reverse(
            self.copies, [self.value], [cotangent], moved,
            op=self.op, rules=rules, lowering=lowering, reference=reference,
        )  # fmt: skip
        if all(c is None for c in walk.cotangents):
            raise no_path([v.name or "" for v in wrt], self.output.name or "", walk)
        return [self._zeros(v) if c is None else c for v, c in zip(moved, walk.cotangents, strict=True)]

    def _zeros(self, value: ir.Value) -> ir.Value:
        zero = np.zeros(1, value.dtype.numpy())  # type: ignore[union-attr]
        return self.op.ConstantOfShape(self.op.Shape(value), value=ir.tensor(zero))


def score(op: Emitter, y: ir.Value, cotangent: ir.Value, axis: int | None) -> ir.Value:
    """sum(y * cotangent) over all axes but the batch: [rows], or [] without a batch; float32 or float64.

    An entry of zero cotangent does not count, even where y is infinite (masked logits).
    """
    dtype = compute_type(y)
    product = op.Mul(to_type(op, y, dtype), to_type(op, cotangent, dtype))
    product = op.Where(op.Equal(cotangent, 0.0), 0.0, product)
    if axis is None:
        return op.ReduceSum(product, keepdims=0)
    if y.shape is None:  # of unknown rank: what is before and behind the batch, each as one axis
        dims = op.Shape(product)
        before = op.ReduceProd(op.Slice(dims, [0], [axis]), [0], keepdims=1)
        sizes = op.Concat(before, op.Slice(dims, [axis], [axis + 1]), [-1], axis=0)
        return op.ReduceSum(op.Reshape(product, sizes), [0, 2], keepdims=0)
    axes = [a for a in range(len(y.shape)) if a != axis]
    return op.ReduceSum(product, axes, keepdims=0) if axes else product


def no_path(wrt: Sequence[str], output: str, walk: Walk) -> NoGradientPathError:
    """The error for a walk that reached none of `wrt`."""
    names = ", ".join(map(repr, wrt))
    zeros = [f"{n.op_type} ({n.meta.get(ORIGIN, n.name)})" for n in walk.zeros]
    floats = [v for n in walk.zeros for v in n.inputs if v is not None and is_float(v.dtype)]
    before = list(dict.fromkeys(v.meta[ORIGIN] for v in floats if ORIGIN in v.meta))  # inputs and weights have none
    if not zeros:
        return NoGradientPathError(
            f"{output!r} does not depend on {names} through floating-point values; choose others"
        )
    message = (
        f"every path from {names} to {output!r} ends in an operator whose derivative is zero: {', '.join(zeros[:5])}"
    )
    if before:
        message += f". Attribute a value before it with output=, for example {', '.join(map(repr, before[:3]))}"
    else:
        message += ". No value before it can be attributed; a perturbation method (occlusion) explains such a model"
    return NoGradientPathError(message, zeros, before)
