"""Dimensions as vectors: lists of numbers where the shapes are known, int64 values at run time where not."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter

__all__ = ["Vector", "difference", "dims", "entry", "joined", "known_dims", "product"]

Vector = list[int] | ir.Value


def known_dims(value: ir.Value, start: int = 0, end: int | None = None) -> list[int] | None:
    """Dimensions `start` to `end` where all of them are known numbers."""
    if value.shape is None:
        return None
    dims = value.shape[start:end]
    return [int(d) for d in dims] if all(isinstance(d, int) for d in dims) else None  # type: ignore[arg-type]


def dims(op: Emitter, value: ir.Value, start: int = 0, end: int | None = None) -> Vector:
    """Dimensions `start` to `end`, at run time where they are not known."""
    known = known_dims(value, start, end)
    return op.Shape(value, start=start, end=end) if known is None else known


def joined(op: Emitter, *parts: Vector) -> Vector:
    """Parts of a shape as one, constant where all are."""
    if any(isinstance(part, ir.Value) for part in parts):
        return op.Concat(*(part for part in parts if isinstance(part, ir.Value) or part), axis=0)
    return [d for part in parts if isinstance(part, list) for d in part]


def entry(op: Emitter, values: Vector, index: int) -> Vector:
    """One entry of a vector, still a vector."""
    return values[index : index + 1] if isinstance(values, list) else op.Slice(values, [index], [index + 1])


def difference(op: Emitter, a: Vector, b: Vector) -> Vector:
    """a - b, constant where both are."""
    if isinstance(a, list) and isinstance(b, list):
        return [i - j for i, j in zip(a, b, strict=True)]
    return op.Sub(a, b)


def product(op: Emitter, values: Vector) -> Vector:
    """The product of all entries, as a vector of one."""
    return [math.prod(values)] if isinstance(values, list) else op.ReduceProd(values, [0], keepdims=1)
