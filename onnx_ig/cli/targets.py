"""What `--target` and `--baseline` mean."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_ig.cli.ports import Port, Signature
from onnx_ig.cli.reading import assigned, read_array
from onnx_ig.cli.tables import fit_rows, literal, read_npy, read_npz, read_table
from onnx_ig.errors import OptionError
from onnx_ig.manifest import Preprocessing

__all__ = ["baselines_of", "steps_of", "target_of", "targets_of"]

_BLACK_AND_WHITE = {"black": 0.0, "white": 255.0}


def target_of(text: str, labels: Sequence[str] | None) -> Any:
    """A target: "predicted", an index, indices with commas, a label, or a .npy file. Raises OptionError."""
    if text == "predicted":
        return text
    if labels is not None and text in labels and not text.lstrip("+-").isdigit():
        return list(labels).index(text)
    if text.lower().endswith(".npy"):
        if not Path(text).is_file():
            raise OptionError(f"--target: there is no file {text}")
        return read_npy(Path(text))
    try:
        indices = [int(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(_unknown_label(text, labels)) from None
    return indices[0] if len(indices) == 1 else tuple(indices)


def targets_of(texts: Sequence[str], labels: Sequence[str] | None) -> Any:
    """One target, or a list of several."""
    found = [target_of(text, labels) for text in texts]
    return found if len(found) > 1 else found[0] if found else "predicted"


def _unknown_label(text: str, labels: Sequence[str] | None) -> str:
    if labels is None:
        return f"--target {text!r} is no index, and the model's file carries no labels (--labels gives them)"
    near = difflib.get_close_matches(text, labels, n=3) or list(labels[:3])
    return f"--target {text!r} is no index and none of the {len(labels)} labels, as {', '.join(map(repr, near))}"


def baselines_of(texts: Sequence[str], signature: Signature, moved: Sequence[str]) -> Any:
    """Baselines from `VALUE` and `NAME=VALUE`: None for none, one value for all inputs, or by name.

    A value is a number, a file, "black" or "white" for pictures, or for token inputs a token ("pad" and "unk" stand for
    the vocabulary's own). Raises OptionError.
    """
    named: dict[str, Any] = {}
    for text in texts:
        name, value = assigned(text, signature)
        if name is None:
            for each in moved:
                named[each] = _baseline(value, signature.ports.get(each), signature, each)
        else:
            named[name] = _baseline(value, signature.ports[name], signature, name)
    return named or None


def steps_of(items: Sequence[str], option: str, signature: Signature, moved: Sequence[str]) -> Any:
    """Arrays of a path or of references by name, from `FILE` and `NAME=FILE`; None for none. Raises OptionError."""
    named: dict[str, Any] = {}
    for item in items:
        name, value = assigned(item, signature)
        path = Path(value)
        if not path.is_file():
            raise OptionError(f"{option}: there is no file {path}")
        if path.suffix.lower() == ".npz" and name is None:
            named.update(read_npz(path))
            continue
        if name is None and len(moved) != 1:
            raise OptionError(f"{option}: say NAME={value}; attributed are {', '.join(map(repr, moved))}")
        name = name or moved[0]
        if path.suffix.lower() == ".csv" and name in signature.ports:
            named[name] = fit_rows(read_table(path), signature.ports[name])
        else:
            named[name] = read_npy(path)
    return named or None


def _baseline(value: str, port: Port | None, signature: Signature, name: str) -> Any:
    spec = signature.preprocessing(name)
    if port is None:
        return _inside(value, name)
    if Path(value).exists():
        return read_array(value, port, spec)
    if value.startswith("["):
        written = literal(value, port)
        if written is None:
            raise OptionError(f"--baseline of {name!r}: {value!r} is no list of numbers, and there is no such file")
        return written
    if port.role == "tokens":
        return _token(value, signature)
    if value in _BLACK_AND_WHITE and spec is not None:
        return _flat(_BLACK_AND_WHITE[value], port, spec)
    if value in _BLACK_AND_WHITE and port.dtype == np.uint8:
        return _BLACK_AND_WHITE[value]
    return _number(value, name)


def _inside(value: str, name: str) -> Any:
    """A baseline of a value inside the model: a number or a .npy file."""
    if Path(value).is_file():
        return read_npy(Path(value))
    return _number(value, name)


def _number(value: str, name: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise OptionError(f"--baseline of {name!r}: {value!r} is no number, and there is no such file") from None


def _token(value: str, signature: Signature) -> Any:
    """The id of a token; None, the zero embedding, for 0."""
    vocabulary = signature.metadata.vocabulary
    if vocabulary is not None:
        token = {"pad": vocabulary.pad, "unk": vocabulary.unk}.get(value) or value
        if token in vocabulary.tokens:
            return np.int64(list(vocabulary.tokens).index(token))
    try:
        number = json.loads(value)
    except json.JSONDecodeError:
        number = None
    if number == 0:
        return None
    if isinstance(number, int) and not isinstance(number, bool):
        return np.int64(number)
    raise OptionError(f"--baseline: {value!r} is no token of the model's vocabulary, no id, and there is no such file")


def _flat(pixel: float, port: Port, spec: Preprocessing) -> NDArray[Any]:
    """A picture of one colour, for the layout; the sides that the model leaves open are those of what is fed."""
    row = (pixel * float(spec.scale or 1.0) - np.array(spec.mean)) / np.array(spec.std)
    if np.ptp(row) == 0:
        return np.float64(row.flat[0])  # type: ignore[return-value]
    sizes = dict(zip(spec.layout, port.shape or [None] * len(spec.layout), strict=True))
    height, width = spec.size or (sizes["H"], sizes["W"])
    if height is None or width is None:
        raise OptionError("--baseline black and white need the size of the picture: give --size")
    axes = spec.layout.replace("N", "")
    shape = {"C": row.size, "H": height, "W": width}
    view = row.reshape([row.size if a == "C" else 1 for a in axes])
    return np.ascontiguousarray(np.broadcast_to(view, [shape[a] for a in axes]))
