"""A second forward pass over the same weights: the nodes that depend on some values, computed again from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.reverse import captured_values

__all__ = ["Twin", "copy_node"]


class Twin:
    """Copies of `nodes` in which the values of `replaced` are replaced, made on demand.

    `value(v)` is `v` of the second pass: `v` itself where it does not depend on a replaced value. Weights are shared.
    """

    def __init__(self, nodes: Iterable[ir.Node], replaced: Mapping[ir.Value, ir.Value], op: Emitter):
        self._map = dict(replaced)
        self._op = op
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
            for original, copy in zip(node.outputs, copy_node(node, self._map, self._op).outputs, strict=True):
                self._map.setdefault(original, copy)
            stack.pop()
        return self._map.get(value, value)


def copy_node(node: ir.Node, values: Mapping[ir.Value, ir.Value], op: Emitter) -> ir.Node:
    """Append a copy of `node` with its operands (and what its subgraphs capture) replaced; all names are new."""
    copy = _copy(node, dict(values), op)
    op.graph.append(copy)
    return copy


def _copy(node: ir.Node, values: dict[ir.Value, ir.Value], op: Emitter) -> ir.Node:
    attributes = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            attributes.append(ir.AttrGraph(attribute.name, _copy_graph(attribute.as_graph(), values, op)))
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs = [_copy_graph(g, values, op) for g in attribute.as_graphs()]
            attributes.append(ir.AttrGraphs(attribute.name, graphs))
        else:
            attributes.append(attribute)
    copy = ir.Node(
        node.domain,
        node.op_type,
        [v if v is None else values.get(v, v) for v in node.inputs],
        attributes,
        overload=node.overload,
        num_outputs=len(node.outputs),
        name=op.names.numbered(node.name or f"ig_{node.op_type}"),
    )
    for original, output in zip(node.outputs, copy.outputs, strict=True):
        _describe(output, original, op)
    return copy


def _copy_graph(graph: ir.Graph, outer: Mapping[ir.Value, ir.Value], op: Emitter) -> ir.Graph:
    values = dict(outer)
    for value in (*graph.inputs, *graph.initializers.values()):
        copy = ir.Value(const_value=value.const_value)
        _describe(copy, value, op)
        values[value] = copy
    nodes = []
    for node in graph:
        copied = _copy(node, values, op)
        values.update(zip(node.outputs, copied.outputs, strict=True))
        nodes.append(copied)
    return ir.Graph(
        [values[v] for v in graph.inputs],
        [values.get(v, v) for v in graph.outputs],
        nodes=nodes,
        initializers=[values[v] for v in graph.initializers.values()],
        name=op.names.numbered(graph.name or "ig_graph"),
    )


def _describe(copy: ir.Value, original: ir.Value, op: Emitter) -> None:
    copy.name = op.names.numbered(original.name) if original.name else ""
    copy.type = original.type
    copy.shape = None if original.shape is None else original.shape.copy()
