"""Attributing all samples of a call: in one go where they are few, else block by block, kept as they are finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from onnx_ig.cli.app import note, progress
from onnx_ig.cli.drawing import Drawing
from onnx_ig.cli.reading import Reading
from onnx_ig.cli.report import Row, header, paragraphs, rows_of, to_json
from onnx_ig.cli.work import Work, fingerprint
from onnx_ig.errors import FeedError
from onnx_ig.explain.long_runs import Block, Kept, blocks, rows_apart

if TYPE_CHECKING:
    from onnx_ig.explain import Explainer
    from onnx_ig.manifest import Metadata
    from onnx_ig.runtime.result import Attribution

__all__ = ["Output", "attribute_all"]

_FEW = 16
"""Samples that are worked on in one go even where a file is wanted."""
_OUTPUTS = ("as_json", "plot", "no_plot", "kinds", "colours", "sign", "vmin", "vmax", "top", "memory", "providers")
"""Options that change nothing about the numbers: a run may go on with others."""


@dataclass
class Output:
    """What becomes of the answers."""

    model: str
    drawing: Drawing | None
    save: str | None
    top: int
    as_json: bool
    stem: str | None = None
    rows: list[Row] = field(default_factory=list)
    last: Attribution | None = None
    gradients: int = 0
    forwards: int = 0
    notes: dict[str, None] = field(default_factory=dict)

    def show(self, block: Block, reading: Reading, metadata: Metadata, whole: bool, drawn: bool) -> None:
        """Print and draw a block; `whole`: it is all there is, and is printed at the end."""
        result = block.result
        if result is None:
            return
        result.labels = metadata.labels
        rows = rows_of(result, reading, metadata, self.top, block.positions)
        if self.drawing is not None and not drawn:
            stem = Path(reading.sources[0]).stem if reading.sources and not reading.texts else Path(self.model).stem
            self.stem = self.stem or stem
            self.drawing.draw(result, rows, reading, metadata, stem if len(result.prediction) == 1 else self.stem)
        self.rows += rows
        self.last = result
        self.gradients += result.gradients
        self.forwards += result.forwards
        self.notes.update(dict.fromkeys(result.notes))
        if not whole and not self.as_json:
            click.echo("\n".join(paragraphs(result, rows, reading, alone=False)))

    def end(self, reading: Reading, saved: str | None, whole: bool) -> None:
        """Print what is left to be said."""
        result = self.last
        if result is None:
            return
        result.gradients, result.forwards, result.notes = self.gradients, self.forwards, tuple(self.notes)
        if self.as_json:
            click.echo(to_json(result, self.rows, self.model, saved))
            return
        lines = [header(result), *result.notes]
        if whole:
            lines += paragraphs(result, self.rows, reading, alone=len(self.rows) == 1)
        if saved is not None:
            lines.append(f"saved: {saved}")
        click.echo("\n".join(lines))


def attribute_all(
    explainer: Explainer,
    work: Work,
    metadata: Metadata,
    options: Mapping[str, Any],
    output: Output,
    given: Mapping[str, Any],
) -> None:
    """Attribute every sample of `work`, print, draw and save what is found.

    `options` go to `Explainer.attribute`; `given` is all that the command was called with, for telling runs apart. Samples
    that cannot be fed are told and passed over. Raises FeedError where none can.
    """
    batching = explainer.batching
    if work.files:
        work.axes = {**batching.axes, work.name: batching.axes.get(work.name) or 0}
    elif batching.batched and not batching.candidate:
        work.axes = batching.axes
    count = work.count
    path = None if output.save is None else _npz(output.save)
    kept = None
    if path is not None and count > _FEW and not options.get("path"):
        kept = Kept(path, fingerprint(output.model, {k: v for k, v in given.items() if k not in _OUTPUTS}))
    whole = kept is None and not work.files
    moved = [s.name for s in explainer.subject.moved]
    readings: dict[int, Reading] = {}
    failed: dict[int, str] = {}
    with progress(explainer.method.name) as report:

        def make(first: int, last: int) -> Block:
            reading, keep, bad = work.part(first, last)
            chosen: list[Reading] = [reading]

            def some(positions: Sequence[int]) -> Reading:
                return reading if list(positions) == keep else reading.rows(
                    [keep.index(p) for p in positions], work.axes, len(keep)
                )  # fmt: skip

            def attribute(positions: Sequence[int]) -> Attribution:
                chosen[0] = some(positions)
                held = {n: m for n, m in chosen[0].held.items() if n in moved}
                return explainer.attribute(
                    chosen[0].feeds, held=held or None, progress=report, **_some(options, positions, count)
                )

            def check(positions: Sequence[int]) -> object:
                return explainer.scores(some(positions).feeds)

            result, good, more = rows_apart(attribute, check, keep)
            readings[first] = chosen[0]
            return Block(first, last, result, good, {**bad, **more})

        done = 0
        try:
            for block in blocks(count, make, kept, count if whole else None):
                resumed = block.first not in readings
                reading = readings.pop(block.first) if not resumed else work.told(block.positions)
                failed.update(block.bad)
                for position, reason in block.bad.items():
                    note(f"{work.title(position)} is passed over: {reason}")
                output.show(block, reading, metadata, whole, drawn=resumed)
                done = block.last
        except KeyboardInterrupt:
            if kept is not None:
                note(
                    f"broken off: {done} of {count} samples are kept in {kept.folder}; the same command goes on from there"
                )
            raise
    if output.last is None:
        if kept is not None:
            kept.finish()
        raise FeedError(next(iter(failed.values()), "there are no samples"))
    saved = None
    if kept is not None:
        saved = str(kept.finish())
    elif path is not None:
        saved = str(output.last.save(path))
    output.end(reading, saved, whole)


def _npz(path: str) -> Path:
    found = Path(path)
    return found if found.suffix == ".npz" else found.with_name(found.name + ".npz")


def _some(options: Mapping[str, Any], positions: Sequence[int], count: int) -> dict[str, Any]:
    """The options for some samples: arrays with a row for each sample have rows for these."""

    def rows(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim and len(value) == count > 1:
            return value[list(positions)]
        return value

    def each(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: rows(v) for k, v in value.items()}
        return [rows(v) for v in value] if isinstance(value, list) else rows(value)

    return {**options, **{k: each(options[k]) for k in ("baselines", "target") if len(positions) < count}}
