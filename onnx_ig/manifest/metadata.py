"""All `onnx_ig.*` entries of a file's metadata, read and written together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from onnx_ig.arguments import is_whole
from onnx_ig.errors import ModelError, OptionError
from onnx_ig.manifest.fields import set_field, shown, texts
from onnx_ig.manifest.preparation import Preprocessing, Vocabulary
from onnx_ig.manifest.record import FORMAT, AttributedInput, Manifest

__all__ = ["KEYS", "Metadata", "read"]

KEYS = ("manifest", "preprocessing", "labels", "vocabulary", "features")
"""The keys, each written with the prefix `onnx_ig.`."""


@dataclass(frozen=True)
class Metadata:
    """All that a file says about itself; what it does not say is None or empty."""

    manifest: Manifest | None = None
    preprocessing: Mapping[str, Preprocessing] = field(default_factory=dict)
    labels: Sequence[str] | None = None
    vocabulary: Vocabulary | None = None
    features: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.labels is not None:
            set_field(self, "labels", texts("labels", self.labels))
        set_field(self, "features", {k: texts(f"features[{k!r}]", v) for k, v in self.features.items()})

    def write(self) -> dict[str, str]:
        """The metadata entries, for `metadata_props`; only those that say something.

        Raises OptionError where a baseline or note cannot be written as JSON.
        """
        found: dict[str, Any] = {}
        for key in KEYS:
            value = getattr(self, key)
            if value is not None and value != {}:
                found[f"onnx_ig.{key}"] = _dump(key, _record(value))
        return found


def read(metadata: Mapping[str, str]) -> Metadata:
    """What the metadata of a model says; `Metadata()` where it says nothing.

    Raises ModelError where an `onnx_ig.*` entry is not the JSON that it should be.
    """
    return Metadata(
        manifest=_entry(metadata, "manifest", _manifest),
        preprocessing=_entry(metadata, "preprocessing", _each(Preprocessing)) or {},
        labels=_entry(metadata, "labels", lambda v: texts("labels", v)),
        vocabulary=_entry(metadata, "vocabulary", lambda v: _build(Vocabulary, v)),
        features=_entry(metadata, "features", _feature_names) or {},
    )


def _entry(metadata: Mapping[str, str], key: str, parse: Callable[[Any], Any]) -> Any:
    text = metadata.get(f"onnx_ig.{key}")
    if text is None:
        return None
    try:
        return parse(json.loads(text))
    except json.JSONDecodeError as error:
        raise ModelError(f"the model's metadata onnx_ig.{key} is not JSON: {error}; {_REMEDY}") from error
    except OptionError as error:
        raise ModelError(f"the model's metadata onnx_ig.{key} is wrong: {error}; {_REMEDY}") from error


_REMEDY = "write it again (onnx-ig annotate), or remove the entry"


def _build(cls: type[Any], value: Any) -> Any:
    """An instance of the dataclass `cls` from a JSON object, unknown and missing names refused."""
    if not isinstance(value, dict):
        raise OptionError(f"it must be a JSON object, not {shown(value)}")
    known = [f.name for f in fields(cls)]
    for name in value:
        if name not in known:
            raise OptionError(f"{name!r} is unknown; known are {', '.join(known)}")
    try:
        return cls(**value)
    except TypeError as error:
        missing = re.findall(r"'(\w+)'", str(error))
        raise OptionError(f"{', '.join(map(repr, missing)) or error} is missing") from error


def _each(cls: type[Any]) -> Callable[[Any], dict[str, Any]]:
    def build(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise OptionError(f"it must be a JSON object {{input: ...}}, not {shown(value)}")
        found = {}
        for name, record in value.items():
            try:
                found[name] = _build(cls, record)
            except OptionError as error:
                raise OptionError(f"for {name!r}: {error}") from error
        return found

    return build


def _manifest(value: Any) -> Any:
    if isinstance(value, dict) and is_whole(value.get("format")) and value["format"] > FORMAT:
        # Names of a newer format are unknown here; the format is the reason to give.
        raise OptionError(f"format {value['format']} is newer than this onnx_ig reads ({FORMAT}); update onnx_ig")
    if isinstance(value, dict) and "inputs" in value:
        value = {**value, "inputs": _each(AttributedInput)(value["inputs"])}
    return _build(Manifest, value)


def _feature_names(value: Any) -> dict[str, Sequence[str]]:
    if not isinstance(value, dict):
        raise OptionError(f"it must be a JSON object {{input: [names]}}, not {shown(value)}")
    return {name: texts(f"features[{name!r}]", names) for name, names in value.items()}


def _record(value: Any) -> Any:
    """JSON values for a dataclass, mappings and sequences of them."""
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _record(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _record(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_record(v) for v in value]
    return value


def _dump(key: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{key} cannot be written as JSON: {error}") from error
