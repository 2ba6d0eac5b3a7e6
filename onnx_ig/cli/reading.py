"""From what stands on the command line to feeds: which file is for which input, and its content as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_ig.cli.photographs import ENDINGS, guess_preprocessing, read_photograph
from onnx_ig.cli.ports import Port, Signature
from onnx_ig.cli.tables import Table, fit_rows, literal, read_npy, read_npz, read_table
from onnx_ig.cli.texts import Texts, companion, tokenize
from onnx_ig.errors import FeedError, OptionError
from onnx_ig.manifest import Preprocessing

__all__ = ["Reading", "assigned", "read_array", "read_inputs"]

TABLES = (".csv", ".tsv")


@dataclass
class Reading:
    """What was read.

    `feeds`: arrays by input; `photographs`: pixels by input, one a sample; `texts`: the tokens of a token input;
    `features`: column names by input; `sources`: what each sample came from, for people; `held`: masks of positions
    that stay; `notes`: assumptions that were made.
    """

    feeds: dict[str, NDArray[Any]] = field(default_factory=dict)
    photographs: dict[str, list[NDArray[np.uint8]]] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=dict)
    features: dict[str, Sequence[str]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    held: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def rows(self, keep: Sequence[int], axes: Mapping[str, int | None], count: int) -> Reading:
        """The samples at the positions `keep` of `count`; `axes` says where samples lie in each input."""

        def listed(values: Sequence[Any]) -> list[Any]:
            return [values[i] for i in keep] if len(values) == count else list(values)

        def masks(array: NDArray[Any]) -> NDArray[Any]:
            return array[list(keep)] if array.ndim and len(array) == count else array

        def fed(array: NDArray[Any], axis: int | None) -> NDArray[Any]:
            return array if axis is None or array.shape[axis] != count else np.take(array, keep, axis)

        return replace(
            self,
            feeds={n: fed(a, axes.get(n)) for n, a in self.feeds.items()},
            photographs={n: listed(p) for n, p in self.photographs.items()},
            texts={
                n: Texts(listed(t.tokens), masks(t.ids), masks(t.present), masks(t.held)) for n, t in self.texts.items()
            },
            sources=listed(self.sources),
            held={n: masks(m) for n, m in self.held.items()},
        )


def read_inputs(
    items: Sequence[str],
    texts: Sequence[str],
    signature: Signature,
    preprocessing: Mapping[str, Preprocessing] | None = None,
) -> Reading:
    """Read `FILE` and `NAME=FILE` (or `NAME=VALUE`) items and texts.

    Several files for one input are its samples, in order; the lines of a .txt file are texts. `preprocessing` overrides
    that of the model's file.
    Raises FeedError where a file cannot be read or fed, OptionError where it is not clear for which input it is.
    """
    reading = Reading()
    parts: dict[str, list[NDArray[Any]]] = {}
    known = {**signature.metadata.preprocessing, **(preprocessing or {})}
    bare: list[Path] = []
    token_inputs = [p.name for p in signature.texts()]
    for item in items:
        name, value = assigned(item, signature)
        if Path(value).suffix.lower() == ".txt" and signature.metadata.vocabulary and name in (None, *token_inputs):
            texts = [*texts, *_lines(_existing(Path(value)))]
        elif name is None:
            bare.append(_existing(Path(value), signature))
        else:
            _take(reading, parts, signature.ports[name], value, known)
    if texts:
        _take_texts(reading, parts, texts, signature)
    for path in bare:
        _take_bare(reading, parts, path, signature, known)
    for name, arrays in parts.items():
        reading.feeds[name] = _joined(name, arrays)
    for name in reading.photographs:
        if len(reading.photographs[name]) != len(parts[name]):
            del reading.photographs[name]  # some samples of the input came as numbers
            break
    return reading


def assigned(item: str, signature: Signature) -> tuple[str | None, str]:
    """(input, value) of `NAME=VALUE`; (None, item) of anything else. Raises OptionError for an unknown name or no value."""
    name, equals, value = item.partition("=")
    if equals and not value:
        raise OptionError(f"{item!r}: a file or a number is needed behind the equals sign")
    if equals and name in signature.ports:
        return name, value
    if equals and not Path(item).exists():
        raise OptionError(f"the model has no input {name!r}; its inputs are {signature.names}")
    return None, item


def read_array(value: str, port: Port, spec: Preprocessing | None) -> NDArray[Any]:
    """A file or a literal for one input, as for a baseline. Raises FeedError."""
    if not Path(value).exists():
        written = literal(value, port)
        if written is not None:
            return written
    path = _existing(Path(value))
    ending = path.suffix.lower()
    if ending in ENDINGS:
        return read_photograph(path, spec or guess_preprocessing(port), port).tensor
    if ending in TABLES:
        return fit_rows(read_table(path), port)
    if ending == ".npz":
        arrays = read_npz(path)
        if port.name in arrays or len(arrays) == 1:
            return arrays.get(port.name, next(iter(arrays.values())))
        raise FeedError(f"{path} holds {_listed(arrays)}, and nothing for the input {port.name!r}")
    if ending == ".npy":
        return read_npy(path)
    raise _unknown_ending(path)


def _existing(path: Path, signature: Signature | None = None) -> Path:
    if path.is_dir():
        raise FeedError(f"{path} is a folder; give a file")
    if not path.exists():
        takes_texts = signature is not None and signature.metadata.vocabulary is not None
        raise FeedError(f"there is no file {path}" + ("; a text goes behind --text" if takes_texts else ""))
    return path


def _lines(path: Path) -> list[str]:
    """The texts of a file, one a line."""
    try:
        found = [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise FeedError(f"{path} is not text in UTF-8: {error}") from error
    if not found:
        raise FeedError(f"{path} holds no text")
    return found


def _unknown_ending(path: Path) -> FeedError:
    known = ", ".join((".npy", ".npz", *TABLES, *ENDINGS))
    hint = " (.txt where the model's file carries a vocabulary)" if path.suffix.lower() == ".txt" else ""
    return FeedError(f"{path} ends in {path.suffix or 'nothing'}, and only these can be read: {known}{hint}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _take(
    reading: Reading,
    parts: dict[str, list[NDArray[Any]]],
    port: Port,
    value: str,
    known: Mapping[str, Preprocessing],
) -> None:
    """One value for one input."""
    path = Path(value)
    ending = path.suffix.lower()
    if ending in ENDINGS and path.is_file():
        spec = known.get(port.name)
        if spec is None:
            spec = guess_preprocessing(port)
            note = (
                f"nothing says how pixels become the input {port.name!r}: they are taken as {spec.layout}, times "
                f"{spec.scale:.4g}; say otherwise with --layout, --scale, --mean, --std, or onnx-ig annotate"
            )
            if note not in reading.notes:
                reading.notes.append(note)
        photograph = read_photograph(path, spec, port)
        parts.setdefault(port.name, []).append(photograph.tensor)
        reading.photographs.setdefault(port.name, []).append(photograph.pixels)
        reading.sources.append(str(path))
        return
    if ending in TABLES and path.is_file():
        _take_table(reading, parts, read_table(path), port)
        return
    array = read_array(value, port, known.get(port.name))
    if port.dtype is not None and port.dtype.kind == "O":
        array = array.astype(object)
    parts.setdefault(port.name, []).append(array)


def _take_table(reading: Reading, parts: dict[str, list[NDArray[Any]]], table: Table, port: Port) -> None:
    parts.setdefault(port.name, []).append(fit_rows(table, port))
    if table.names is not None:
        reading.features[port.name] = table.names


def _take_texts(
    reading: Reading, parts: dict[str, list[NDArray[Any]]], texts: Sequence[str], signature: Signature
) -> None:
    vocabulary = signature.metadata.vocabulary
    if vocabulary is None:
        raise OptionError(
            "--text needs the model's vocabulary, which its file does not carry: onnx-ig annotate MODEL --vocabulary FILE"
        )
    ports = [p for p in signature.texts() if p.name not in parts]
    if len(ports) != 1:
        which = f"several inputs take tokens, {_listed(p.name for p in ports)}" if ports else "no input takes tokens"
        raise OptionError(f"--text: {which}; feed ids with NAME=FILE")
    found = tokenize(texts, vocabulary, ports[0])
    name = ports[0].name
    parts[name] = [found.ids]
    reading.texts[name] = found
    reading.sources.extend(texts)
    if found.held.any():
        reading.held[name] = found.held
    for port in signature.ports.values():
        beside = companion(port, found.present) if port.name not in parts and port.role == "held" else None
        if beside is not None:
            parts[port.name] = [beside]


def _take_bare(
    reading: Reading,
    parts: dict[str, list[NDArray[Any]]],
    path: Path,
    signature: Signature,
    known: Mapping[str, Preprocessing],
) -> None:
    """A file without a name: by the names inside it, or for the one input that it can be for."""
    ending = path.suffix.lower()
    if ending == ".npz":
        arrays = read_npz(path)
        if set(arrays) <= set(signature.ports):
            for name, array in arrays.items():
                parts.setdefault(name, []).append(array)
            return
        if len(arrays) > 1 or len(signature.ports) > 1:
            unknown = next(n for n in arrays if n not in signature.ports)
            raise FeedError(f"{path} holds {unknown!r}, and the model has the inputs {signature.names}")
    table = read_table(path) if ending in TABLES else None
    if table is not None and table.names is not None and _spread(reading, parts, table, signature):
        return
    if ending not in (".npy", ".npz", *TABLES, *ENDINGS):
        raise _unknown_ending(path)
    name = _meant(path, signature, parts, pictures=ending in ENDINGS)
    _take(reading, parts, signature.ports[name], str(path), known)


def _spread(reading: Reading, parts: dict[str, list[NDArray[Any]]], table: Table, signature: Signature) -> bool:
    """Give the columns of a table to the inputs that they are named after, where they are all there."""
    names = table.names or []
    if len(signature.ports) < 2 or not set(signature.ports) <= set(names):
        return False
    for name, port in signature.ports.items():
        column = table.columns([names.index(name)])
        if port.rank == 1:
            port = Port(name, port.dtype, (port.shape[0] if port.shape else None, 1), port.role)
            parts.setdefault(name, []).append(fit_rows(column, port)[:, 0])
        else:
            _take_table(reading, parts, column, port)
    return True


def _meant(path: Path, signature: Signature, parts: Mapping[str, Any], pictures: bool) -> str:
    """The one input that a file without a name can be for."""
    if len(signature.ports) == 1:
        return next(iter(signature.ports))
    candidates = signature.pictures() if pictures else [p for p in signature.ports.values() if p.name not in parts]
    if len(candidates) > 1:
        candidates = [p for p in candidates if p.role != "held"] or candidates
    if len(candidates) == 1:
        return candidates[0].name
    if not candidates:
        raise OptionError(f"no input of the model is left for {path}; its inputs are {signature.names}")
    raise OptionError(f"for which input is {path}? Say NAME={path}; the model's inputs are {signature.names}")


def _joined(name: str, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Samples of several files behind each other."""
    if len(arrays) == 1:
        return arrays[0]
    shapes = {a.shape[1:] for a in arrays}
    if len(shapes) > 1 or any(a.ndim == 0 for a in arrays):
        told = ", ".join(str(list(a.shape)) for a in arrays[:4])
        raise FeedError(f"the files for the input {name!r} have shapes that do not make one batch: {told}")
    return np.concatenate(arrays)


def complete(reading: Reading, signature: Signature) -> dict[str, NDArray[Any]]:
    """The feeds, once nothing is missing. Raises OptionError that says how to give what is."""
    missing = [p for n, p in signature.ports.items() if n not in reading.feeds]
    if not missing:
        return reading.feeds
    if len(signature.ports) == 1:
        raise OptionError(f"give data for the input {missing[0]}: a file, or --text where the model has a vocabulary")
    raise OptionError(
        f"nothing is given for {' and '.join(map(str, missing))}: add {' '.join(f'{p.name}=FILE' for p in missing)}"
    )
