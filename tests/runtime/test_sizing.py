"""How many rows a run takes: estimates, trials, budgets, failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from onnx_ig.errors import RunError
from onnx_ig.runtime import sizing
from onnx_ig.runtime.session import Array
from onnx_ig.runtime.sizing import Known, Sizer, Split, sizer_of
from onnx_ig.runtime.steps import StepRunner, run_rows

MB = 2**20


class Machine:
    """A session of a model y = 2x whose rows take `row` bytes each, of `limit`; and the meter that shows them."""

    on_cpu = True
    threads = 1

    def __init__(self, row: int = MB, limit: int = 2**62):
        self.row, self.limit = row, limit
        self.learned: dict[Any, Known] = {}
        self.held = 0
        self.tidied = False
        self.batches: list[int] = []
        self.providers = ["CPUExecutionProvider"]
        self.outputs = ["y"]

    def used(self) -> int:
        return self.held

    def tidy(self) -> None:
        self.tidied = True

    def place(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return dict(feeds)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        rows = len(feeds["x"]) * (feeds["ig:alphas"].shape[1] if "ig:alphas" in feeds else 1)
        self.batches.append(rows)
        if rows * self.row > self.limit:
            raise RunError("ONNX Runtime failed while running the model: std::bad_alloc")
        self.held = max(self.held, rows * self.row)
        if "ig:alphas" not in feeds:
            return {"y": 2 * feeds["x"]}
        share = (feeds["ig:alphas"] * feeds["ig:weights"]).sum(1, keepdims=True) * feeds["x"]
        return {"ig:attribution:x": share.astype(np.float32), "ig:scores": feeds["ig:alphas"] * feeds["x"][:, :1]}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(sizing, "meter", lambda providers: made.used)
    return made


def forward(machine: Machine, n: int, split: Split, estimate: float | None = None) -> Array:
    x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    told = None if estimate is None else lambda feeds: estimate
    y = run_rows(machine, {"x": x}, {"x": 0}, {"y": 0}, n, split, told)["y"]  # type: ignore[arg-type]
    np.testing.assert_array_equal(y, 2 * x)
    return y


def test_without_an_estimate_runs_grow_until_the_budget(machine: Machine) -> None:
    forward(machine, 100, Split(budget=20 * MB))
    assert machine.batches == [1, 2, 4, 8, *[16] * 5, 5]
    assert machine.held <= 20 * MB


def test_what_was_learned_is_kept_for_rows_of_that_shape(machine: Machine) -> None:
    forward(machine, 100, Split(budget=20 * MB))
    machine.batches.clear()
    forward(machine, 40, Split(budget=20 * MB))
    assert machine.batches == [16, 16, 8]


def test_an_estimate_well_within_the_budget_needs_no_trial(machine: Machine) -> None:
    forward(machine, 100, Split(budget=2400 * MB), estimate=2 * MB)
    assert machine.batches == [64, 36]


def test_more_threads_take_larger_runs(machine: Machine) -> None:
    machine.threads = 8
    forward(machine, 300, Split(budget=2**40), estimate=2 * MB)
    assert machine.batches == [256, 44]


def test_an_estimate_that_is_too_small_is_found_out(machine: Machine) -> None:
    forward(machine, 100, Split(budget=10 * MB), estimate=MB / 2)
    assert machine.held <= 10 * MB


def test_rows_that_take_six_times_their_estimate_stay_within_the_budget(machine: Machine) -> None:
    """What is estimated below half of the budget is tried all the same."""
    machine.row = 6 * MB
    forward(machine, 100, Split(budget=300 * MB), estimate=MB)
    assert machine.held <= 300 * MB


def test_rows_of_a_run_do_not_grow_with_the_work(machine: Machine) -> None:
    forward(machine, 50, Split(budget=2**40), estimate=10 * MB)
    most = max(machine.batches)
    forward(machine, 500, Split(budget=2**40), estimate=10 * MB)
    assert max(machine.batches) == most


def test_a_row_beyond_the_budget_runs_alone_and_is_told(machine: Machine) -> None:
    split = Split(budget=MB // 2)
    forward(machine, 3, split)
    assert machine.batches == [1, 1, 1]
    assert "more than memory_budget" in " ".join(split.notes.values())


def test_rows_by_hand(machine: Machine) -> None:
    forward(machine, 10, Split(rows=4, budget=MB))
    assert machine.batches == [4, 4, 2]


def test_a_fixed_batch_is_filled_up(machine: Machine) -> None:
    forward(machine, 10, Split(fixed=4))
    assert machine.batches == [4, 4, 4]


def test_running_out_halves_and_goes_on(machine: Machine) -> None:
    machine.limit = 3 * MB
    split = Split(rows=8)
    forward(machine, 10, split)
    assert machine.batches == [8, 4, 2, 2, 2, 2, 2]
    assert machine.tidied
    assert "memory ran out with 4 rows" in " ".join(split.notes.values())


def test_steps_that_are_done_are_kept(machine: Machine) -> None:
    machine.limit = 4 * MB
    runner = StepRunner(machine, {"x": 0}, {"ig:attribution:x": 0, "ig:scores": 0})  # type: ignore[arg-type]
    alphas = np.tile(np.linspace(0, 1, 11), (2, 1))
    weights = np.full((2, 11), 1 / 11)
    x = np.float32([[1, 2], [3, 4]])
    machine.learned[(("x", 2),)] = Known(1.0, tried=6)  # believes in 6 rows
    failing = iter([False, True])
    original = machine.run

    def sometimes(feeds: Mapping[str, Array]) -> dict[str, Array]:
        machine.limit = 2 * MB if next(failing, False) else 2**62
        return original(feeds)

    machine.run = sometimes  # type: ignore[method-assign]
    got = runner.run({"x": x}, alphas, weights, Split(rows=6))
    assert machine.batches == [6, 5, 2, 2, 1, 2, 2, 2, 2, 2, 1]
    assert runner.rows == 22
    np.testing.assert_allclose(got["ig:attribution:x"], x / 2, rtol=1e-6)
    np.testing.assert_allclose(got["ig:scores"], alphas * x[:, :1])


def test_feeds_that_do_not_fit_halve_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points along the paths are made before each run: memory may run out there."""
    runner = StepRunner(machine, {"x": 0}, {"ig:attribution:x": 0, "ig:scores": 0})  # type: ignore[arg-type]
    original, sizes = np.take, list[int]()

    def short(a: Array, indices: Array, axis: int | None = None) -> Array:
        sizes.append(len(indices))
        if len(indices) > 3:
            raise MemoryError("Unable to allocate 1.15 MiB")
        return original(a, indices, axis)

    monkeypatch.setattr("onnx_ig.runtime.steps.np.take", short)
    x, samples, alphas = np.float32([[1, 2], [3, 4]]), np.repeat([0, 1], 5), np.tile(np.linspace(0, 1, 5), 2)
    split, got = Split(rows=8), np.zeros((10, 2))
    for first, last, given in runner.points({"x": x}, samples, alphas, split):
        got[first:last] = given["ig:attribution:x"]
    assert sizes == [8, 4, 2, 2, 2, 2, 2]
    np.testing.assert_allclose(got, x[samples] * alphas[:, None], rtol=1e-6)
    assert "memory ran out with 4 rows" in split.notes["failed"]


def test_a_budget_below_one_row_is_told_also_where_nothing_is_tried(machine: Machine) -> None:
    forward(machine, 4, Split(budget=8 * MB), estimate=MB)
    again = Split(budget=MB // 4)
    forward(machine, 4, again, estimate=MB)
    assert machine.batches[-4:] == [1, 1, 1, 1]
    assert "one row takes about 1.05 MB, more than memory_budget" in again.notes["budget"]


def test_one_row_that_does_not_fit(machine: Machine) -> None:
    machine.limit = MB // 2
    with pytest.raises(RunError, match="one row needs more memory than there is"):
        forward(machine, 4, Split(rows=2))
    with pytest.raises(RunError, match="batch of 4 rows"):
        forward(machine, 4, Split(fixed=4))


def test_other_errors_are_not_tried_again(machine: Machine) -> None:
    def broken(feeds: Mapping[str, Array]) -> dict[str, Array]:
        machine.batches.append(0)
        raise RunError("a kernel is missing")

    machine.run = broken  # type: ignore[method-assign]
    with pytest.raises(RunError, match="a kernel is missing"):
        forward(machine, 4, Split(rows=2))
    assert machine.batches == [0]


def test_shapes_have_sizes_of_their_own(machine: Machine) -> None:
    short, long = np.zeros((4, 3), np.float32), np.zeros((4, 9), np.float32)
    for x in (short, long):
        sizer = sizer_of(machine, {"x": x}, {"x": 0}, Split(), lambda feeds: feeds["x"].nbytes)  # type: ignore[arg-type]
        assert isinstance(sizer, Sizer)
        assert sizer.known.row_bytes == x[:1].nbytes
