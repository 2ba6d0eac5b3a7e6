"""The judge of gradients: smooth points are judged, kinks and jumps are recognised, wrong gradients are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.judging import DOUBLE, SINGLE, Precision, Unsettled, disagreement, slopes

Function = Callable[[np.ndarray], np.ndarray]
RAMP = np.array([0.3, -0.7, 1.2])


def _score(function: Function, precision: Precision) -> Callable[..., float]:
    dtype = np.float32 if precision is SINGLE else np.float64
    return lambda feeds: float(function(feeds["x"].astype(dtype)).astype(np.float64).sum())


@pytest.mark.parametrize("precision", [DOUBLE, SINGLE])
@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (np.sin, np.cos),
        (np.abs, np.sign),
        (np.floor, np.zeros_like),
        (lambda x: np.maximum(x, 0) ** 2, lambda x: 2 * np.maximum(x, 0)),
        (lambda x: 1000 * np.exp(-x), lambda x: -1000 * np.exp(-x)),
    ],
)
def test_smooth_points(function: Function, derivative: Function, precision: Precision) -> None:
    found = slopes(_score(function, precision), {"x": RAMP}, ["x"], np.abs(function(RAMP)).sum(), precision)
    right = derivative(RAMP)
    assert all(disagreement(s, right, 0.0) <= (1e-5 if precision is DOUBLE else 1e-2) for s in found)
    wrong = right + np.array([0, 0, 0.5 * max(1.0, np.abs(right).max())])
    assert any(disagreement(s, wrong, 0.0) > 2e-2 for s in found)


@pytest.mark.parametrize(
    ("function", "precision"),
    [
        *((f, p) for f in (np.abs, np.sign, np.floor, np.sqrt, lambda x: np.maximum(x, 0)) for p in (DOUBLE, SINGLE)),
        (lambda x: x + 1e-3 * np.abs(x), DOUBLE),  # within what single precision tells
    ],
)
def test_points_that_are_not_smooth(function: Function, precision: Precision) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(Unsettled):
        slopes(_score(function, precision), {"x": np.array([0.0, 0.4])}, ["x"], 1.0, precision)


def test_a_kink_is_told_from_noise() -> None:
    with pytest.raises(Unsettled) as kink:
        slopes(_score(np.abs, DOUBLE), {"x": np.zeros(2)}, ["x"], 1.0, DOUBLE)
    assert kink.value.kink

    def rounded(feeds: dict[str, np.ndarray]) -> float:
        return float(np.sin(feeds["x"] * 1e3).astype(np.float16).sum())

    with pytest.raises(Unsettled) as noise:
        slopes(rounded, {"x": RAMP}, ["x"], 1.0, DOUBLE)
    assert not noise.value.kink


def test_steps_lost_in_a_narrow_type_are_not_taken_for_a_slope_of_zero() -> None:
    def narrow(feeds: dict[str, np.ndarray]) -> float:
        return float((feeds["x"].astype(np.float32) + np.float32(64)).astype(np.float64).sum())

    with pytest.raises(Unsettled):
        slopes(narrow, {"x": RAMP}, ["x"], 1.0, DOUBLE)


def test_inputs_that_are_not_smooth_do_not_hide_the_others() -> None:
    found = slopes(
        lambda feeds: float((feeds["x"] ** 2).sum() + np.abs(feeds["k"]).sum()),
        {"x": RAMP, "k": np.zeros(2)}, ["x", "k"], 3.0, DOUBLE,
    )  # fmt: skip
    assert {s.input for s in found} == {"x"}
