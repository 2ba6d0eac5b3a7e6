from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(1)


def test_where() -> None:
    pick = np.array([[True], [False]])
    check("Where", {"c": pick, "a": rng.standard_normal((2, 3)), "b": rng.standard_normal(3)})
    check("Where", {"c": pick, "a": rng.standard_normal(()), "b": rng.standard_normal((4, 1, 1))})


def test_where_keeps_the_other_branch_clean() -> None:
    feeds = {"c": np.array([True, False]), "a": np.zeros(2), "b": np.zeros(2)}
    got = gradients_of(node_model("Where", feeds), feeds, "y", ["a", "b"], np.array([np.inf, 2.0]))
    assert got["a"].tolist() == [np.inf, 0]
    assert got["b"].tolist() == [0, 2]


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes(op: str) -> None:
    check(op, {"a": rng.standard_normal((2, 3))})
    check(op, {"a": rng.standard_normal((2, 3)), "b": rng.standard_normal((2, 3))})
    check(op, {"a": rng.standard_normal((2, 3)), "b": rng.standard_normal(3), "c": rng.standard_normal((4, 1, 1))})
    check(op, {"a": rng.standard_normal((0, 3)), "b": rng.standard_normal(3)})


def test_ties_split_evenly() -> None:
    feeds = {"a": np.array([1.0, 2, 5]), "b": np.array([1.0, 3, 5]), "c": np.array(1.0)}
    got = gradients_of(node_model("Max", feeds), feeds, "y", ["a", "b", "c"], np.ones(3))
    np.testing.assert_allclose(got["a"], [1 / 3, 0, 1 / 2])
    np.testing.assert_allclose(got["b"], [1 / 3, 1, 1 / 2])
    np.testing.assert_allclose(got["c"], 1 / 3)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("low", "high"), [(-0.5, 0.7), (None, 0.7), (-0.5, None), (None, None), (0.4, 0.4), (0.7, 0.1)]
)
def test_clip(low: float | None, high: float | None, stored: bool) -> None:
    bounds = {"low": None if low is None else np.array(low), "high": None if high is None else np.array(high)}
    smooth = low is None or high is None or low != high
    kept = [n for n, v in bounds.items() if v is not None]
    check(
        "Clip", {"x": rng.standard_normal((3, 4)), **bounds},
        wrt=None if smooth else ["x"], constants=kept if stored else [],
    )  # fmt: skip


def test_clip_without_bounds_named_at_all() -> None:
    check("Clip", {"x": rng.standard_normal((3, 4))})


def test_clip_is_closed_at_its_bounds() -> None:
    feeds = {"x": np.array([0.0, 6, 3, -1, 7]), "low": np.array(0.0), "high": np.array(6.0)}
    got = gradients_of(node_model("Clip", feeds), feeds, "y", ["x", "low", "high"], np.array([1.0, 2, 4, 8, 16]))
    assert got["x"].tolist() == [0, 0, 4, 0, 0]
    assert got["low"] == 9
    assert got["high"] == 18
