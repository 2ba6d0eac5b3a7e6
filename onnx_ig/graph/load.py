"""Reading a model: a path, an onnx.ModelProto, an onnx_ir.Model or a graphsurgeon Graph become an onnx_ir.Model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx
import onnx_ir as ir

from onnx_ig.errors import ModelError
from onnx_ig.graph.external import find_weights
from onnx_ig.graph.maps import NOTES, without_maps
from onnx_ig.graph.sparse import without_sparse

if TYPE_CHECKING:
    import onnx_graphsurgeon

__all__ = ["ModelLike", "load"]

ModelLike: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | ir.Model | onnx_graphsurgeon.Graph"


def load(model: ModelLike) -> ir.Model:
    """An onnx_ir.Model that the caller may change; weights in external files stay memory-mapped.

    Raises ModelError where there is no such file, it holds no ONNX model, or a weight file is missing.
    """
    if isinstance(model, ir.Model):
        copy = _with_own_tensors(model.clone())
        find_weights(copy, "the onnx_ir.Model given", [])
        return copy
    if isinstance(model, onnx.ModelProto):
        return _with_own_tensors(_from_proto(model, "the ModelProto given", [Path.cwd()]))
    if isinstance(model, str | os.PathLike):
        return _from_file(Path(model))
    if _is_graphsurgeon(model):
        return _from_graphsurgeon(model)
    raise ModelError(
        "a model is a path, an onnx.ModelProto, an onnx_ir.Model or an onnx_graphsurgeon.Graph, "
        f"not {type(model).__name__}"
    )


def _from_file(path: Path) -> ir.Model:
    if path.is_dir():
        raise ModelError(f"{path} is a folder; give the .onnx file in it")
    if not path.exists():
        raise ModelError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not start:
        raise ModelError(f"{path} is empty")
    other = next(
        (kind for magic, kind in _OTHERS.items() if start.startswith(magic) or start[4:].startswith(magic)), ""
    )
    if other:
        raise ModelError(f"{path} is not an ONNX model but {other}; export the model to ONNX first")
    try:
        proto = onnx.load(path, load_external_data=False)
    except Exception as error:  # each format that onnx reads, by the file's ending, has errors of its own
        raise ModelError(f"{path} is not an ONNX model: {error}") from error
    return _from_proto(proto, str(path), list(dict.fromkeys([path.absolute().parent, path.resolve().parent])))


_OTHERS = {
    b"PK\x03\x04": "a zip archive, as PyTorch and Keras write their models",
    b"\x89HDF": "an HDF5 file, as Keras wrote its models",
    b"ORTM": "a model in ONNX Runtime's own ORT format",
    b"TFL3": "a TensorFlow Lite model",
}
"""How files that are taken for ONNX models begin, at byte 0 or 4."""


def _from_graphsurgeon(graph: onnx_graphsurgeon.Graph) -> ir.Model:
    import onnx_graphsurgeon

    try:
        proto = onnx_graphsurgeon.export_onnx(graph)
    except Exception as error:  # whatever is wrong with the graph shows as an error of any kind
        raise ModelError(f"the graphsurgeon Graph given cannot be exported: {error}") from error
    return _from_proto(proto, "the graphsurgeon Graph given", [Path.cwd()])


def _from_proto(proto: onnx.ModelProto, origin: str, folders: Sequence[Path]) -> ir.Model:
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"{origin} is not an ONNX model: it holds no graph")
    proto, notes = without_maps(proto, origin)
    try:
        model = ir.from_proto(without_sparse(proto))
    except Exception as error:  # onnx_ir raises many kinds for malformed protos, wrapped in what it was doing
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise ModelError(f"{origin} is not a valid ONNX model: {cause}") from error
    model.graph.meta[NOTES] = notes
    find_weights(model, origin, folders)
    _open_dimensions(model)
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


def _is_graphsurgeon(model: Any) -> bool:
    return type(model).__module__.partition(".")[0] == "onnx_graphsurgeon"
