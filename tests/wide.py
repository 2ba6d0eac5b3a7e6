"""A model in a wider float type: the same graph for finite differences, whose rounding would drown in the original's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

__all__ = ["is_float_array", "widened"]

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "stash_type", "softmax_precision")
_FLOAT_BY_DEFAULT = {
    "ConstantOfShape": "value",
    "RandomNormal": "dtype",
    "RandomUniform": "dtype",
    "HannWindow": "output_datatype",
    "HammingWindow": "output_datatype",
    "BlackmanWindow": "output_datatype",
    "MelWeightMatrix": "output_datatype",
}


def is_float_array(array: object) -> bool:
    """Whether a feed or an output is a float tensor of any width (bfloat16 is no numpy kind of its own)."""
    dtype = getattr(array, "dtype", None)
    return dtype is not None and (np.dtype(dtype).kind == "f" or np.dtype(dtype).name == "bfloat16")


def widened(model: onnx.ModelProto, to: int) -> tuple[onnx.ModelProto, frozenset[str]]:
    """The model with every float type made `to`, and the names of values whose operator asks for float32 whatever else is.

    The result is not valid for every operator: whoever uses it checks that it loads and computes the same.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.ir_version = max(result.ir_version, 10)
    imports = {o.domain: o.version for o in result.opset_import}
    kept: set[str] = set()
    for nodes in (result.graph.node, *(f.node for f in result.functions)):
        for node in _nodes(nodes):
            kept.update(_single_only(node, imports, to))
    _Widening(to, kept).graph(result.graph)
    for function in result.functions:
        for node in function.node:
            _Widening(to, set()).node(node)
    return result, frozenset(kept)


def _nodes(nodes: object) -> Iterator[onnx.NodeProto]:
    for node in nodes:  # type: ignore[attr-defined]
        yield node
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.type == AttributeProto.GRAPH else [])):
                yield from _nodes(graph.node)


def _single_only(node: onnx.NodeProto, imports: dict[str, int], to: int) -> Iterator[str]:
    """Operands that the schema allows as float32 and not as `to` (scales of Resize)."""
    wide = "tensor(double)" if to == TensorProto.DOUBLE else "tensor(float)"
    try:
        schema = onnx.defs.get_schema(node.op_type, imports.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    for index, name in enumerate(node.input):
        if not schema.inputs:
            break
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        types = allowed.get(formal.type_str, {formal.type_str})
        if name and "tensor(float)" in types and wide not in types:
            yield name


class _Widening:
    def __init__(self, to: int, kept: set[str]):
        self.to = to
        self.kept = kept

    def graph(self, graph: onnx.GraphProto) -> None:
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.name not in self.kept:
                self.type(info.type)
        for tensor in graph.initializer:
            if tensor.name not in self.kept:
                self.tensor(tensor)
        for node in graph.node:
            if not any(name in self.kept for name in node.output):
                self.node(node)

    def type(self, declared: onnx.TypeProto) -> None:
        kind = declared.WhichOneof("value")
        if kind == "tensor_type" and declared.tensor_type.elem_type in _FLOATS:
            declared.tensor_type.elem_type = self.to
        elif kind in ("sequence_type", "optional_type"):
            self.type(getattr(declared, kind).elem_type)

    def tensor(self, tensor: onnx.TensorProto) -> None:
        if tensor.data_type in _FLOATS:
            array = np.asarray(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(array.astype(self._numpy), tensor.name))

    def node(self, node: onnx.NodeProto) -> None:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                self.tensor(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                self.graph(attribute.g)
            elif attribute.name in _TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT and attribute.i in _FLOATS:
                attribute.i = self.to
            elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                values = attribute.f if attribute.name == "value_float" else list(attribute.floats)
                tensor = numpy_helper.from_array(np.asarray(values, self._numpy))
                attribute.CopyFrom(helper.make_attribute("value", tensor))
        wanted = _FLOAT_BY_DEFAULT.get(node.op_type)
        if wanted is not None and not any(a.name == wanted for a in node.attribute):
            zero = numpy_helper.from_array(np.zeros(1, self._numpy))
            node.attribute.append(helper.make_attribute(wanted, zero if wanted == "value" else self.to))

    @property
    def _numpy(self) -> np.dtype:
        return helper.tensor_dtype_to_np_dtype(self.to)
