"""Element types and shapes of all values of a model, as far as they can be told before it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import onnx_ir as ir

from onnx_ig.graph.contrib import runtime_outputs

__all__ = ["infer"]

_log = logging.getLogger(__name__)
_KEPT_BYTES = 1024  # constants up to here stay in the copy that inference sees: shapes, axes, sizes

Known = tuple["ir.TypeProtocol | None", "ir.Shape | None"]


def infer(model: ir.Model) -> None:
    """Infer types and shapes of all values from those of the graph inputs, without looking at weights.

    What the file declares for computed values is dropped first: exporters and optimisers leave stale types and shapes,
    and a wrong one is worse than none. It comes back only where nothing could be inferred: the type of any value, the
    shape of a graph output. Operators of ONNX Runtime's own domain are filled in from `contrib`.

    Never fails: where inference does, values stay without types or shapes. Value names must be unique in the model.
    """
    declared: dict[ir.Value, Known] = {}
    for graph in model.graphs():
        for node in graph:
            for value in node.outputs:
                declared[value] = (value.type, value.shape)
                value.type = value.shape = None
    _run(model)
    while _fill(model, declared):
        _run(model)
    outputs = set(model.graph.outputs)
    for value, (value_type, shape) in declared.items():
        if value.type is None:
            value.type = value_type
        if value in outputs and shape is not None:
            value.shape = _merged(value.shape, shape)


def _run(model: ir.Model) -> None:
    """One pass of onnx's inference; fills what is missing and changes nothing else."""
    with _weights_as_inputs(model):
        proto = ir.to_proto(model)
    proto.ir_version = max(proto.ir_version, 10)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
    except Exception as error:  # inference is a help, and what it raises on malformed graphs is of many kinds
        _log.info("shape inference failed: %s", error)
        return
    found = {info.name: info for graph in _graphs(inferred.graph) for info in (*graph.value_info, *graph.output)}
    for graph in model.graphs():
        for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
            info = found.get(value.name or "")
            if info is not None and (value.type is None or value.shape is None):
                value_type, shape = _known(info)
                value.type = value.type or value_type
                value.shape = shape if value.shape is None else value.shape


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _graphs(inner)


@contextmanager
def _weights_as_inputs(model: ir.Model) -> Iterator[None]:
    """Large initializers of all graphs are inputs of the main graph for a while; inner graphs see them there too."""
    inputs = len(model.graph.inputs)
    initializers = [(graph, dict(graph.initializers)) for graph in model.graphs()]
    try:
        for graph, values in initializers:
            for name, value in values.items():
                tensor = value.const_value
                if tensor is None or tensor.nbytes <= _KEPT_BYTES:
                    continue
                value.type = ir.TensorType(tensor.dtype)
                value.shape = ir.Shape(tensor.shape.numpy())
                del graph.initializers[name]
                if not value.is_graph_input():
                    model.graph.inputs.append(value)
        yield
    finally:
        while len(model.graph.inputs) > inputs:
            model.graph.inputs.pop()
        for graph, values in initializers:
            graph.initializers.clear()
            graph.initializers.update(values)


def _known(info: onnx.ValueInfoProto) -> Known:
    value = ir.serde.deserialize_value_info_proto(info, None)
    return value.type, value.shape


def _fill(model: ir.Model, declared: dict[ir.Value, Known]) -> bool:
    """What onnx's inference stops at: operators that it does not know, and all behind them.

    Returns whether anything was filled, so that inference can go on from there.
    """
    changed = False
    for graph in model.graphs():
        for node in graph:
            if all(v.type is not None or not v.name for v in node.outputs):
                continue
            known = runtime_outputs(node)
            if known is None and node.domain in _INFERRED:
                known = _inferred(node, model.opset_imports)
            elif known is None:
                known = [declared[v] for v in node.outputs]
            for value, (value_type, shape) in zip(node.outputs, known, strict=True):
                if value.name and value.type is None and value_type is not None:
                    value.type, value.shape = value_type, shape
                    changed = True
    return changed


_INFERRED = frozenset({"", "ai.onnx.ml"})


def _inferred(node: ir.Node, imports: dict[str, int]) -> list[Known]:
    """One node of a domain that onnx knows, from the types of its operands."""
    nothing: list[Known] = [(None, None)] * len(node.outputs)
    operands = [v for v in node.inputs if v is not None]
    if any(v.type is None for v in operands):
        return nothing
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return nothing  # typed by the next pass, from what their bodies hold
    try:
        schema = onnx.defs.get_schema(node.op_type, imports.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:  # an experimental operator, known to runtimes only
        return nothing
    known: dict[str | None, Known] = {}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            ir.to_proto(node),
            {v.name or "": ir.to_proto(v).type for v in operands},
            {
                v.name or "": ir.to_proto(v.const_value)
                for v in operands
                if v.is_initializer() and v.const_value is not None and v.const_value.nbytes <= _KEPT_BYTES
            },
            opset_imports=[onnx.helper.make_opsetid(domain, number) for domain, number in imports.items()],
        )
        known = {n: _known(onnx.helper.make_value_info(n, proto)) for n, proto in found.items()}
    except Exception as error:  # as in _run
        _log.info("shape inference of %s failed: %s", node.name, error)
    return [known.get(v.name, (_by_schema(node, schema, i), None)) for i, v in enumerate(node.outputs)]


def _by_schema(node: ir.Node, schema: onnx.defs.OpSchema, index: int) -> ir.TypeProtocol | None:
    """The type of an operand whose type variable the output shares: what inference leaves out where shapes are open."""
    if not schema.outputs:
        return None
    variable = schema.outputs[min(index, len(schema.outputs) - 1)].type_str
    for value, formal in zip(node.inputs, schema.inputs, strict=False):
        if value is not None and formal.type_str == variable:
            return value.type
    return None


def _merged(inferred: ir.Shape | None, declared: ir.Shape) -> ir.Shape:
    """Dimensions that inference left open, as the file declares them for a graph output."""
    if inferred is None:
        return declared
    if len(inferred) != len(declared):
        return inferred
    return ir.Shape([b if _open(a) else a for a, b in zip(inferred, declared, strict=True)])


def _open(dim: int | ir.SymbolicDim) -> bool:
    return not isinstance(dim, int) and (dim.value is None or str(dim.value).startswith("unk__"))
