"""A second forward pass over the same weights: the nodes that depend on some values, computed again from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.subgraphs import captured_values, copy_node, subgraphs

__all__ = ["Twin"]


class Twin:
    """Copies of `nodes` in which the values of `replaced` are replaced, made on demand.

    `value(v)` is `v` of the second pass: `v` itself where it does not depend on a replaced value. Weights are shared.
    `nodes` are the copies made so far, in topological order.
    """

    def __init__(self, nodes: Iterable[ir.Node], replaced: Mapping[ir.Value, ir.Value], op: Emitter):
        self._map = dict(replaced)
        self._op = op
        self.nodes: list[ir.Node] = []
        self._copied: list[tuple[ir.Value, ir.Value]] = []
        self._pending: dict[ir.Value, ir.Node] = {}
        depends = set(replaced)
        for node in nodes:
            reads = [*node.inputs, *captured_values(node)]
            if not depends.isdisjoint(v for v in reads if v is not None):
                fresh = [v for v in node.outputs if v not in self._map]
                depends.update(fresh)
                self._pending.update((v, node) for v in fresh)

    def value(self, value: ir.Value) -> ir.Value:
        """`value` of the second pass; copies the nodes it needs, each once."""
        stack = [value]
        while stack:
            current = stack[-1]
            node = self._pending.get(current)
            if current in self._map or node is None:
                stack.pop()
                continue
            waiting = [
                v
                for v in (*node.inputs, *captured_values(node))
                if v is not None and v not in self._map and v in self._pending
            ]
            if waiting:
                stack.extend(waiting)
                continue
            copied = copy_node(node, self._map, self._op)
            _forget_symbols(copied)
            self._copied.extend(zip(node.outputs, copied.outputs, strict=True))
            self.nodes.append(copied)
            for original, copy in zip(node.outputs, copied.outputs, strict=True):
                self._map.setdefault(original, copy)
            stack.pop()
        return self._map.get(value, value)

    def hand_down_shapes(self) -> None:
        """Ranks and fixed dimensions that inference did not find again, from the values that were copied.

        Nor did it where it found another rank: onnx follows the entries of computed shapes, not always rightly.
        """
        for original, copy in self._copied:
            if original.shape is not None and (copy.shape is None or len(copy.shape) != len(original.shape)):
                copy.shape = _without_symbols(original.shape)


def _forget_symbols(node: ir.Node) -> None:
    """Leave shapes with symbols to inference: the second pass may run on another number of rows.

    Inside subgraphs, where inference sees less, ranks and fixed dimensions stay.
    """
    for value in node.outputs:
        if value.shape is not None and not value.shape.is_static():
            value.shape = None
    for graph in subgraphs(node):
        _forget_inside(graph)


def _forget_inside(graph: ir.Graph) -> None:
    for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
        if value.shape is not None:
            value.shape = _without_symbols(value.shape)
    for inner in (g for node in graph for g in subgraphs(node)):
        _forget_inside(inner)


def _without_symbols(shape: ir.Shape) -> ir.Shape:
    return ir.Shape([d if isinstance(d, int) else None for d in shape])
