"""Writing a model: into a ModelProto, or to a file with its weights beside it, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_ig.arguments import as_path
from onnx_ig.errors import ModelError

__all__ = ["PROTO_LIMIT", "check_place", "deliver", "save", "to_proto"]

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
            f"the weights are {size / 1e9:.1f} GB and one ONNX message holds 2 GB; "
            "give save_as=PATH to write the model with its weights in a file beside it"
        )
    kept = _load_external(model)
    try:
        return ir.to_proto(model)
    finally:
        for value, tensor in kept:
            value.const_value = tensor


def deliver(model: ir.Model, save_as: str | os.PathLike[str] | None) -> onnx.ModelProto:
    """The model as a message, written to `save_as` too where that is given.

    Above 2 GB of weights the message names them by file, as the file does.
    Raises ModelError and OptionError as `save` and `to_proto` do.
    """
    if save_as is None:
        return to_proto(model)
    save(model, save_as)
    if weight_bytes(model) > PROTO_LIMIT:
        return onnx.load(save_as, load_external_data=False)
    return to_proto(model)


def _load_external(model: ir.Model) -> list[tuple[ir.Value, ir.TensorProtocol]]:
    kept: list[tuple[ir.Value, ir.TensorProtocol]] = []
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                kept.append((value, tensor))
                value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)
    return kept


def check_place(path: str | os.PathLike[str]) -> Path:
    """The path of a file that can be written: asked before the work begins, and when it is done.

    Raises OptionError for what is no path, ModelError where there is no such folder or it is one.
    """
    path = as_path(path, "save_as")
    if not path.parent.is_dir():
        raise ModelError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.is_dir():
        raise ModelError(f"{path} cannot be written: it is a folder")
    return path


def save(model: ir.Model, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`; weights above 2 GB, or external ones already, go to `<name>.data` beside it.

    The files appear whole or not at all: they are written in a scratch folder beside and moved, and where a move fails
    what was there before is put back. The model in memory is not changed, and may be read from the very files that are
    replaced.
    Raises OptionError for what is no path, ModelError where the folder does not exist or cannot be written, or where
    another model's weights would be lost.
    """
    path = check_place(path)
    external = _beside(model)
    data = f"{path.name}.data"
    _check_weights_stay(model, path, path.parent / data)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            scratch = Path(folder)
            if external:
                _keep_mapped(model)
                ir.save(model, scratch / path.name, external_data=data)
            else:
                ir.save(model, scratch / path.name)
            names = [name for name in (data, path.name) if (scratch / name).exists()]
            _move(scratch, path.parent, names)
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error}") from error


def _check_weights_stay(model: ir.Model, path: Path, data: Path) -> None:
    """Refuse to write over weights that the model was read from, but for a model over its own files."""
    tensors = (v.const_value for g in model.graphs() for v in g.initializers.values())
    for file in {Path(t.path) for t in tensors if isinstance(t, ir.ExternalTensor)}:
        taken = next((p for p in (path, data) if p.exists() and file.exists() and p.samefile(file)), None)
        if taken == path or (taken == data and not path.exists()):
            raise ModelError(
                f"{path} cannot be written: {taken} holds weights of the model that is read, which would lose them; "
                "write to another name"
            )


def _keep_mapped(model: ir.Model) -> None:
    """Map external weights into memory now: their file may be the one about to be replaced."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value.numpy()


def _move(scratch: Path, folder: Path, names: list[str]) -> None:
    """Move files from `scratch` over those of `folder`; all of them or, where one fails, none."""
    replaced: list[str] = []
    try:
        for name in names:
            if (folder / name).exists():
                _set_aside(folder / name, scratch / f"{name}.before")
            replaced.append(name)
            os.replace(scratch / name, folder / name)
    except OSError:
        for name in replaced:
            (folder / name).unlink(missing_ok=True)
            if (scratch / f"{name}.before").exists():
                os.replace(scratch / f"{name}.before", folder / name)
        raise


def _set_aside(file: Path, aside: Path) -> None:
    """A second name for the file, so that it is never missing; its only one where the file system has no links."""
    try:
        os.link(file, aside)
    except OSError:
        os.replace(file, aside)


def _beside(model: ir.Model) -> bool:
    """Whether weights are written beside the file: above 2 GB, or where they came from such a file."""
    tensors = [v.const_value for g in model.graphs() for v in g.initializers.values()]
    return weight_bytes(model) > PROTO_LIMIT or any(isinstance(t, ir.ExternalTensor) for t in tensors)
