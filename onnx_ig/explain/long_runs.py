"""Many samples, some at a time: what is finished stays when a run is broken off, rows that cannot be fed are passed over."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnx_ig.errors import FeedError, ModelError, OnnxIgError, OptionError, RunError
from onnx_ig.runtime.joining import join_saved
from onnx_ig.runtime.result import Attribution, load_result
from onnx_ig.runtime.writing import whole_file

__all__ = ["Block", "Kept", "blocks", "rows_apart"]

_FIRST = 1
_MOST = 1024
_SECONDS = 10.0
"""A block grows until it takes so long: that much is lost at most."""


@dataclass
class Block:
    """Samples `first` to `last`: what was found for those at `positions`, None where there are none; `bad` {position: why}.

    `since`: when it was kept, where it comes from an earlier run.
    """

    first: int
    last: int
    result: Attribution | None
    positions: list[int]
    bad: dict[int, str] = field(default_factory=dict)
    since: float | None = None


class Kept:
    """A folder beside the file that is wanted, `<file>.partial`, with a file for each finished block.

    `about` says what the run is, as JSON: another run's blocks are not gone on with. Raises OptionError then, ModelError
    where the folder cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, Any]):
        self.path = Path(path)
        self.folder = self.path.with_name(self.path.name + ".partial")
        told = json.loads(json.dumps(about, default=str))
        record = self.folder / "run.json"
        before = _recorded(record)
        if before == told:
            return
        files = list(self.folder.glob("[0-9]*.json"))
        if before is not None and files:
            names = sorted(k for k in {*before, *told} if before.get(k) != told.get(k))
            raise OptionError(
                f"{self.folder} holds part of another run, which differs in {', '.join(names)}; "
                "remove it, or save to another file"
            )
        try:
            self.folder.mkdir(exist_ok=True)
            for file in files:  # of a run whose record is gone: nobody knows what they are
                file.unlink()
        except OSError as error:
            raise ModelError(f"{self.folder} cannot be written: {error.strerror or error}") from error
        _write(record, told)

    def blocks(self) -> Iterator[Block]:
        """What is finished, in order, up to the first gap or the first block that cannot be read; the rest is dropped."""
        position, files = 0, sorted(self.folder.glob("[0-9]*.json"))
        for place, file in enumerate(files):
            block = _read(file)
            if block is None or block.first != position:
                for other in files[place:]:
                    other.unlink()
                return
            yield block
            position = block.last

    @property
    def done(self) -> int:
        """How many samples are finished."""
        files = sorted(self.folder.glob("[0-9]*.json"))
        return int(json.loads(files[-1].read_text())["last"]) if files else 0

    def keep(self, block: Block) -> None:
        """Write a block; its JSON comes last and makes it count. Raises ModelError where it cannot be written."""
        file = self.folder / f"{block.first:012}.json"
        if block.result is not None:
            block.result.save(file.with_suffix(".npz"))
        told = {"first": block.first, "last": block.last, "positions": block.positions, "bad": block.bad}
        _write(file, told)

    def finish(self) -> Path | None:
        """Join the blocks to the file that is wanted and remove the folder; None where no sample could be fed.

        Raises ModelError where that file cannot be written, or the blocks do not lie behind each other.
        """
        parts, position = [], 0
        for file in sorted(self.folder.glob("[0-9]*.json")):
            told = json.loads(file.read_text())
            if told["first"] != position:
                raise ModelError(
                    f"{self.folder} was written by two runs at once; remove it and start one of them again"
                )
            position = told["last"]
            if told["positions"]:
                parts.append(file.with_suffix(".npz"))
        path = join_saved(parts, self.path) if parts else None
        self.drop()
        return path

    def drop(self) -> None:
        """Remove the folder, its record first: blocks without one are never gone on with."""
        (self.folder / "run.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder)


def _recorded(record: Path) -> dict[str, Any] | None:
    """What the run was; None where there is no record, {} where it is damaged."""
    try:
        found = json.loads(record.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read(file: Path) -> Block | None:
    """A block that was kept; None where its files are damaged."""
    try:
        told = json.loads(file.read_text())
        result = load_result(file.with_suffix(".npz")) if told["positions"] else None
    except (ValueError, KeyError, ModelError):
        return None
    bad = {int(k): v for k, v in told["bad"].items()}
    return Block(told["first"], told["last"], result, told["positions"], bad, file.stat().st_mtime)


def _write(file: Path, told: Any) -> None:
    with whole_file(file) as stream:
        stream.write(json.dumps(told).encode())


def blocks(
    count: int,
    attribute: Callable[[int, int], Block],
    kept: Kept | None = None,
    size: int | None = None,
) -> Iterator[Block]:
    """`count` samples, block by block: those that are kept already, then new ones, kept as soon as they are finished.

    `attribute(first, last)` makes one. Blocks of `size` samples; None: few at first, and more while they are quick.
    """
    position = 0
    if kept is not None:
        for block in kept.blocks():
            position = block.last
            yield block
    growing, size = size is None, size or _FIRST
    while position < count:
        begin = time.monotonic()
        block = attribute(position, min(position + size, count))
        if block.result is not None:
            block.result.samples = np.asarray(block.positions, np.int64) if _gaps(block) else None
        if kept is not None:
            if block.result is not None:
                block.result.samples = np.asarray(block.positions, np.int64)
            kept.keep(block)
        yield block
        position = block.last
        if growing and time.monotonic() - begin < _SECONDS / 2:
            size = min(2 * size, _MOST)


def _gaps(block: Block) -> bool:
    return block.positions != list(range(block.first, block.last))


def rows_apart(
    attribute: Callable[[Sequence[int]], Attribution],
    check: Callable[[Sequence[int]], object],
    positions: Sequence[int],
) -> tuple[Attribution | None, list[int], dict[int, str]]:
    """Attribute samples together and, where that fails, without those that `check`, a forward pass, fails for alone.

    Returns (result of the good ones, their positions, {position: why} of the others). Raises what fails for no sample
    alone.
    """
    if not positions:
        return None, [], {}
    try:
        return attribute(positions), list(positions), {}
    except (FeedError, RunError) as error:
        failure: OnnxIgError = error
    bad: dict[int, str] = {}
    for position in positions:
        try:
            check([position])
        except (FeedError, RunError) as error:
            bad[position] = str(error)
    if not bad:
        raise failure
    good = [p for p in positions if p not in bad]
    return (attribute(good) if good else None), good, bad
