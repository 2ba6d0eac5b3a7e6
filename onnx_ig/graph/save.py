"""Writing a model: into a ModelProto, or to a file with its weights beside it, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_ig.errors import ModelError

__all__ = ["PROTO_LIMIT", "save", "to_proto"]

PROTO_LIMIT = 2_000_000_000
"""Bytes of weights that one protobuf message can hold, with room for the graph (the format's own limit is 2 GiB)."""


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers, in every graph."""
    return sum(
        v.const_value.nbytes for g in model.graphs() for v in g.initializers.values() if v.const_value is not None
    )


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model with its weights inside.

    Raises ModelError above 2 GB, which no protobuf message can hold.
    """
    size = weight_bytes(model)
    if size > PROTO_LIMIT:
        raise ModelError(
            f"the weights are {size / 1e9:.1f} GB and one ONNX message holds 2 GB; give save_as=PATH to write the model "
            "with its weights in a file beside it"
        )
    kept = _load_external(model)
    try:
        return ir.to_proto(model)
    finally:
        for value, tensor in kept:
            value.const_value = tensor


def _load_external(model: ir.Model) -> list[tuple[ir.Value, ir.TensorProtocol]]:
    kept: list[tuple[ir.Value, ir.TensorProtocol]] = []
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                kept.append((value, tensor))
                value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)
    return kept


def save(model: ir.Model, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`; weights above 2 GB, or external ones already, go to `<name>.data` beside it.

    The file appears whole or not at all: it is written under another name in the same folder and moved.
    Raises ModelError where the folder does not exist or cannot be written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise ModelError(f"{path} cannot be written: there is no folder {path.parent}")
    external = weight_bytes(model) > PROTO_LIMIT or _has_external(model)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
            written = Path(scratch) / path.name
            data = f"{path.name}.data"
            ir.save(model, written, external_data=data if external else None)
            if external and (Path(scratch) / data).exists():
                os.replace(Path(scratch) / data, path.parent / data)
            os.replace(written, path)
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error}") from error


def _has_external(model: ir.Model) -> bool:
    return any(isinstance(v.const_value, ir.ExternalTensor) for g in model.graphs() for v in g.initializers.values())
