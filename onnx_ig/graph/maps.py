"""Outputs that are dictionaries (ZipMap), which are neither tensors nor lists of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import onnx

from onnx_ig.errors import ModelError, OnnxIgWarning

__all__ = ["NOTES", "warn_of", "without_maps"]

NOTES = "onnx_ig.notes"
"""Key in the `meta` of a main graph: what was changed when it was read, sentences."""


def without_maps(proto: onnx.ModelProto, origin: str) -> tuple[onnx.ModelProto, list[str]]:
    """The model with the tensors behind its ZipMap outputs in their place, and what was changed.

    `proto` itself where it has none; it is not changed. Raises ModelError for an input that is a dictionary.
    """
    graph = proto.graph
    for value in graph.input:
        if _is_map(value.type):
            raise ModelError(
                f"{origin}: its input {value.name!r} is a dictionary, which cannot be attributed; "
                "convert the model without the step that takes it (DictVectorizer, CastMap) and feed an array"
            )
    if not any(_is_map(v.type) for v in graph.output):
        return proto, []
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    graph = changed.graph
    tensors = {n.output[0]: n.input[0] for n in graph.node if (n.domain, n.op_type) == ("ai.onnx.ml", "ZipMap")}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in tensors:
            tensors[node.output[0]] = tensors[node.input[0]]
    notes, outputs = [], []
    present = {v.name for v in graph.output}
    for value in graph.output:
        if not _is_map(value.type):
            outputs.append(value)
            continue
        tensor = tensors.get(value.name)
        instead = "nothing stands for it"
        if tensor is not None and tensor not in present:
            outputs.append(onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, None))
            present.add(tensor)
        if tensor is not None:
            instead = f"the tensor {tensor!r} that it is made of stands for it"
        notes.append(f"the output {value.name!r} holds dictionaries and is left out; {instead}")
    _keep(graph.output, outputs)
    _keep(graph.value_info, [v for v in graph.value_info if not _is_map(v.type)])
    _keep(graph.node, [n for n in graph.node if n.output[0] not in tensors])
    return changed, notes


def warn_of(notes: Iterable[str]) -> None:
    """Say aloud what a model that is given back lacks. Warns OnnxIgWarning, at the caller's caller."""
    for note in notes:
        warnings.warn(note, OnnxIgWarning, stacklevel=3)


def _keep(field: Any, kept: Sequence[Any]) -> None:
    copies = [type(item)() for item in kept]
    for copy, item in zip(copies, kept, strict=True):
        copy.CopyFrom(item)
    del field[:]
    field.extend(copies)


def _is_map(described: onnx.TypeProto) -> bool:
    kind = described.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return _is_map(getattr(described, kind).elem_type)
    return kind == "map_type"
