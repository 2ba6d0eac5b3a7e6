"""How many rows go into one run: from sizes of activations, a short trial, a memory budget, and what has failed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from onnx_ig.errors import RunError
from onnx_ig.runtime.memory import Watch, bytes_of, free_memory, meter, out_of_memory
from onnx_ig.runtime.session import Array, Session

__all__ = ["Estimate", "Sizer", "Split", "sizer_of", "split_of"]

Estimate = Callable[[Mapping[str, Array]], float]
"""Bytes that one row takes while a model runs, from what is fed."""

_MOST_ROWS = 1024
_SHARE = 0.5
"""Of what is free: the budget where none is given."""
_ENOUGH = 128 * 2**20
_ENOUGH_A_THREAD = 64 * 2**20
"""Bytes of activations in a run on the CPU beyond which more rows are no faster, only larger."""
_TRUST = 0.25
"""An estimate is believed without a trial up to this share of the budget: measured on 30 networks, rows take 0.2 to 1.6
times theirs."""


@dataclass
class Split:
    """How rows (samples x steps) are split into runs.

    `rows` at most, None: as memory allows; `fixed`: the model takes exactly that many samples, one step a run; `budget`
    in bytes, for what runs take beyond the loaded sessions. `notes` is filled with what should be told.
    """

    rows: int | None = None
    fixed: int | None = None
    budget: int = 2**62
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def padded(self) -> bool:
        """Whether a run always holds exactly `fixed` samples."""
        return self.fixed is not None


def split_of(
    rows: int | None = None,
    fixed: int | None = None,
    memory_budget: int | str | None = None,
    session: Session | None = None,
) -> Split:
    """The split of one call; the budget is a share of what is free now where none is given. Raises OptionError."""
    budget = bytes_of(memory_budget)
    if budget is None:
        budget = int(_SHARE * free_memory(session.providers if session is not None else ()))
    return Split(rows, fixed, budget)


@dataclass
class Known:
    """What a session has shown of rows of one shape: bytes of a row, the most rows that ran, the fewest that did not fit."""

    row_bytes: float
    tried: int = 0
    failed: int | None = None


class Sizer:
    """Decides how many rows a run takes, and learns from every run.

    Where the estimate is well within the budget it decides alone, so that the same work is always cut in the same way.
    Else runs grow from 1, 2, 4 ... rows while memory is measured: a trial that is part of the work. A run that fails for
    want of memory halves the rows.
    """

    def __init__(self, session: Session, known: Known, split: Split):
        self.session = session
        self.known = known
        self.split = split
        self._meter = meter(session.providers)
        self._start: int | None = None
        enough = max(_ENOUGH, session.threads * _ENOUGH_A_THREAD) if session.on_cpu else split.budget
        self._enough = min(split.budget, enough)

    def rows(self) -> int:
        """The number of rows of the next run, at least 1."""
        if self.split.fixed is not None:
            return self.split.fixed
        rows = self.split.rows if self.split.rows is not None else self._by_memory()
        if self.known.failed is not None:
            rows = min(rows, self.known.failed // 2)
        return max(1, rows)

    def _by_memory(self) -> int:
        if self._meter is None and not self.known.row_bytes:
            return 1
        most = self._most()
        if most == 1:
            self._tell_large(self.known.row_bytes)
        return most if self._trusted(most) else min(most, max(1, 2 * self.known.tried))

    def _most(self) -> int:
        """The largest power of two within what is enough."""
        rows = _MOST_ROWS
        while rows > 1 and rows * self.known.row_bytes > self._enough:
            rows //= 2
        return rows

    def _trusted(self, rows: int) -> bool:
        return rows <= self.known.tried or (
            self.known.row_bytes > 0 and rows * self.known.row_bytes <= _TRUST * self.split.budget
        )

    def run(self, made: Callable[[], Mapping[str, Array]], rows: int) -> dict[str, Array] | None:
        """Run `rows` rows; None where memory ran out and fewer rows are to be tried.

        `made` gives the feeds: making them may be what memory does not suffice for, and they are gone when this returns.
        Raises RunError: anything else, and one row (or the fixed number of them) that does not fit.
        """
        try:
            if self.split.rows is not None or self.split.fixed is not None or rows <= self.known.tried:
                return self.session.run(made())
            return self._trial(made(), rows)
        except (RunError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            self._shrink(rows, error)
            return None

    def _trial(self, feeds: Mapping[str, Array], rows: int) -> dict[str, Array]:
        known = self.known
        if self._meter is None or self._trusted(self._most()):
            given = self.session.run(feeds)
        else:
            if self._start is None:
                self._start = self._meter()
            with Watch(self._meter, self._start) as watch:
                given = self.session.run(feeds)
            known.row_bytes = max(known.row_bytes, watch.grown / rows)
            if rows == 1:
                self._tell_large(watch.grown)
        known.tried = max(known.tried, rows)
        return given

    def _tell_large(self, row_bytes: float) -> None:
        if row_bytes > self.split.budget:
            self.split.notes["budget"] = (
                f"one row takes about {row_bytes / 1e6:.3g} MB, more than memory_budget; rows run one at a time"
            )

    def _shrink(self, rows: int, error: BaseException) -> None:
        if rows <= 1 or self.split.fixed is not None:
            number = "one row" if rows <= 1 else f"the model's batch of {rows} rows"
            raise RunError(f"{number} needs more memory than there is ({error})") from error
        self.session.tidy()
        self.known.failed = rows
        self.known.tried = min(self.known.tried, rows // 2)
        self.split.notes["failed"] = (
            f"memory ran out with {rows} rows in a run; the rest went on with at most {rows // 2}"
        )


def sizer_of(
    session: Session,
    feeds: Mapping[str, Array],
    axes: Mapping[str, int | None],
    split: Split,
    estimate: Estimate | None = None,
) -> Sizer:
    """The sizer for rows of the shape of `feeds`, whose batch axes do not count, with what the session has shown of them."""
    key: Hashable = tuple(
        (name, *(d for i, d in enumerate(a.shape) if i != axes.get(name))) for name, a in sorted(feeds.items())
    )
    if key not in session.learned:
        row = {k: a if axes.get(k) is None else a[(slice(None),) * axes[k] + (slice(1),)] for k, a in feeds.items()}  # type: ignore[operator]
        session.learned[key] = Known(estimate(row) if estimate is not None else 0.0)
    return Sizer(session, session.learned[key], split)
