"""The types that a reverse walk computes in: float32 where the model has narrower floats or integers, else its own.

Half precision overflows at 65504 and has its steps at 1e-8, so products of cotangents lose themselves in it; bfloat16 has
kernels for little more than the forward pass; and the integers of a quantised model stand for floats. So cotangents of
all of these are float32, and a rule sees the values of its node as float32 too.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter, is_float

__all__ = ["INTEGERS", "View", "cotangent_type", "in_type"]

INTEGERS = frozenset(
    {
        ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32,
        ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E4M3FNUZ,
        ir.DataType.FLOAT8E5M2, ir.DataType.FLOAT8E5M2FNUZ, ir.DataType.FLOAT4E2M1,
    }
)  # fmt: skip
"""Types that quantised values have: where an operator hands them on, their cotangent is that of the float they stand for."""

_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_SMALL = 1024


def cotangent_type(value: ir.Value) -> ir.DataType | None:
    """Element type of the cotangent of `value`; None for what keeps its own: lists, and what has no known type."""
    if not isinstance(value.type, ir.TensorType):
        return None
    if value.dtype in _NARROW or value.dtype in INTEGERS:
        return ir.DataType.FLOAT
    return value.dtype if is_float(value.dtype) else None


def in_type(op: Emitter, value: ir.Value, dtype: ir.DataType | None) -> ir.Value:
    """`value` cast to `dtype` where it has another known type."""
    if dtype is None or value.dtype is None or value.dtype == dtype:
        return value
    cast: ir.Value = op.Cast(value, to=dtype.value)
    cast.shape = None if value.shape is None else value.shape.copy()
    return cast


class View:
    """Values as the rules of one walk see them; each is cast once. `active` are the values on the path."""

    def __init__(self, op: Emitter, active: Collection[ir.Value]):
        self._op = op
        self._active = active
        self._seen: dict[ir.Value, ir.Value] = {}
        self._own: dict[ir.Value, ir.Value] = {}

    def see(self, value: ir.Value) -> ir.Value:
        """`value` in the type that the walk computes in."""
        narrow = value.dtype in _NARROW and isinstance(value.type, ir.TensorType)
        if not narrow and not (value.dtype in INTEGERS and value in self._active):
            return value
        if value not in self._seen:
            self._seen[value] = self._cast(value)
            self._own[self._seen[value]] = value
        return self._seen[value]

    def own(self, value: ir.Value) -> ir.Value:
        """The value of the model behind one that `see` gave."""
        return self._own.get(value, value)

    def close(self) -> None:
        """Remove the casts that no rule read."""
        for cast in self._own:
            node = cast.producer()
            if node is not None and not cast.uses() and not cast.is_graph_output() and node.graph is not None:
                node.graph.remove(node, safe=True)

    def _cast(self, value: ir.Value) -> ir.Value:
        tensor = value.const_value
        if tensor is not None and tensor.nbytes <= _SMALL and not value.is_graph_input():
            return self._op.constant(tensor.numpy().astype(np.float32))
        return in_type(self._op, value, ir.DataType.FLOAT)
