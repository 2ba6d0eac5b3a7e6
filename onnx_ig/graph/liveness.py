"""How many bytes are alive at once while a graph runs, as far as shapes are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

__all__ = ["Liveness"]

_MARGIN = 2.0
"""Runtimes reorder layouts and leave gaps between blocks: measured 1.5 on a convolutional network."""


@dataclass(frozen=True)
class _Size:
    """Bytes of a value: a number times the symbols; None where the shape is not known."""

    known: int
    symbols: tuple[str, ...]


class Liveness:
    """Sizes and lifetimes of the values of a model that depend on its inputs; keeps no weights.

    `peak` is an estimate: a value without a shape counts as the largest of those that have one, a symbol that nothing
    says is `default`.
    """

    def __init__(self, model: ir.Model):
        self._inputs = {v.name or "": tuple(_symbols(v)) for v in model.graph.inputs}
        self._program = _Program(model.graph, set(model.graph.inputs))

    def peak(self, feeds: Mapping[str, np.ndarray], sizes: Mapping[str, int], default: int) -> float:
        """Bytes for feeds of these shapes. `sizes` gives symbols by hand; the other ones are read off the feeds."""
        known = {
            symbol: size
            for name, symbols in self._inputs.items()
            if name in feeds
            for symbol, size in zip(symbols, feeds[name].shape, strict=False)
            if symbol is not None
        }
        return _MARGIN * self._program.peak({**known, **sizes}, default)


class _Program:
    """A graph as a list of what comes alive and what dies at every node."""

    def __init__(self, graph: ir.Graph, given: Iterable[ir.Value]):
        alive = set(given)
        self.sizes: list[_Size | None] = []
        self.steps: list[tuple[list[int], list[int], list[_Program]]] = []
        index: dict[ir.Value, int] = {}
        kept = set(graph.outputs)
        nodes: list[ir.Node] = []
        for node in graph:
            if any(v in alive for v in node.inputs if v is not None) or _depends(node, alive):
                alive.update(node.outputs)
                nodes.append(node)
        last = {v: i for i, n in enumerate(nodes) for v in (*n.inputs, *_captured(n)) if v is not None}
        dies: dict[int, list[int]] = {}
        for i, node in enumerate(nodes):
            born = []
            for value in node.outputs:
                index[value] = len(self.sizes)
                born.append(index[value])
                self.sizes.append(_size(value))
                if value not in kept:
                    dies.setdefault(last.get(value, i), []).append(index[value])
            inner = [_Program(g, [*alive, *g.inputs]) for g in _bodies(node)]
            self.steps.append((born, [], inner))
        for i, values in dies.items():
            self.steps[i][1].extend(values)

    def peak(self, symbols: Mapping[str, int], default: int) -> float:
        bytes_ = [None if s is None else s.known * prod(symbols.get(n, default) for n in s.symbols) for s in self.sizes]
        largest = max((b for b in bytes_ if b is not None), default=0)
        sizes: Sequence[int] = [largest if b is None else b for b in bytes_]
        now = most = 0.0
        for born, dead, inner in self.steps:
            now += sum(sizes[i] for i in born)
            most = max(most, now + max((p.peak(symbols, default) for p in inner), default=0.0))
            now -= sum(sizes[i] for i in dead)
        return most


def _symbols(value: ir.Value) -> list[str | None]:
    return [None if isinstance(d, int) else d.value for d in value.shape or ()]


def _size(value: ir.Value) -> _Size | None:
    if value.shape is None or value.dtype is None or value.dtype == ir.DataType.STRING:
        return None
    known, symbols = value.dtype.itemsize, []
    for dim in value.shape:
        if isinstance(dim, int):
            known *= dim
        else:
            symbols.append(dim.value or "")
    return _Size(int(known), tuple(symbols))


def _bodies(node: ir.Node) -> list[ir.Graph]:
    return [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]


def _captured(node: ir.Node) -> set[ir.Value]:
    """Outer values that the bodies of a node read."""
    found: set[ir.Value] = set()
    for graph in _bodies(node):
        for inner in graph:
            found.update(v for v in (*inner.inputs, *_captured(inner)) if v is not None)
    return found


def _depends(node: ir.Node, alive: set[ir.Value]) -> bool:
    return not alive.isdisjoint(_captured(node))
