"""What onnx's shape inference does not know, filled in from what it does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import onnx
import onnx_ir as ir

from onnx_ig.graph.attention_shapes import attention_outputs
from onnx_ig.graph.bodies import final_values
from onnx_ig.graph.contrib import runtime_outputs
from onnx_ig.graph.resize_shapes import resized, rounds
from onnx_ig.graph.sizes import Size, Symbols

__all__ = ["Known", "fill", "known"]

Known = tuple["ir.TypeProtocol | None", "ir.Shape | None"]

_log = logging.getLogger(__name__)
_KEPT_BYTES = 1024
_MODERN = 18  # sizes are followed through the forms that operators have since
_INFERRED = frozenset({"", "ai.onnx.ml"})


def fill(
    graphs: Iterable[ir.Graph], imports: Mapping[str, int], declared: Mapping[ir.Value, Known]
) -> dict[ir.Value, Known]:
    """Types and shapes that inference left out, in graph order; what follows from them by inference is not repeated.

    `declared` is what the file says of the values that may be filled: the word for operators that nobody here knows.
    """
    found: dict[ir.Value, Known] = {}
    symbols = Symbols() if imports.get("", 0) >= _MODERN else None
    for graph in graphs:
        for node in graph:
            if symbols is not None:
                symbols.follow(node)
            open_types = any(v.type is None and v.name for v in node.outputs)
            if node.domain in _INFERRED and open_types and node.op_type != "Attention" and not rounds(node):
                _go_on(node, imports)
            known = _beyond_inference(node, declared, symbols)
            for value, (value_type, shape) in zip(node.outputs, known or (), strict=False):
                if value.name and value in declared and _adds(value, value_type, shape):
                    value.type = value.type if value_type is None else value_type
                    value.shape = value.shape if shape is None else shape
                    found[value] = (value.type, value.shape)
    return found


def _adds(value: ir.Value, value_type: ir.TypeProtocol | None, shape: ir.Shape | None) -> bool:
    if value.type is None:
        return value_type is not None
    return shape is not None and (value.shape is None or value.shape != shape)


def _beyond_inference(node: ir.Node, declared: Mapping[ir.Value, Known], symbols: Symbols | None) -> list[Known] | None:
    """Outputs of operators that onnx knows nothing or too little of; None for those that it infers well."""
    known = runtime_outputs(node)
    if known is not None:
        return known
    if node.domain not in _INFERRED:
        return [declared.get(v, (None, None)) for v in node.outputs]
    if node.domain == "" and node.op_type == "Loop":
        return final_values(node)
    if node.domain == "" and node.op_type == "Attention":
        return attention_outputs(node)
    if rounds(node):
        return [resized(node)]
    output = node.outputs[0]
    if node.domain != "" or (output.shape is not None and not any(_open(d) for d in output.shape)):
        return None
    dims = None if symbols is None else symbols.told(node)
    if dims is None:
        dims = _counted(node)
    if dims is None or (output.shape is not None and len(dims) != len(output.shape)):
        return None
    old = output.shape or [None] * len(dims)
    new = [_dim(d) if _open(o) and d is not None else o for d, o in zip(dims, old, strict=True)]
    return [(output.type, ir.Shape(new))]


def _dim(size: Size) -> int | str | None:
    """A size as a dimension; what is no plain product of dimensions gets no name."""
    if size.known is not None:
        return size.known if size.known >= 0 else None
    return str(size) if size.number > 0 and not any(set(s) & set("([#.") for s in size.symbols) else None


def _counted(node: ir.Node) -> list[Size | None] | None:
    """A computed target shape says the number of axes by its length."""
    place = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}.get(node.op_type)
    if place is None or node.outputs[0].shape is not None or place >= len(node.inputs):
        return None
    target, data = node.inputs[place], node.inputs[0]
    if target is None or data is None or target.shape is None or len(target.shape) != 1:
        return None
    length = target.shape[0]
    if not isinstance(length, int) or (node.op_type == "Expand" and data.shape is None):
        return None
    if node.op_type == "Expand":
        length = max(length, len(data.shape or ()))
    return [None] * length


def _open(dim: int | ir.SymbolicDim | None) -> bool:
    return dim is None or (not isinstance(dim, int) and (dim.value is None or str(dim.value).startswith("unk__")))


def _go_on(node: ir.Node, imports: Mapping[str, int]) -> None:
    """Infer one node of a domain that onnx knows, so that what is behind it can be filled in the same round."""
    operands = [v for v in node.inputs if v is not None]
    if node.domain not in _INFERRED or any(v.type is None for v in operands):
        return
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return  # typed by the next round, from what their bodies hold
    try:
        schema = onnx.defs.get_schema(node.op_type, imports.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:  # an experimental operator, known to runtimes only
        return
    types: dict[str, onnx.TypeProto] = {}
    try:
        types = onnx.shape_inference.infer_node_outputs(
            schema,
            ir.to_proto(node),
            {v.name or "": ir.to_proto(v).type for v in operands},
            {
                v.name or "": ir.to_proto(v.const_value)
                for v in operands
                if v.const_value is not None and not v.is_graph_input() and v.const_value.nbytes <= _KEPT_BYTES
            },
            opset_imports=[onnx.helper.make_opsetid(domain, number) for domain, number in imports.items()],
        )
    except Exception as error:  # inference is a help, and what it raises on malformed nodes is of many kinds
        _log.info("shape inference of %s failed: %s", node.name, error)
    for index, value in enumerate(node.outputs):
        if value.name in types:
            value.type, value.shape = known(onnx.helper.make_value_info(value.name or "", types[value.name or ""]))
        else:
            value.type = _by_schema(node, schema, index)


def _by_schema(node: ir.Node, schema: onnx.defs.OpSchema, index: int) -> ir.TypeProtocol | None:
    """The type of an operand whose type variable the output shares: what inference leaves out where shapes are open."""
    if not schema.outputs:
        return None
    variable = schema.outputs[min(index, len(schema.outputs) - 1)].type_str
    for value, formal in zip(node.inputs, schema.inputs, strict=False):
        if value is not None and formal.type_str == variable:
            return value.type
    return None


def known(info: onnx.ValueInfoProto) -> Known:
    """Type and shape that a value info says."""
    value = ir.serde.deserialize_value_info_proto(info, None)
    return value.type, value.shape
