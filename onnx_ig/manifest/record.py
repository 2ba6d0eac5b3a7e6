"""What an augmented model computes, as its file records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from onnx_ig.arguments import is_whole
from onnx_ig.errors import OptionError
from onnx_ig.manifest.fields import mapping, one_of, set_field, shown, text, texts, whole

__all__ = ["FORMAT", "AttributedInput", "Manifest"]

FORMAT = 1
"""Format of `onnx_ig.manifest` that is written; this one and older ones are read."""

Target: TypeAlias = str | int | tuple[int, ...]
KINDS = ("float", "tokens", "numbers", "value")


@dataclass(frozen=True)
class AttributedInput:
    """One attributed input of an augmented model.

    `attribution`: the output that carries its attribution; `kind`: "float", "tokens" for integer ids that feed an
    embedding (attribution [N, T] for ids [N, T]), "numbers" for integers that are cast to floats, or "value" for a value
    inside the model; `batch_axis`: the axis of the samples, None where there is none.
    """

    attribution: str
    kind: str = "float"
    batch_axis: int | None = 0

    def __post_init__(self) -> None:
        text("attribution", self.attribution)
        one_of("kind", self.kind, KINDS)
        if self.batch_axis is not None:
            whole("batch_axis", self.batch_axis, least=0)


@dataclass(frozen=True)
class Manifest:
    """What an augmented model computes.

    Args:
        method: name in the methods table.
        inputs: {input: `AttributedInput`}.
        output: the name of the output that is explained.
        held: inputs that stay as fed along the path.
        target: "predicted", "input" (an input of the model), an index, or a tuple of indices into the non-batch axes.
        baselines: {input: a number, nested lists of numbers, "input" (an input of the model), or another word that
            describes them}.
        n_steps, quadrature: of the path; None for methods without one.
        batchable: whether samples lead every input and output and do not influence each other; else `reason` says why.
        names: {name that was wanted: name that was taken}, where a name existed already.
        notes: whatever else is worth keeping, as JSON.
        version: of onnx_ig that wrote the model.
        format: of this record.

    Raises OptionError where a field has a wrong type or value.
    """

    method: str
    inputs: Mapping[str, AttributedInput]
    output: str
    held: Sequence[str] = ()
    target: Target = "predicted"
    baselines: Mapping[str, Any] = field(default_factory=dict)
    n_steps: int | None = None
    quadrature: str | None = None
    batchable: bool = True
    reason: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    format: int = FORMAT

    def __post_init__(self) -> None:
        for name in ("method", "output"):
            text(name, getattr(self, name))
        mapping("inputs", self.inputs)
        for name, given in self.inputs.items():
            if not isinstance(given, AttributedInput):
                raise OptionError(f"inputs[{name!r}] must be an AttributedInput, not {type(given).__name__}")
        set_field(self, "held", texts("held", self.held))
        set_field(self, "target", _target(self.target))
        mapping("baselines", self.baselines)
        for name in sorted(set(self.baselines) - set(self.inputs)):
            raise OptionError(f"baselines names {name!r}, which is not among the inputs {sorted(self.inputs)}")
        if self.n_steps is not None:
            whole("n_steps", self.n_steps, least=1)
        if self.quadrature is not None:
            text("quadrature", self.quadrature)
        if not isinstance(self.batchable, bool):
            raise OptionError(f"batchable must be true or false, not {self.batchable!r}")
        if not self.batchable and not self.reason:
            raise OptionError("a model that is not batchable needs the reason")
        mapping("names", self.names)
        texts("names", list(self.names.values()))
        mapping("notes", self.notes)
        whole("format", self.format, least=1)
        if self.format > FORMAT:
            raise OptionError(f"format {self.format} is newer than this onnx_ig reads ({FORMAT}); update onnx_ig")


def _target(value: Any) -> Target:
    if isinstance(value, str) and value in ("predicted", "input"):
        return value
    if is_whole(value):
        return int(value)
    if isinstance(value, list | tuple) and all(is_whole(v) for v in value):
        return tuple(int(v) for v in value)
    raise OptionError(f"target must be 'predicted', 'input', an index or a tuple of indices, not {shown(value)}")
