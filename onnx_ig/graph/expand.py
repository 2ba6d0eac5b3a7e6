"""Composite operators, replaced by what the standard says they are made of.

Many operators carry a function body in their schema, fixed or built for the node at hand ("context dependent").
Where there is no rule for an operator there may be one for each of its parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import onnx
import onnx_ir as ir

from onnx_ig.graph.causal import causal_conv_body
from onnx_ig.graph.emit import is_float
from onnx_ig.graph.subgraphs import captured_values

__all__ = ["expand"]

_DOMAIN = "onnx_ig.expanded"
_STANDARD = ("", "ai.onnx.preview")
_log = logging.getLogger(__name__)


def expand(model: ir.Model, keep: Callable[[str, str], bool]) -> bool:
    """Make every node that has a function body in its schema a call of a model-local function of that body.

    `keep(domain, operator)` says which operators stay as they are; so do nodes that read no floats. Types and shapes must
    have been inferred, since bodies are built from them. Returns whether anything was changed: the model is then to be
    inlined, and upgraded, as bodies may be written for another opset.
    """
    found = 0
    for graph in model.graphs():
        for node in graph:
            version = model.opset_imports.get(node.domain, 1)
            if node.domain not in _STANDARD or keep(node.domain, node.op_type):
                continue
            if not any(_may_be_float(v) for v in node.inputs):
                continue
            body = _body(node, version)
            if body is None:
                continue
            if not _take_graphs(node, body):
                continue
            found += 1
            body.domain, body.name = _DOMAIN, f"{node.op_type}_{found}"
            function = ir.serde.deserialize_function(body)
            model.functions[function.identifier()] = function
            _spell_out_defaults(node, version)
            node.domain, node.op_type = _DOMAIN, body.name
    if found:
        model.opset_imports.setdefault(_DOMAIN, 1)
    return found > 0


def _body(node: ir.Node, version: int) -> onnx.FunctionProto | None:
    """The newest body that is written for opset `version` or an older one; None where the schema has none."""
    if not onnx.defs.has(node.op_type, node.domain):
        return None
    schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)  # onnx's stubs leave its methods out
    fixed = [v for v in schema.function_opset_versions if v <= version]
    built = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    body = onnx.FunctionProto()
    if fixed and max(fixed) >= max(built, default=0):
        body.ParseFromString(schema.get_function_with_opset_version(max(fixed)))
    elif built:
        types = [onnx.TypeProto() if v is None else ir.to_proto(v).type for v in node.inputs]
        given = ir.to_proto(node).SerializeToString()
        try:
            serialized = schema.get_context_dependent_function_with_opset_version(
                max(built), given, [t.SerializeToString() for t in types]
            )
        except (
            Exception
        ) as error:  # the body needs a type or shape that is not known, and each builder says so its own way
            _log.info("%s %s has no function body here: %s", node.op_type, node.name, error)
            return None
        body.ParseFromString(serialized)
    if not body.node and node.op_type == "CausalConvWithState":
        return causal_conv_body(node, version)
    return body if body.node else None


def _take_graphs(node: ir.Node, body: onnx.FunctionProto) -> bool:
    """Make what the node's graphs read from outer scopes operands, and drop the graphs: a built body contains them.

    False where a name in the body stands for something else.
    """
    outer = captured_values(node)
    inside = {*body.input, *(name for n in body.node for name in n.output)}
    if any(v.name in inside for v in outer):
        return False
    node.resize_inputs(len(body.input) + len(outer))
    for index, value in enumerate(outer, start=len(body.input)):
        node.replace_input_with(index, value)
        body.input.append(value.name or "")
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.GRAPH:
            for child in attribute.as_graph().all_nodes():  # they no longer read anything
                for index in range(len(child.inputs)):
                    child.replace_input_with(index, None)
            del node.attributes[name]
            if name in body.attribute:
                body.attribute.remove(name)
    return True


def _spell_out_defaults(node: ir.Node, version: int) -> None:
    """Bodies refer to attributes by name; those that the node leaves out have the schema's defaults."""
    for name, attribute in onnx.defs.get_schema(node.op_type, version, node.domain).attributes.items():
        default = attribute.default_value
        if name not in node.attributes and default.type != onnx.AttributeProto.UNDEFINED:
            node.attributes.add(ir.serde.deserialize_attribute(default))


def _may_be_float(value: ir.Value | None) -> bool:
    return value is not None and (value.dtype is None or is_float(value.dtype))
