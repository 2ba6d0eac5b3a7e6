"""Bars, strips and curves: lengths, order and names, read back from the figure."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from onnx_ig import plot
from onnx_ig.errors import OptionError
from onnx_ig.plot.colours import PALETTES


def lengths(figure: Figure) -> list[float]:
    figure.savefig(io.BytesIO())
    return [p.get_width() for p in figure.axes[0].patches]


def names(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.axes[0].get_yticklabels()]


def test_bars_in_order_of_magnitude() -> None:
    figure = plot.bars([0.1, -3.0, 2.0], ["a", "b $", "c $"], given=[1, 2.5, 1e-7])
    assert lengths(figure) == [-3.0, 2.0, 0.1]
    assert names(figure) == ["b $ = 2.5", "c $ = 1e-07", "a = 1"]
    colours = [p.get_facecolor()[:3] for p in figure.axes[0].patches]
    palette = PALETTES["blue_orange"]
    assert colours == [palette.negative, palette.positive, palette.positive]
    assert figure.axes[0].yaxis_inverted()


def test_the_others_are_one_bar() -> None:
    figure = plot.bars([5.0, 1.0, -0.5, 0.25], top=2)
    assert lengths(figure) == [5.0, 1.0, -0.25]
    assert names(figure) == ["0", "1", "2 others"]


def test_values_that_are_not_finite_say_so() -> None:
    figure = plot.bars([1.0, np.nan, np.inf])
    assert lengths(figure) == [0, 0, 1.0]
    assert [t.get_text() for t in figure.axes[0].texts] == ["not finite", "not finite", "+1"]
    assert "2 values are not finite" in figure.axes[0].get_xlabel()


@pytest.mark.parametrize("values", [[-1.0, -2.0], [0.0, 0.0], [1e-9, -1e-9], [3.0], []])
def test_every_bar_lies_within_the_axis(values: list[float]) -> None:
    figure = plot.bars(values)
    low, high = figure.axes[0].get_xlim()
    assert low < min([0, *values])
    assert high > max([0, *values])
    assert lengths(figure) == sorted(values, key=abs, reverse=True)


def test_limits_given() -> None:
    assert plot.bars([1.0], vmin=-5, vmax=5).axes[0].get_xlim() == (-5, 5)
    assert plot.series([1.0], vmin=-5, vmax=5).axes[0].get_ylim() == (-5, 5)


def test_series() -> None:
    figure = plot.series([1.0, -2.0, np.nan, 0.0], [5.0, 6.0, 7.0, 8.0])
    figure.savefig(io.BytesIO())
    low, high = figure.axes[0].get_ylim()
    assert low < -2 < 1 < high
    assert "1 value is not finite" in figure.axes[0].get_xlabel()
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_ydata(), [5, 6, 7, 8])


def test_curves() -> None:
    at = np.array([1.0, 0.0, 0.5])
    figure = plot.curves(at, [[3.0, 1.0, 2.0], [1.0, np.nan, 1.0]], [[0, 1, 2], [0, 0, 0]], names=["a $", "b $"])
    figure.savefig(io.BytesIO())
    score, norm = figure.axes
    np.testing.assert_array_equal(score.lines[0].get_xdata(), [0, 0.5, 1])
    np.testing.assert_array_equal(score.lines[0].get_ydata(), [1, 2, 3])
    np.testing.assert_array_equal(norm.lines[0].get_ydata(), [1, 2, 0])
    assert "1 not finite" in score.get_ylabel()
    assert len(plot.curves(at, [3.0, 1.0, 2.0]).axes) == 1


def test_the_delta_so_far_ends_at_the_delta() -> None:
    """F = alpha^2 from 0, slopes 2 alpha taken at thirds: the first counts from 0 on, the trapezoids are exact then."""
    at = np.array([2 / 3, 1 / 3, 1.0])
    figure = plot.curves(at, at**2, slopes=2 * at, baseline_score=0.0)
    delta = figure.axes[1]
    assert delta.get_ylabel() == "delta so far"
    np.testing.assert_allclose(delta.lines[0].get_ydata(), [1 / 9, 1 / 9, 1 / 9], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.bars([[1.0]]), "one value a feature"),
        (lambda: plot.bars([1.0], ["a", "b"]), "1 features, and 2 names"),
        (lambda: plot.bars([1.0], given=[1, 2]), "given values"),
        (lambda: plot.bars([1.0], top=0), "top"),
        (lambda: plot.series([[1.0]]), "one value a position"),
        (lambda: plot.series([1.0], [1.0, 2.0]), "1 attributions, and a signal"),
        (lambda: plot.curves([[0.0]], [0.0]), r"alphas are \[m\]"),
        (lambda: plot.curves([0.0, 1.0], [0.0]), "m = 2"),
        (lambda: plot.curves([0.0], [0.0], [[0.0], [1.0]]), "1 samples have scores, and 2"),
        (lambda: plot.curves([0.0], [0.0], names=["a", "b"]), "1 samples, and 2 names"),
    ],
)
def test_wrong_options(call, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError, match=words):
        call()
