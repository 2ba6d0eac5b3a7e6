"""What is to be attributed, some samples at a time: rows of arrays, or the pictures of a folder as they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onnx_ig
from onnx_ig.cli.photographs import ENDINGS
from onnx_ig.cli.ports import Signature
from onnx_ig.cli.reading import Reading, assigned, complete, read_inputs
from onnx_ig.errors import FeedError, OptionError
from onnx_ig.rewriter.batching import Batching

__all__ = ["Work", "fingerprint", "work_of"]


@dataclass
class Work:
    """The samples of one call.

    `reading` holds what was read at once; `files` the pictures of a folder for the input `name`, which are read when they
    are needed; `axes` where samples lie in each input.
    """

    signature: Signature
    reading: Reading
    name: str = ""
    files: list[Path] = field(default_factory=list)
    axes: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of samples; 1 where the feeds are one."""
        if self.files:
            return len(self.files)
        sizes = [
            a.shape[x] for n, a in self.reading.feeds.items() if (x := self.axes.get(n)) is not None and a.ndim > x
        ]
        return sizes[0] if sizes else 1

    def follow(self, batching: Batching) -> None:
        """Take samples where the model takes them."""
        if self.files:
            self.axes = {**batching.axes, self.name: batching.axes.get(self.name) or 0}
        elif batching.batched and not batching.candidate:
            self.axes = batching.axes

    def part(self, first: int, last: int) -> tuple[Reading, list[int], dict[int, str]]:
        """(samples first..last but bad ones, their positions, {position: why} of the bad ones)."""
        if not self.files:
            reading = self.reading
            whole = first == 0 and last == self.count
            bad = {} if last - first == 1 else self._not_finite(first, last)
            keep = [i for i in range(first, last) if i not in bad]
            return (reading if whole and not bad else reading.rows(keep, self.axes, self.count)), keep, bad
        keep, bad, parts = [], {}, []
        for position in range(first, last):
            try:
                parts.append(read_inputs([f"{self.name}={self.files[position]}"], [], self.signature))
                keep.append(position)
            except FeedError as error:
                bad[position] = str(error)
        reading = self.reading.rows(keep, self.axes, self.count)
        for part in parts:
            reading.photographs.setdefault(self.name, []).extend(part.photographs[self.name])
            reading.sources.extend(part.sources)
        if parts:
            reading.notes = [*reading.notes, *(n for n in parts[0].notes if n not in reading.notes)]
            reading.feeds[self.name] = _joined([p.feeds[self.name] for p in parts], self.name)
            complete(reading, self.signature)
        return reading, keep, bad

    def only(self, positions: Sequence[int]) -> Reading:
        """These samples, of which it is known that they can be read, one behind the other."""
        if not self.files:
            return self.reading.rows(positions, self.axes, self.count)
        reading, keep, _ = self.part(positions[0], positions[-1] + 1)
        return reading.rows([keep.index(p) for p in positions], self.axes, len(keep))

    def told(self, positions: Sequence[int]) -> Reading:
        """What reports say of samples that were attributed before, without reading pictures again."""
        reading = self.reading.rows(positions, self.axes, self.count)
        if self.files:
            reading.photographs[self.name] = []
            reading.sources = [str(self.files[p]) for p in positions]
        return reading

    def title(self, position: int) -> str:
        """A sample's name, for people."""
        if self.files:
            return str(self.files[position])
        sources = self.reading.sources
        return sources[position] if len(sources) == self.count else f"sample {position}"

    def _not_finite(self, first: int, last: int) -> dict[int, str]:
        bad: dict[int, str] = {}
        for name, array in self.reading.feeds.items():
            axis = self.axes.get(name)
            if axis is None or array.dtype.kind != "f":
                continue
            rows = np.moveaxis(array, axis, 0)
            for i in range(first, min(last, len(rows))):
                if not np.isfinite(rows[i]).all():
                    bad.setdefault(i, f"input {name!r} holds NaN or infinity")
        return bad


def work_of(items: Sequence[str], texts: Sequence[str], signature: Signature) -> Work:
    """Read what is given, but the pictures of a folder. Raises FeedError, OptionError."""
    folders = [(n, Path(v)) for n, v in (assigned(i, signature) for i in items) if Path(v).is_dir()]
    if not folders:
        reading = read_inputs(items, texts, signature)
        complete(reading, signature)
        return Work(signature, reading)
    if len(folders) > 1:
        raise OptionError("one folder of pictures can be given, not several")
    name, folder = folders[0]
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() in ENDINGS and p.is_file())
    if not files:
        raise FeedError(f"{folder} holds no pictures; known endings are {', '.join(ENDINGS)}")
    if name is None:
        pictures = signature.pictures() if len(signature.ports) > 1 else list(signature.ports.values())
        if len(pictures) != 1:
            raise OptionError(f"for which input are the pictures in {folder}? Say NAME={folder}")
        name = pictures[0].name
    rest = [i for i in items if not Path(assigned(i, signature)[1]).is_dir()]
    reading = read_inputs(rest, texts, signature) if rest or texts else Reading()
    other = sum(p.is_file() and p.suffix.lower() not in ENDINGS for p in folder.iterdir())
    if other:
        reading.notes.append(f"{folder}: {other} files that are no pictures are left out")
    return Work(signature, reading, name, files)


def _joined(arrays: Sequence[NDArray[Any]], name: str) -> NDArray[Any]:
    shapes = {a.shape[1:] for a in arrays}
    if len(shapes) > 1:
        told = ", ".join(str(list(s)) for s in sorted(shapes)[:4])
        raise OptionError(
            f"the pictures for the input {name!r} have different shapes, {told}: say --size, --resize, --crop"
        )
    return np.concatenate(arrays)


def fingerprint(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a run is: the model's content, every option, size and time of every file that an option names, and onnx_ig's
    own version."""
    digest = hashlib.sha256()
    with open(model, "rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    files: dict[str, Any] = {}
    for value in given.values():
        for text in value if isinstance(value, list | tuple) else [value]:
            for path in _named(text) if isinstance(text, str) else []:
                for file_ in _files(path):
                    stat = file_.stat()
                    files[str(file_)] = [stat.st_size, stat.st_mtime_ns]
    options = {k: v for k, v in given.items() if v not in (None, (), [])}
    return {"model": digest.hexdigest(), "onnx_ig": onnx_ig.__version__, **options, "files": files}


def _named(text: str) -> list[Path]:
    """What `FILE` or `NAME=FILE` may name: equals signs may be part of either."""
    parts = text.split("=")
    return [Path("=".join(parts[i:])) for i in range(len(parts))]


def _files(path: Path) -> list[Path]:
    try:
        if not path.name or not path.exists():
            return []
        return sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    except OSError:  # a text that is too long for a name
        return []
