"""The pictures that `attribute` leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_ig.cli.app import note
from onnx_ig.cli.reading import Reading
from onnx_ig.cli.report import Row
from onnx_ig.errors import MissingDependencyError, OptionError
from onnx_ig.manifest import Metadata
from onnx_ig.plot import picture

if TYPE_CHECKING:
    from onnx_ig.runtime.result import Attribution

__all__ = ["MOST", "Drawing", "Planned"]

MOST = 8
"""Pictures that are left without being asked for."""


@dataclass(frozen=True)
class Planned:
    """The picture of one input of one row, and its file."""

    row: Row
    input: str | None
    path: Path


@dataclass(frozen=True)
class Drawing:
    """What was asked for: `path` None leaves pictures under names of their own in the working folder."""

    path: str | None
    kinds: Sequence[str]
    colours: str | None
    sign: str | None
    vmin: float | None
    vmax: float | None

    def plan(
        self, result: Attribution, rows: Sequence[Row], reading: Reading, metadata: Metadata, stem: str, many: bool
    ) -> list[Planned]:
        """Which pictures belong to these rows. `many`: the call is about several samples, which the names then tell.

        A photograph's own name takes the place of `stem`.
        """
        inputs = self._inputs(result, reading, metadata)
        planned = []
        for row in rows:
            own = Path(row.source).stem if row.source and not reading.texts else stem
            for name in inputs:
                marks = [str(row.position)] if many else []
                marks += [str(row.place)] if len({r.place for r in rows}) > 1 else []
                marks += [_plain(name)] if name is not None and len(inputs) > 1 else []
                texts = name is not None and _is_text(name, result, reading)
                planned.append(Planned(row, name, self._path(own, marks, texts)))
        return planned

    def draw(self, planned: Sequence[Planned], result: Attribution, reading: Reading, metadata: Metadata) -> None:
        """Draw what was planned, and note in its row where. Raises OptionError where a picture was asked for and cannot be
        drawn."""
        try:
            for one in planned:
                self._draw(result, one.row, one.input, reading, metadata, one.path)
                one.row.picture.append(str(one.path))
        except (MissingDependencyError, OptionError) as error:
            if self._asked:
                raise
            note(f"no picture: {error}")

    @property
    def _asked(self) -> bool:
        return bool(self.kinds) or any(
            v is not None for v in (self.path, self.colours, self.sign, self.vmin, self.vmax)
        )

    def _inputs(self, result: Attribution, reading: Reading, metadata: Metadata) -> Sequence[str | None]:
        """A picture for each input; one, named None, for all where all are tables."""
        names = result.keys()
        rows = len(result.prediction)
        tables = all(
            not _is_text(n, result, reading) and n not in metadata.preprocessing and a.ndim <= 2 and a.size <= 64 * rows
            for n, a in result.items()
        )
        return [None] if len(names) > 1 and tables and not self.kinds else names

    def _path(self, stem: str, marks: Sequence[str], texts: bool) -> Path:
        if self.path is not None:
            path = Path(self.path)
            return path.with_name("_".join([path.stem, *marks]) + path.suffix)
        ending = ".html" if texts and (not self.kinds or tuple(self.kinds) == ("tokens",)) else ".png"
        return Path("_".join([stem, *marks, "attribution"]) + ending)

    def _draw(
        self, result: Attribution, row: Row, name: str | None, reading: Reading, metadata: Metadata, path: Path
    ) -> None:
        options: dict[str, Any] = {"sign": self.sign, "vmin": self.vmin, "vmax": self.vmax}
        photographs = reading.photographs.get(name or "", [])
        texts = reading.texts.get(name or "")
        picture(
            result,
            path,
            input=name,
            sample=row.sample,
            target=row.place,
            kind=list(self.kinds) or None,
            metadata=metadata,
            image=photographs[row.sample] if len(photographs) == len(result.prediction) else None,
            tokens=texts.tokens[row.sample] if texts is not None else None,
            held=np.atleast_2d(texts.held)[row.sample].tolist() if texts is not None else None,
            colours=self.colours,
            **{k: v for k, v in options.items() if v is not None},
        )


def _is_text(name: str, result: Attribution, reading: Reading) -> bool:
    return name in reading.texts or (name in result.feeds and result.feeds[name].dtype.kind in "iu")


def _plain(name: str) -> str:
    """An input's name as part of a file's name."""
    return "".join(c if c.isalnum() else "_" for c in name)
