"""Reading a model: a path, an onnx.ModelProto, an onnx_ir.Model or a graphsurgeon Graph become an onnx_ir.Model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnx_ig.errors import ModelError
from onnx_ig.graph.maps import NOTES, without_maps

if TYPE_CHECKING:
    import onnx_graphsurgeon

__all__ = ["ModelLike", "load"]

ModelLike: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | ir.Model | onnx_graphsurgeon.Graph"


def load(model: ModelLike) -> ir.Model:
    """An onnx_ir.Model that the caller may change; weights in external files stay memory-mapped.

    Raises ModelError where there is no such file, or it holds no ONNX model.
    """
    if isinstance(model, ir.Model):
        return _with_own_tensors(model.clone())
    if isinstance(model, onnx.ModelProto):
        return _with_own_tensors(_from_proto(model, "the ModelProto given"))
    if isinstance(model, str | os.PathLike):
        return _from_file(Path(model))
    if _is_graphsurgeon(model):
        import onnx_graphsurgeon

        return _from_proto(onnx_graphsurgeon.export_onnx(model), "the graphsurgeon Graph given")
    raise ModelError(
        f"a model is a path, an onnx.ModelProto, an onnx_ir.Model or an onnx_graphsurgeon.Graph, not {type(model).__name__}"
    )


def _from_file(path: Path) -> ir.Model:
    if path.is_dir():
        raise ModelError(f"{path} is a folder; give the .onnx file in it")
    if not path.exists():
        raise ModelError(f"there is no file {path}")
    try:
        proto = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not an ONNX model: {error}") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    return _from_proto(proto, str(path), base_dir=path.resolve().parent)


def _from_proto(proto: onnx.ModelProto, origin: str, base_dir: Path | None = None) -> ir.Model:
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"{origin} is not an ONNX model: it holds no graph")
    proto, notes = without_maps(proto, origin)
    try:
        model = ir.from_proto(proto)
        model.graph.meta[NOTES] = notes
        if base_dir is not None:
            for graph in model.graphs():
                ir.external_data.set_base_dir(graph, base_dir)
            _check_external(model, origin)
        _open_dimensions(model)
    except ModelError:
        raise
    except Exception as error:  # onnx_ir raises many kinds for malformed protos; all mean the same to the user
        raise ModelError(f"{origin} is not a valid ONNX model: {error}") from error
    return model


def _open_dimensions(model: ir.Model) -> None:
    """Dimensions of -1, as some exporters write open ones, become open."""
    for graph in model.graphs():
        for value in (*graph.inputs, *(v for n in graph for v in n.outputs)):
            if value.shape is not None and any(isinstance(d, int) and d < 0 for d in value.shape):
                value.shape = ir.Shape([None if isinstance(d, int) and d < 0 else d for d in value.shape])


def _with_own_tensors(model: ir.Model) -> ir.Model:
    """Tensors that share the bytes of the caller's and not their names.

    onnx_ir renames the TensorProto that a value was read from together with the value: the caller's model would lose its
    initializers' names.
    """
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.TensorProtoTensor):
                value.const_value = _own(tensor)
    for node in (n for g in (*model.graphs(), *model.functions.values()) for n in g):
        for name, attribute in list(node.attributes.items()):
            if attribute.type == ir.AttributeType.TENSOR and isinstance(attribute.value, ir.TensorProtoTensor):
                node.attributes[name] = ir.AttrTensor(name, _own(attribute.value))
    return model


def _own(tensor: ir.TensorProtoTensor) -> ir.TensorProtocol:
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)


def _check_external(model: ir.Model, origin: str) -> None:
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and not Path(tensor.path).exists():
                raise ModelError(
                    f"{origin} keeps the weight {value.name!r} in {tensor.path}, which is missing; "
                    "keep the data file beside the model"
                )


def _is_graphsurgeon(model: Any) -> bool:
    return type(model).__module__.partition(".")[0] == "onnx_graphsurgeon"
