"""Graphs inside nodes: what they read from outer scopes, copies of them under new names, and what is left unused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter

__all__ = [
    "ORIGIN",
    "captured_values",
    "copy_graph",
    "copy_node",
    "copy_nodes",
    "lift_weights",
    "prune",
    "set_outputs",
    "subgraphs",
]

ORIGIN = "onnx_ig.origin"
"""Key in the `meta` of a copied node or value: the name of the user's that it is a copy of."""

_SHARED_BYTES = 1024
"""Initializers of this size and more are not repeated in copies of a subgraph."""


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that `node` holds as attributes."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def captured_values(node: ir.Node) -> tuple[ir.Value, ...]:
    """Values of outer scopes that the subgraphs of `node` read, in order of first use, each once."""
    found: dict[ir.Value, None] = {}

    def visit(graph: ir.Graph, inner: set[ir.Value]) -> None:
        inner = inner | set(graph.inputs) | set(graph.initializers.values())
        for child in graph:
            for value in child.inputs:
                if value is not None and value not in inner:
                    found.setdefault(value)
            for sub in subgraphs(child):
                visit(sub, inner)
            inner |= set(child.outputs)
        for value in graph.outputs:
            if value not in inner:
                found.setdefault(value)

    for graph in subgraphs(node):
        visit(graph, set())
    return tuple(found)


def copy_node(node: ir.Node, values: Mapping[ir.Value, ir.Value], op: Emitter) -> ir.Node:
    """Append a copy of `node` with its operands (and what its subgraphs capture) replaced; all names are new."""
    copy = _copy(node, values, op)
    op.place(copy)
    return copy


def copy_nodes(graph: ir.Graph, values: Mapping[ir.Value, ir.Value], op: Emitter) -> dict[ir.Value, ir.Value]:
    """Append copies of all nodes of `graph` to the emitter's graph.

    `values` says what stands for the inputs of `graph` (and for outer values, where they are replaced too). Returns
    what stands for every value of `graph`. Initializers of `graph` become constants of the emitter's graph.
    """
    found = dict(values)
    for value in graph.initializers.values():
        if value.const_value is not None:
            found[value] = op.constant(value.const_value)
    for node in graph:
        found.update(zip(node.outputs, copy_node(node, found, op).outputs, strict=True))
    return found


def copy_graph(
    graph: ir.Graph, outer: Mapping[ir.Value, ir.Value], op: Emitter
) -> tuple[ir.Graph, dict[ir.Value, ir.Value]]:
    """A copy of `graph` under new names, reading `outer[v]` where it read the outer value `v`.

    Returns it with what stands in it for every value of `graph`.
    """
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
    copied_graph = ir.Graph(
        [values[v] for v in graph.inputs],
        [values.get(v, v) for v in graph.outputs],
        nodes=nodes,
        initializers=[values[v] for v in graph.initializers.values()],
        name=op.names.numbered(graph.name or "ig_graph"),
    )
    return copied_graph, values


def set_outputs(op: Emitter, outputs: Sequence[ir.Value]) -> None:
    """Make `outputs` the outputs of the emitter's graph.

    A value of an outer scope, an input, an initializer and a value given twice pass through Identity: an output is what
    a node of its own graph produces, once.
    """
    for value in outputs:
        producer = value.producer()
        own = producer is not None and producer.graph is op.graph
        if not own or value in op.graph.outputs:
            copy = op.Identity(value)
            copy.type, copy.shape = value.type, value.shape
            value = copy
        op.graph.outputs.append(value)


def prune(graph: ir.Graph) -> None:
    """Remove the nodes and initializers of `graph` that nothing reads."""
    for node in reversed(list(graph)):
        if all(not v.uses() and not v.is_graph_output() for v in node.outputs):
            _forget(node)
            graph.remove(node)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]


def lift_weights(model: ir.Model) -> None:
    """Move large initializers of subgraphs to the main graph, so that copies of a subgraph share them.

    Small ones stay: shape inference reads axes and sizes only in the graph that uses them.
    """
    taken = {v.name for g in model.graphs() for v in (*g.inputs, *(o for n in g for o in n.outputs))}
    taken.update(model.graph.initializers)
    for graph in model.graphs():
        if graph is model.graph:
            continue
        for name, value in list(graph.initializers.items()):
            tensor = value.const_value
            if tensor is None or tensor.nbytes < _SHARED_BYTES or value.is_graph_input() or value.is_graph_output():
                continue
            del graph.initializers[name]
            count = 0
            while value.name in taken:
                count += 1
                value.name = f"{name}_{count}"
            taken.add(value.name)
            model.graph.register_initializer(value)


def _forget(node: ir.Node) -> None:
    for graph in subgraphs(node):
        for child in graph:
            _forget(child)
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)


def _copy(node: ir.Node, values: Mapping[ir.Value, ir.Value], op: Emitter) -> ir.Node:
    attributes: list[ir.Attr] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            attributes.append(ir.AttrGraph(attribute.name, copy_graph(attribute.as_graph(), values, op)[0]))
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs = [copy_graph(g, values, op)[0] for g in attribute.as_graphs()]
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
    copy.meta.update(node.meta)
    copy.meta[ORIGIN] = node.meta.get(ORIGIN, node.name)
    for original, output in zip(node.outputs, copy.outputs, strict=True):
        _describe(output, original, op)
    return copy


def _describe(copy: ir.Value, original: ir.Value, op: Emitter) -> None:
    copy.name = op.names.numbered(original.name) if original.name else ""
    copy.type = original.type
    copy.shape = None if original.shape is None else original.shape.copy()
    copy.meta.update(original.meta)
    copy.meta[ORIGIN] = original.meta.get(ORIGIN, original.name)
