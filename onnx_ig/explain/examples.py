"""Feeds made up from declared shapes, for `check` without data."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.lookups import classes
from onnx_ig.rewriter.subject import Subject
from onnx_ig.runtime.session import Array

__all__ = ["example_feeds"]


def example_feeds(subject: Subject) -> dict[str, Array]:
    """One sample for every input: small normal floats, ids within their tables, ones for masks.

    Symbols get the same size wherever they stand: 1 for a leading axis, 224 for the sides of pictures, 16 elsewhere.
    """
    rng = np.random.default_rng(0)
    sizes: dict[str, int] = {}
    tables = {s.name: _choices(s.values) if s.kind == "tokens" else 128 for s in subject.moved if s.indirect}
    return {v.name or "": _array(v, sizes, tables.get(v.name or ""), rng) for v in subject.graph.inputs}


def _array(value: ir.Value, sizes: dict[str, int], rows: int | None, rng: np.random.Generator) -> Array:
    name = (value.name or "").lower()
    shape = _shape(value, sizes)
    dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
    if dtype.kind == "b" or "mask" in name:
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        if rows is not None:
            return rng.integers(0, rows, shape).astype(dtype)
        return np.full(shape, shape[-1] if "len" in name and shape else 0, dtype)
    return (rng.standard_normal(shape) * 0.5).astype(dtype)


def _shape(value: ir.Value, sizes: dict[str, int]) -> tuple[int, ...]:
    dims = [] if value.shape is None else list(value.shape)
    picture = len(dims) == 4
    found = []
    for axis, dim in enumerate(dims):
        if isinstance(dim, int):
            found.append(dim)
            continue
        side = picture and (
            axis == 2 or (axis == 1 and isinstance(dims[3], int)) or (axis == 3 and isinstance(dims[1], int))
        )
        size = 1 if axis == 0 else 224 if side else 16
        found.append(sizes.setdefault(dim.value, size) if dim.value else size)
    return tuple(found)


def _choices(values: tuple[ir.Value, ...]) -> int:
    """How many ids there are in the smallest table that they index."""
    return min((n for n in map(classes, values) if n is not None), default=2)
