"""What a model takes, as far as reading files for it needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.sources import classify
from onnx_ig.manifest import Metadata, Preprocessing, read

__all__ = ["Port", "Signature", "signature"]


@dataclass(frozen=True)
class Port:
    """One input: its type (None where it is no tensor), and its dimensions, None where they are free.

    `role`: "float", "tokens" and "numbers" (integers that are cast to floats) are attributed by default, "held" is fed as it
    is.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | None, ...] | None
    role: str = "float"

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    def __str__(self) -> str:
        dims = "" if self.shape is None else "[" + ", ".join("?" if d is None else str(d) for d in self.shape) + "]"
        return f"{self.name!r} ({self.dtype or 'no tensor'}{' ' + dims if dims else ''})"


@dataclass(frozen=True)
class Signature:
    """The inputs of a model in order, and what its file says about itself."""

    ports: Mapping[str, Port]
    metadata: Metadata

    @property
    def names(self) -> str:
        return ", ".join(map(repr, self.ports))

    def pictures(self) -> list[Port]:
        """Inputs that can take a picture: those with preprocessing, else floats with two long axes."""
        known = [p for n, p in self.ports.items() if n in self.metadata.preprocessing]
        return known or [p for p in self.ports.values() if _takes_pictures(p)]

    def texts(self) -> list[Port]:
        """Inputs that take token ids."""
        tokens = [p for p in self.ports.values() if p.role == "tokens"]
        return tokens or [p for p in self.ports.values() if p.dtype is not None and p.dtype.kind in "iu"]

    def preprocessing(self, name: str) -> Preprocessing | None:
        return self.metadata.preprocessing.get(name)


def signature(model: ir.Model) -> Signature:
    """The signature of a loaded model. Raises ModelError where its metadata are wrong."""
    initializers = set(model.graph.initializers)
    roles = {s.name: s.kind for s in classify(model.graph)}
    ports = {
        value.name: Port(value.name, _dtype(value), _shape(value), roles.get(value.name, "held"))
        for value in model.graph.inputs
        if value.name and value.name not in initializers
    }
    return Signature(ports, read(model.metadata_props))


def _dtype(value: ir.Value) -> np.dtype[Any] | None:
    if value.dtype is None or not isinstance(value.type, ir.TensorType):
        return None
    if value.dtype == ir.DataType.STRING:
        return np.dtype(object)
    return np.dtype(value.dtype.numpy())


def _shape(value: ir.Value) -> tuple[int | None, ...] | None:
    if value.shape is None:
        return None
    return tuple(d if isinstance(d, int) and d > 0 else None for d in value.shape.dims)


def _takes_pictures(port: Port) -> bool:
    if port.dtype is None or port.dtype.kind not in "fu" or port.shape is None:
        return False
    sides: Sequence[int | None] = port.shape[1:] if len(port.shape) == 4 else port.shape
    return len(port.shape) in (3, 4) and sum(d is None or d > 1 for d in sides) >= 2
