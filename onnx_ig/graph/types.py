"""Element types and shapes of all values of a model, as far as they can be told before it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import onnx
import onnx_ir as ir

from onnx_ig.graph.contrib import runtime_outputs

__all__ = ["infer"]

_log = logging.getLogger(__name__)
_KEPT_BYTES = 1024  # constants up to here stay in the copy that inference sees: shapes, axes, sizes

Known = tuple["ir.TypeProtocol | None", "ir.Shape | None"]


def infer(model: ir.Model) -> None:
    """Infer types and shapes of all values from those of the graph inputs, on a copy without weights.

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
    copy = _without_weights(model)
    try:
        proto = onnx.shape_inference.infer_shapes(
            ir.to_proto(copy), check_type=False, strict_mode=False, data_prop=True
        )
        inferred = ir.from_proto(proto)
    except Exception as error:  # inference is a help, and what it raises on malformed graphs is of many kinds
        _log.info("shape inference failed: %s", error)
        return
    for graph, twin in zip(model.graphs(), inferred.graphs(), strict=True):
        found = {v.name: v for v in _values(twin)}
        for value in _values(graph):
            other = found.get(value.name)
            if not value.name or other is None:
                continue
            if value.type is None:
                value.type = other.type
            if value.shape is None:
                value.shape = other.shape


def _values(graph: ir.Graph) -> Iterable[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def _without_weights(model: ir.Model) -> ir.Model:
    copy = model.clone()
    copy.ir_version = max(copy.ir_version or 10, 10)
    for graph in copy.graphs():
        for name, value in list(graph.initializers.items()):
            tensor = value.const_value
            if tensor is None or tensor.nbytes <= _KEPT_BYTES:
                continue
            value.type = ir.TensorType(tensor.dtype)
            value.shape = ir.Shape(tensor.shape.numpy())
            graph.initializers.pop(name)
            if value not in graph.inputs:
                copy.graph.inputs.append(value)  # inner graphs see it there too
    return copy


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
    version = imports.get(node.domain, 1)
    if any(v.type is None for v in operands) or not onnx.defs.has(node.op_type, domain=node.domain):
        return nothing
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return nothing  # typed by the next pass, from what their bodies hold
    try:
        found = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, version, node.domain),
            ir.to_proto(node),
            {v.name or "": ir.to_proto(v).type for v in operands},
            {
                v.name or "": ir.to_proto(v.const_value)
                for v in operands
                if v.is_initializer() and v.const_value is not None and v.const_value.nbytes <= _KEPT_BYTES
            },
            opset_imports=[onnx.helper.make_opsetid(domain, number) for domain, number in imports.items()],
        )
    except Exception as error:  # as in _run
        _log.info("shape inference of %s failed: %s", node.name, error)
        return nothing
    known = {name: ir.serde.deserialize_value_info_proto(_info(name, proto), None) for name, proto in found.items()}
    return [(known[v.name].type, known[v.name].shape) if v.name in known else (None, None) for v in node.outputs]


def _info(name: str, proto: onnx.TypeProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_value_info(name, proto)


def _merged(inferred: ir.Shape | None, declared: ir.Shape) -> ir.Shape:
    """Dimensions that inference left open, as the file declares them for a graph output."""
    if inferred is None:
        return declared
    if len(inferred) != len(declared):
        return inferred
    return ir.Shape([b if _open(a) else a for a, b in zip(inferred, declared, strict=True)])


def _open(dim: int | ir.SymbolicDim) -> bool:
    return not isinstance(dim, int) and (dim.value is None or str(dim.value).startswith("unk__"))
