"""Rules that refine: exact integrals, what a level changed, no value asked for twice, placement."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onnx_ig.refinement import Array, Bisected, Need, Nested, Rule, cells_of, fejer

BOTH = Need(completeness=True, agreement=True)
Curve = Callable[[Array], Array]
"""alphas [k] -> values [k, d]."""


def scores(values: Curve, alphas: Array) -> Array:
    """Integral of the sum of the values from 0, by the rectangle rule on a fine grid."""
    grid = (np.arange(200_000) + 0.5) / 200_000
    steps = np.concatenate([[0], np.cumsum(values(grid).sum(1)) / len(grid)])
    return np.interp(alphas, np.linspace(0, 1, len(steps)), steps)


def fill(rule: Rule, values: Curve) -> None:
    rule.put(values(rule.pending), scores(values, rule.pending))


def started(rule: Rule, values: Curve) -> Rule:
    while len(rule.pending):
        fill(rule, values)
    return rule


def nested(values: Curve, *ends: float) -> Rule:
    before, after = scores(values, np.array([0.0, 1.0]))
    return started(Nested(np.array([0, *ends, 1]), before, after), values)


def bisected(values: Curve, cells: int = 4) -> Rule:
    before, after = scores(values, np.array([0.0, 1.0]))
    return started(Bisected(np.linspace(0, 1, cells + 1), before, after), values)


def steps(alphas: Array) -> Array:
    """Three features that jump at places of their own."""
    return np.stack([alphas > 0.317, 2.0 * (alphas > 0.61), np.where(alphas < 0.8, -1.0, 3.0)], 1)


STEPS = np.array([0.683, 0.78, -0.2])


def smooth(alphas: Array) -> Array:
    return np.stack([np.exp(alphas), alphas**5, 1 / (1 + np.exp(-40 * (alphas - 0.7))), np.ones_like(alphas)], 1)


SMOOTH = np.array([np.e - 1, 1 / 6, np.log1p(np.exp(40 * 0.3)) / 40 - np.log1p(np.exp(-40 * 0.7)) / 40, 1])


def test_a_constant_is_exact_at_once() -> None:
    def three(alphas: Array) -> Array:
        return np.full((len(alphas), 2), 3.0)

    for rule in (bisected(three), nested(three)):
        np.testing.assert_allclose(rule.total(), 3)
        np.testing.assert_allclose(rule.change(), 0, atol=1e-12)
        assert rule.count <= 9


@pytest.mark.parametrize("n", [1, 3, 7, 15, 31])
def test_fejer_is_exact_for_its_polynomials(n: int) -> None:
    nodes, weights = fejer(n)
    assert ((nodes > 0) & (nodes < 1)).all()
    for degree in range(n):
        assert weights @ nodes**degree == pytest.approx(1 / (degree + 1), abs=1e-13)


def test_fejer_nodes_are_nested() -> None:
    np.testing.assert_allclose(fejer(15)[0][1::2], fejer(7)[0], atol=1e-15)


def test_jumps_are_found() -> None:
    rule = bisected(steps)
    while rule.count < 60:
        rule = rule.refine(BOTH, 60 - rule.count)
        fill(rule, steps)
    assert rule.count == 60
    np.testing.assert_allclose(rule.total(), STEPS, atol=3e-4)  # 60 midpoints may be off by 1/60 of a jump of 4


def test_smooth_integrands() -> None:
    for rule, limit in ((nested(smooth, 0.5, 0.9), 1e-4), (bisected(smooth), 2e-3)):
        while rule.count < 50:
            rule = rule.refine(BOTH, 50 - rule.count)
            if not len(rule.pending):
                break
            fill(rule, smooth)
        np.testing.assert_allclose(rule.total(), SMOOTH, atol=limit)


@pytest.mark.parametrize("values", [steps, smooth])
def test_change_is_the_last_answer_less_the_one_before(values: Curve) -> None:
    rule = Bisected(np.linspace(0, 1, 5), 0.0, float(scores(values, np.array([1.0]))[0]))
    fill(rule, values)
    before = rule.total()
    fill(rule, values)
    np.testing.assert_allclose(rule.change(), rule.total() - before, atol=1e-12)
    fine = nested(values, 0.3)
    nodes, weights = fejer(3)
    coarse = 0.3 * weights @ values(0.3 * nodes) + 0.7 * weights @ values(0.3 + 0.7 * nodes)
    np.testing.assert_allclose(fine.total() - fine.change(), coarse, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: bisected(steps), lambda: nested(steps, 0.2)])
def test_no_alpha_is_asked_for_twice(make: Callable[[], Rule]) -> None:
    asked: list[float] = []
    rule = make()
    for _ in range(5):
        rule = rule.refine(BOTH, 100)
        asked.extend(rule.pending)
        fill(rule, steps)
    assert len(np.unique(np.round(asked, 12))) == len(asked) > 10
    assert 0 < min(asked) <= max(asked) < 1


def test_what_is_not_smooth_is_bisected_with_all_values() -> None:
    """A square root, whose derivative is infinite at the start."""

    def root(alphas: Array) -> Array:
        return np.stack([0.5 / np.sqrt(alphas), np.ones_like(alphas)], 1)

    def score(alphas: Array) -> Array:
        return np.sqrt(alphas) + alphas

    rule: Rule = Nested(np.array([0, 1.0]), 0.0, 2.0)
    asked: list[float] = []
    while rule.count < 100 and len(rule.pending):
        asked.extend(rule.pending)
        rule.put(root(rule.pending), score(rule.pending))
        if rule.count == 31:
            before = rule.total()
        if not len(rule.pending):
            rule = rule.refine(BOTH, 100 - rule.count)
    assert isinstance(rule, Bisected)
    assert len(set(asked)) == len(asked) == rule.count == 100
    assert abs(rule.total()[0] - 1) < 1e-3 < abs(before[0] - 1)


def test_a_resumed_rule_tells_what_every_other_value_changed() -> None:
    nodes = np.array([0.1, 0.25, 0.4, 0.7, 0.9])
    rule = Bisected.resumed((0.0, 1.0), nodes, smooth(nodes), nodes)
    kept = Bisected.resumed((0.0, 1.0), nodes[1::2], smooth(nodes[1::2]), nodes[1::2])
    np.testing.assert_allclose(rule.change(), rule.total() - kept.total(), atol=1e-12)


def test_most_is_kept_to() -> None:
    rule = bisected(steps)
    rule.refine(BOTH, 1)
    assert len(rule.pending) == 1
    fine = nested(smooth)
    fine.refine(BOTH, 7)
    assert not len(fine.pending)
    fine.refine(BOTH, 8)
    assert len(fine.pending) == 8


def test_missing_completeness_is_looked_for_where_the_score_says() -> None:
    """A spike between the nodes, which no value shows and the scores do."""

    def spike(alphas: Array) -> Array:
        return np.where(abs(alphas - 0.83) < 0.004, 100.0, 1.0)[:, None]

    rule = bisected(spike)
    assert rule.total()[0] == pytest.approx(1)
    for _ in range(8):
        rule.refine(Need(completeness=True, agreement=False), 4)
        fill(rule, spike)
    assert rule.total()[0] == pytest.approx(1.792, rel=0.1)


def test_values_that_are_not_finite_end_it() -> None:
    for rule in (bisected(lambda a: np.where(a > 0.5, np.nan, 1.0)[:, None]),
                 nested(lambda a: np.where(a > 0.5, np.inf, 1.0)[:, None])):  # fmt: skip
        rule.refine(BOTH, 10)
        assert not len(rule.pending)


def test_cells_go_where_the_score_changes() -> None:
    alphas = np.linspace(0, 1, 9)
    ends = cells_of(alphas, np.array([0, 0, 0, 0, 0, 0, 8.0, 8.0, 8.0]), 8)
    assert ends[0] == 0
    assert ends[-1] == 1
    assert (np.diff(ends) > 0).all()
    assert ((ends > 0.6) & (ends < 0.77)).sum() >= 3
    np.testing.assert_allclose(cells_of(alphas, alphas * 3, 4), np.linspace(0, 1, 5))
    np.testing.assert_allclose(cells_of(alphas, np.ones(9), 4), np.linspace(0, 1, 5))
    np.testing.assert_allclose(cells_of(alphas, np.full(9, np.nan), 4), np.linspace(0, 1, 5))
