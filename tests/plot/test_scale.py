"""What is drawn and between which limits: literals."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_ig.errors import OptionError
from onnx_ig.plot.scale import cumulative_limit, reduce_channels, scale, select


def test_channels_are_summed() -> None:
    a = np.arange(12.0).reshape(3, 2, 2) - 6
    np.testing.assert_array_equal(reduce_channels(a), [[-6, -3], [0, 3]])
    np.testing.assert_array_equal(reduce_channels(a.transpose(1, 2, 0), channel_axis=-1), [[-6, -3], [0, 3]])
    np.testing.assert_array_equal(reduce_channels(a, how="mean"), [[-2, -1], [0, 1]])
    np.testing.assert_allclose(reduce_channels(a, how="norm")[0, 0], np.sqrt(36 + 4 + 4))
    np.testing.assert_array_equal(reduce_channels(a[0]), a[0])


def test_half_precision_does_not_overflow() -> None:
    a = np.full((3, 1, 1), 40000, np.float16)
    assert reduce_channels(a)[0, 0] == 120000


def test_a_channel_that_is_not_finite_spoils_its_pixel_only() -> None:
    a = np.ones((3, 1, 3))
    a[0, 0, 0], a[1, 0, 1], a[2, 0, 1] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(reduce_channels(a), [[np.nan, np.nan, 3]])


def test_signs() -> None:
    a = np.array([-2.0, 0.0, 3.0, np.nan])
    np.testing.assert_array_equal(select(a, "all"), a)
    np.testing.assert_array_equal(select(a, "positive"), [0, 0, 3, np.nan])
    np.testing.assert_array_equal(select(a, "negative"), [-2, 0, 0, np.nan])
    np.testing.assert_array_equal(select(a, "absolute_value"), [2, 0, 3, np.nan])


@pytest.mark.parametrize(
    ("sign", "limits"),
    [("all", (-4, 4)), ("positive", (0, 3)), ("negative", (-4, 0)), ("absolute_value", (0, 4))],
)
def test_limits_keep_zero_neutral(sign: str, limits: tuple[float, float]) -> None:
    s = scale([-4.0, 0.0, 3.0], sign)
    assert (s.vmin, s.vmax) == limits
    assert not s.below
    assert not s.above


def test_limits_given() -> None:
    s = scale([-4.0, 3.0], vmin=-1, vmax=5)
    assert (s.vmin, s.vmax, s.reach, s.below, s.above) == (-1, 5, 5, True, False)
    assert (scale([-4.0, 3.0], vmax=2).vmin, scale([-4.0, 3.0], vmin=-2).vmax) == (-2, 2)
    assert (scale([7.0], "positive", vmax=2).vmin, scale([7.0], "positive", vmin=2).vmax) == (0, 7)


@pytest.mark.parametrize("values", [[-3.0, -1.0], [-3e-7, -1e-7], [-3e-30, -1e-30]])
def test_all_negative_and_tiny_maps_use_the_whole_scale(values: list[float]) -> None:
    s = scale(values)
    np.testing.assert_allclose(s.intensity, [1, 1 / 3])
    assert (s.vmin, s.vmax) == (values[0], -values[0])


def test_zero_constant_and_empty_maps() -> None:
    assert (scale([0.0, 0.0]).vmin, scale([0.0, 0.0]).vmax) == (-1, 1)
    assert scale([2.0, 2.0]).vmax == 2
    assert scale([-1.0], "positive").intensity == 0
    assert scale([]).vmax == 1
    np.testing.assert_array_equal(scale([1e-320, -1e-320]).intensity, 0)


def test_not_finite_values_are_counted_and_do_not_set_the_scale() -> None:
    s = scale([1.0, -2.0, np.nan, np.inf])
    assert (s.vmax, s.bad) == (2, 2)
    np.testing.assert_array_equal(s.intensity, [0.5, 1, np.nan, np.nan])
    assert scale([np.nan, np.nan]).vmax == 1


def test_outliers_by_their_share_of_the_total() -> None:
    magnitudes = np.array([1.0] * 98 + [100.0, 100.0])
    assert cumulative_limit(magnitudes, 0) == 100
    assert cumulative_limit(magnitudes, 2) == 100  # the two make two thirds of the total
    assert cumulative_limit(magnitudes, 70) == 1
    spread = np.arange(1.0, 101.0)
    assert cumulative_limit(spread, 2) == 99  # 1 + ... + 98 = 4851 < 0.98 * 5050 = 4949 <= 4950
    s = scale(np.concatenate([spread, -spread]), outlier_percentile=2)
    assert (s.vmin, s.vmax, s.below, s.above) == (-99, 99, True, True)


def test_outlier_limit_survives_large_numbers() -> None:
    assert cumulative_limit(np.array([1e308, 1e308, 1e308]), 2) == 1e308


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scale([1.0], "both"), "sign must be one of all, positive"),
        (lambda: scale([1.0], vmin=2, vmax=1), "vmin < vmax"),
        (lambda: scale([1.0], "positive", vmax=-1), "vmin < vmax"),
        (lambda: scale([1.0], vmax=np.nan), "vmax must be a number"),
        (lambda: scale([1.0], outlier_percentile=101), "outlier_percentile"),
        (lambda: scale(np.array(["a"])), "real numbers"),
        (lambda: reduce_channels(np.zeros((1, 3, 2, 2))), "one sample of the batch"),
        (lambda: reduce_channels(np.zeros(3)), r"shape \[3\]"),
        (lambda: reduce_channels(np.zeros((3, 2, 2)), 5), "channel_axis"),
        (lambda: reduce_channels(np.zeros((3, 2, 2)), how="max"), "sum, mean, norm"),
    ],
)
def test_wrong_options(call, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError, match=words):
        call()
