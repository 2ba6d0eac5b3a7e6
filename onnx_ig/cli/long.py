"""Attributing all samples of a call: in one go or, where a file is wanted, block by block, kept as they are finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from onnx_ig.cli.app import note, progress
from onnx_ig.cli.drawing import MOST, Drawing
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

_OUTPUTS = (
    "as_json", "plot", "no_plot", "kinds", "colours", "sign", "vmin", "vmax", "top", "memory", "providers", "save",
)  # fmt: skip
"""Options that change nothing about the numbers: a run may go on with others."""


@dataclass
class Output:
    """What becomes of the answers."""

    model: str
    drawing: Drawing | None
    save: str | None
    top: int
    as_json: bool
    many: bool = False
    stem: str | None = None
    pictures: int = 0
    rows: list[Row] = field(default_factory=list)
    last: Attribution | None = None
    gradients: int = 0
    forwards: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    passed: dict[int, tuple[str, str]] = field(default_factory=dict)

    def show(
        self,
        block: Block,
        reading: Reading,
        metadata: Metadata,
        whole: bool,
        again: Callable[[], Reading] | None,
    ) -> None:
        """Print and draw a block.

        `whole`: it is all there is, and is printed at the end. `again` reads the samples of a block that was kept, for
        pictures that are not there yet.
        """
        result = block.result
        if result is None:
            return
        result.labels = metadata.labels
        rows = rows_of(result, reading, metadata, self.top, block.positions)
        if self.drawing is not None:
            self._draw(self.drawing, block, rows, reading, metadata, again)
        self.rows += rows
        self.last = result
        self.gradients += result.gradients
        self.forwards += result.forwards
        self.notes.update(dict.fromkeys(result.notes))
        if not whole and not self.as_json:
            click.echo("\n".join(paragraphs(result, rows, reading, alone=False)))

    def _draw(
        self,
        drawing: Drawing,
        block: Block,
        rows: list[Row],
        reading: Reading,
        metadata: Metadata,
        again: Callable[[], Reading] | None,
    ) -> None:
        result = block.result
        assert result is not None
        if self.stem is None:
            of_data = reading.sources and not reading.texts
            self.stem = Path(reading.sources[0] if of_data else self.model).stem
        planned = drawing.plan(result, rows, reading, metadata, self.stem, self.many)
        if drawing.path is None:
            each = max(len(planned) // len(rows), 1)
            left = max(MOST // each, 1) * each - self.pictures
            if left < len(planned) and self.pictures <= MOST:
                note(f"pictures of the first {max(MOST // each, 1)} samples only; --plot FILE draws all")
            self.pictures += len(planned)
            planned = planned[: max(left, 0)]
        if again is not None:
            # Older ones are of another run.
            there = [p for p in planned if p.path.exists() and p.path.stat().st_mtime >= (block.since or 0)]
            for one in there:
                one.row.picture.append(str(one.path))
            planned = [p for p in planned if p not in there]
        if planned:
            drawing.draw(planned, result, reading if again is None else again(), metadata)

    def end(self, reading: Reading, saved: str | None, whole: bool) -> None:
        """Print what is left to be said."""
        result = self.last
        if result is None:
            return
        result.gradients, result.forwards, result.notes = self.gradients, self.forwards, tuple(self.notes)
        if self.as_json:
            click.echo(to_json(result, self.rows, self.model, saved, self.passed))
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
    work.follow(explainer.batching)
    count = work.count
    path = None if output.save is None else _npz(output.save)
    kept = None
    if path is not None and count > 1 and not options.get("path"):
        kept = Kept(path, fingerprint(output.model, {k: v for k, v in given.items() if k not in _OUTPUTS}))
    whole = kept is None and not work.files
    moved = [s.name for s in explainer.subject.moved]
    readings: dict[int, Reading] = {}
    output.many = count > 1
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
                feeds = chosen[0].feeds
                some_options = _some(
                    options, positions, count, {n: (a.ndim, work.axes.get(n)) for n, a in feeds.items()}
                )
                return explainer.attribute(feeds, held=held or None, progress=report, **some_options)

            def check(positions: Sequence[int]) -> object:
                return explainer.scores(some(positions).feeds)

            result, good, more = rows_apart(attribute, check, keep)
            readings[first] = chosen[0]
            return Block(first, last, result, good, {**bad, **more})

        try:
            for block in blocks(count, make, kept, count if whole or options.get("path") else None):
                resumed = block.first not in readings
                reading = readings.pop(block.first) if not resumed else work.told(block.positions)
                output.passed.update({p: (work.title(p), reason) for p, reason in block.bad.items()})
                for position in block.bad:
                    note("{} is passed over: {}".format(*output.passed[position]))
                again = partial(work.only, block.positions) if resumed else None
                output.show(block, reading, metadata, whole, again)
        except BaseException:
            if kept is not None:
                _tell_kept(kept, count)
            raise
    if output.last is None:
        if kept is not None:
            kept.drop()
        raise FeedError(next((reason for _, reason in output.passed.values()), "there are no samples"))
    saved = None
    if kept is not None:
        saved = str(kept.finish())
    elif path is not None:
        saved = str(output.last.save(path))
    output.end(reading, saved, whole)


def _tell_kept(kept: Kept, count: int) -> None:
    """Say what there is of a run that ends early; a folder that holds nothing is removed."""
    done = kept.done
    if not done:
        kept.drop()
    else:
        note(f"broken off: {done} of {count} samples are kept in {kept.folder}; the same command goes on from there")


def _npz(path: str) -> Path:
    found = Path(path)
    return found if found.suffix == ".npz" else found.with_name(found.name + ".npz")


def _some(
    options: Mapping[str, Any], positions: Sequence[int], count: int, inputs: Mapping[str, tuple[int, int | None]]
) -> dict[str, Any]:
    """The options for some samples: arrays with a row for each sample have rows for these.

    `inputs`: rank and batch axis of what is fed. A baseline of that rank has rows, one of a lower rank is one row.
    """
    if len(positions) == count:
        return dict(options)

    def rows(value: Any, axis: int = 0) -> Any:
        if isinstance(value, np.ndarray) and value.ndim > axis and value.shape[axis] == count > 1:
            return np.take(value, positions, axis)
        return value

    def start(name: str, value: Any) -> Any:
        rank, axis = inputs.get(name, (np.ndim(value), 0))
        return rows(value, axis) if axis is not None and np.ndim(value) == rank else value

    target, baselines = options["target"], options["baselines"]
    if isinstance(baselines, dict):
        baselines = {name: start(name, value) for name, value in baselines.items()}
    target = [rows(t) for t in target] if isinstance(target, list) else rows(target)
    return {**options, "baselines": baselines, "target": target}
