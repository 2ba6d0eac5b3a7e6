"""Weights in files beside the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx_ir as ir

from onnx_ig.errors import ModelError

__all__ = ["find_weights", "weight_files"]


def find_weights(model: ir.Model, origin: str, folders: Sequence[Path]) -> None:
    """Point every external weight to its file, looked for in `folders` (empty: where the tensors say), in place.

    A weight file may be a symbolic link, as download caches lay them out: it is followed.

    Raises ModelError where a file is missing, lies outside the model's folder, or is shorter than the model says.
    """
    for name, tensor, put in _external(model):
        location = Path(tensor.location)
        if location.is_absolute() or ".." in location.parts:
            raise ModelError(f"{origin} keeps the weight {name!r} in {str(location)!r}, outside its own folder")
        places = folders or [Path(tensor.base_dir or ".")]
        folder = next((f for f in places if (f / location).is_file()), None)
        if folder is None:
            raise ModelError(
                f"{origin} keeps the weight {name!r} in the file {str(location)!r}, which is not in "
                f"{' or '.join(map(str, places))}; keep the data file beside the model, and give the model by its path"
            )
        file = (folder / location).resolve()
        end, size = (tensor.offset or 0) + (tensor.length or tensor.nbytes), file.stat().st_size
        if size < end:
            raise ModelError(
                f"{origin} keeps the weight {name!r} in {file}, which has {size} bytes and should have {end}; "
                "copy or download the data file again"
            )
        if file.is_relative_to(folder.resolve()):
            tensor.base_dir = folder
        else:  # a link that leads elsewhere, which onnx_ir would refuse to follow
            put(
                ir.ExternalTensor(
                    location=file.name,
                    offset=tensor.offset,
                    length=tensor.length,
                    dtype=tensor.dtype,
                    shape=tensor.shape,
                    name=tensor.name or "",
                    base_dir=file.parent,
                )
            )


def weight_files(model: ir.Model) -> list[Path]:
    """The files beside the model that hold weights, each once."""
    return sorted({Path(tensor.path) for _, tensor, _ in _external(model)})


def _external(model: ir.Model) -> Iterator[tuple[str, ir.ExternalTensor, Callable[[ir.TensorProtocol], None]]]:
    """Name, tensor and a way to put another in its place, for initializers and attributes of every graph."""
    for graph in (*model.graphs(), *(f.graph for f in model.functions.values())):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value.name or "", value.const_value, _setter(value)
        for node in graph:
            for attribute in list(node.attributes.values()):
                if attribute.type == ir.AttributeType.TENSOR and isinstance(attribute.value, ir.ExternalTensor):
                    yield node.name or node.op_type, attribute.value, _attribute_setter(node, attribute.name)


def _setter(value: ir.Value) -> Callable[[ir.TensorProtocol], None]:
    def put(tensor: ir.TensorProtocol) -> None:
        value.const_value = tensor

    return put


def _attribute_setter(node: ir.Node, name: str) -> Callable[[ir.TensorProtocol], None]:
    def put(tensor: ir.TensorProtocol) -> None:
        node.attributes[name] = ir.AttrTensor(name, tensor)

    return put
