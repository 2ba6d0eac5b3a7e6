"""Where the path of a one-file model starts: baselines that are baked in, or inputs of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ig.arrays import as_array, converted
from onnx_ig.errors import OptionError
from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.sources import Source, check_ids
from onnx_ig.rewriter.subject import Subject

__all__ = ["Starts"]

NewInput = Callable[[str, "ir.DataType | None", "ir.Shape | None"], ir.Value]
_LARGE = 64  # entries; a larger baseline is not repeated in the manifest


class Starts:
    """The baselines of a subject, as `rewrite(baselines=)` takes them.

    Raises OptionError where a name is unknown, or a baseline does not fit its input's type or shape.
    """

    def __init__(self, subject: Subject, batched: bool, baselines: Any):
        self._batched = batched
        names = [s.name for s in subject.moved]
        if isinstance(baselines, Mapping):
            unknown = [n for n in baselines if n not in names]
            if unknown:
                raise OptionError(f"baselines: {unknown[0]!r} is not attributed")
            given = {n: baselines.get(n) for n in names}
        else:
            given = dict.fromkeys(names, baselines)
        self._given = {s.name: self._checked(s, given[s.name], subject) for s in subject.moved}
        self._indirect = {s.name for s in subject.moved if s.indirect}

    def kind(self, name: str) -> str:
        """ "zero", "fed" (a value of the input's shape) or "ids" (other tokens, other integers)."""
        if self._given[name] is None:
            return "zero"
        return "ids" if name in self._indirect else "fed"

    def value(self, op: Emitter, name: str, x: ir.Value, new_input: NewInput) -> ir.Value | None:
        """The baseline of the input `x` as a value of its shape; None for zero."""
        given = self._given[name]
        if given is None:
            return None
        if isinstance(given, str):
            return new_input(f"{name}_baseline", x.dtype, x.shape)
        start = op.Expand(given, op.Shape(x))
        start.shape = x.shape
        return start

    def described(self) -> dict[str, Any]:
        """As the manifest records them."""
        return {name: self._described(given) for name, given in self._given.items()}

    def _described(self, given: Any) -> Any:
        if given is None:
            return 0
        if isinstance(given, str):
            return given
        return "baked in" if given.size > _LARGE else given.tolist()

    def _checked(self, source: Source, given: Any, subject: Subject) -> Any:
        """None for zero, "input", or an array of the input's type."""
        what = f"baselines: that of {source.name!r}"
        if isinstance(given, str):
            if given != "input":
                raise OptionError(f"{what} is {given!r}; give 0, a number, an array or 'input'")
        elif given is None or (np.ndim(given := as_array(given, what)) == 0 and given == 0):
            return np.zeros((), subject.value(source.name).dtype.numpy()) if source.kind == "numbers" else None  # type: ignore[union-attr]
        if source.kind == "value":
            raise OptionError(f"{what}, an internal value, is zero in a one-file model")
        if isinstance(given, str):
            return given
        array = as_array(given, what)
        x = subject.value(source.name)
        allowed = "iu" if source.indirect else "fiu"
        if x.dtype is None or array.dtype.kind not in allowed:
            raise OptionError(f"{what} is {array.dtype}, which does not fit its type")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise OptionError(f"{what} holds NaN or infinity")
        self._check_row(array, x, what)
        check_ids(array, source, what)
        return converted(array, x.dtype.numpy(), what)

    def _check_row(self, array: np.ndarray, x: ir.Value, what: str) -> None:
        if x.shape is None:
            return
        dims = list(x.shape)
        row = dims[1:] if self._batched else dims
        shape = array.shape[1:] if array.ndim == len(dims) and array.shape[0] == 1 else array.shape
        fits = len(shape) <= len(row) and all(
            s == d or not isinstance(d, int) or s == 1 for s, d in zip(shape[::-1], row[::-1], strict=False)
        )
        if not fits:
            raise OptionError(f"{what} has shape {list(array.shape)}; one row of it is {row}")
