"""Pictures pixel by pixel: the colours that are shown, read back from the figure."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from onnx_ig import plot
from onnx_ig.errors import OptionError
from onnx_ig.plot.colours import BAD, PALETTES

BLUE, ORANGE = PALETTES["blue_orange"].positive, PALETTES["blue_orange"].negative
GREEN, RED = PALETTES["red_green"].positive, PALETTES["red_green"].negative
WHITE = (1, 1, 1)
GREY = np.full((2, 2, 3), 128, np.uint8)


def shown(figure: Figure, axes: int = 0) -> np.ndarray:
    """The RGB pixels of one picture; also draws the figure, which must not fail."""
    figure.savefig(io.BytesIO())
    return np.asarray(figure.axes[axes].images[0].get_array())[:, :, :3]


def limits(figure: Figure) -> tuple[float, float]:
    """Limits of the colour bar."""
    low, high = figure.axes[-1].get_ylim()
    return low, high


def test_heat_map_colours() -> None:
    figure = plot.heat_map([[1.0, -1.0], [0.0, np.nan]])
    pixels = shown(figure)
    np.testing.assert_allclose(pixels, [[BLUE, ORANGE], [WHITE, BAD]], atol=0.01)
    assert limits(figure) == (-1, 1)
    assert "1 value is not finite" in figure.axes[0].get_xlabel()


def test_red_green_and_colour_maps_of_matplotlib() -> None:
    pixels = shown(plot.heat_map([[1.0, -1.0]], cmap="red_green"))
    np.testing.assert_allclose(pixels, [[GREEN, RED]], atol=0.01)
    import matplotlib

    pixels = shown(plot.heat_map([[3.0, -3.0, 0.0]], cmap="PuOr"))
    ends = matplotlib.colormaps["PuOr"](np.array([1.0, 0.0, 0.5]))[None, :, :3]
    np.testing.assert_allclose(pixels, ends, atol=0.02)
    pixels = shown(plot.heat_map([[3.0, -3.0, 0.0]], cmap="viridis", sign="absolute_value"))
    np.testing.assert_allclose(
        pixels, matplotlib.colormaps["viridis"](np.array([1.0, 1.0, 0.0]))[None, :, :3], atol=0.01
    )


def test_all_negative_map() -> None:
    a = -np.array([[1.0, 2.0], [3.0, 4.0]])
    pixels = shown(plot.heat_map(a, outlier_percentile=0))
    np.testing.assert_allclose(pixels[1, 1], ORANGE, atol=0.01)
    assert (np.diff(pixels.reshape(4, 3).sum(1)) < 0).all()  # the more negative, the darker
    np.testing.assert_allclose(shown(plot.heat_map(a, sign="positive")), np.ones((2, 2, 3)))
    np.testing.assert_allclose(shown(plot.heat_map(a, sign="negative", outlier_percentile=0)), pixels, atol=0.01)


@pytest.mark.parametrize("factor", [1e-6, 1e-12, 1e-30, 1e-200])
def test_tiny_values_look_as_large_ones(factor: float) -> None:
    a = np.random.default_rng(0).standard_normal((3, 8, 8))
    figure = plot.heat_map(a * factor)
    np.testing.assert_allclose(shown(figure), shown(plot.heat_map(a)), atol=0.01)
    # The bar tells the true values.
    assert limits(figure)[1] == pytest.approx(limits(plot.heat_map(a))[1] * factor)


def test_constant_maps() -> None:
    np.testing.assert_allclose(shown(plot.heat_map(np.full((2, 2), 7.0))), np.full((2, 2, 3), BLUE), atol=0.01)
    np.testing.assert_allclose(shown(plot.heat_map(np.zeros((2, 2)))), np.ones((2, 2, 3)))
    np.testing.assert_allclose(shown(plot.heat_map(np.full((2, 2), np.nan))), np.full((2, 2, 3), BAD), atol=0.01)


def test_one_scale_for_two_maps() -> None:
    first = shown(plot.heat_map([[0.5, 1.0]], vmin=-2, vmax=2))
    second = shown(plot.heat_map([[0.5, 9.0]], vmin=-2, vmax=2))
    np.testing.assert_array_equal(first[0, 0], second[0, 0])
    np.testing.assert_allclose(second[0, 1], BLUE, atol=0.01)
    # A value keeps its colour where only the other limit changes.
    np.testing.assert_allclose(first, shown(plot.heat_map([[0.5, 1.0]], vmin=-0.1, vmax=2)), atol=0.01)


def test_arrows_tell_of_values_beyond_the_limits() -> None:
    inside = plot.heat_map([[1.0, -1.0]], outlier_percentile=0)
    beyond = plot.heat_map([[1.0, -1.0]], vmin=-1, vmax=0.5)
    assert len(inside.axes[-1].patches) == 0
    assert len(beyond.axes[-1].patches) == 1


def test_blended_heat_map_shows_photograph_where_nothing_is_attributed() -> None:
    image = np.array([[[0, 0, 0], [255, 255, 255]]] * 2, np.uint8)
    pixels = shown(plot.blended_heat_map([[0.0, 0.0], [1.0, -1.0]], image, alpha_overlay=1.0))
    np.testing.assert_allclose(pixels, [[(0.4,) * 3, (0.95,) * 3], [BLUE, ORANGE]], atol=0.01)
    half = shown(plot.blended_heat_map([[0.0, 0.0], [1.0, -1.0]], image, alpha_overlay=0.5))
    np.testing.assert_allclose(half[1, 0], (np.array(BLUE) + 0.4) / 2, atol=0.01)


def test_overlay_has_two_hues() -> None:
    a = [[1.0, -1.0], [0.0, np.nan]]
    pixels = shown(plot.overlay(a, GREY))
    assert pixels[0, 0].argmax() == 1  # green
    assert pixels[0, 1].argmax() == 0  # red
    np.testing.assert_allclose(pixels[1], [(0.35 * 128 / 255,) * 3, BAD], atol=0.01)
    pixels = shown(plot.overlay(a, GREY, palette="blue_orange"))
    assert pixels[0, 0].argmax() == 2  # blue
    assert pixels[0, 1].argmax() == 0
    assert pixels[0, 1, 2] == 0  # orange, not purple


def test_photograph_scaled_by_attribution() -> None:
    image = np.full((1, 3, 3), 200, np.uint8)
    a = [[1.0, -0.5, 0.0]]
    np.testing.assert_allclose(shown(plot.masked_image(a, image, outlier_percentile=0))[0, :, 0] * 255, [200, 100, 0])
    positive = shown(plot.masked_image(a, image, sign="positive", outlier_percentile=0))
    np.testing.assert_allclose(positive[0, :, 0] * 255, [200, 0, 0])
    opaque = shown(plot.alpha_scaling(a, image, outlier_percentile=0))
    np.testing.assert_allclose(opaque[0, :, 0] * 255, [200, 227.5, 255])
    with pytest.raises(OptionError, match="magnitudes"):
        plot.masked_image(a, image, sign="all")
    np.testing.assert_allclose(shown(plot.masked_image([[np.nan]], [[0.5]])), [[BAD]], atol=0.01)


def test_photographs_in_every_form() -> None:
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    expected = pixels / 255
    for image in (pixels, pixels.transpose(2, 0, 1), expected, expected.astype(np.float32)):
        np.testing.assert_allclose(plot.displayable(image, (5, 7)), expected, atol=1e-6)
        np.testing.assert_allclose(plot.displayable(image), expected, atol=1e-6)
    np.testing.assert_allclose(plot.displayable(pixels[:, :, 0])[:, :, 1], expected[:, :, 0])
    np.testing.assert_allclose(plot.displayable(pixels[None, :, :, 0], (5, 7))[:, :, 1], expected[:, :, 0])
    clear = np.concatenate([pixels, np.zeros((5, 7, 1), np.uint8)], 2)
    np.testing.assert_allclose(plot.displayable(clear), 1)  # fully transparent, over white


def test_normalised_photograph_with_negative_pixels() -> None:
    image = np.array([[-2.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(plot.displayable(image)[:, :, 0], [[0, 0.5], [0.75, 1]])
    np.testing.assert_allclose(plot.displayable(np.full((2, 2), -3.0)), 0.5)
    np.testing.assert_allclose(plot.displayable([[np.nan, 0.25]])[0, :, 0], [0.5, 0.25])


def test_restore_undoes_the_preprocessing() -> None:
    from onnx_ig.manifest import Preprocessing

    pixels = np.random.default_rng(2).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    x = ((pixels / 255 - mean) / std).astype(np.float32)
    np.testing.assert_array_equal(plot.restore(x, Preprocessing("NHWC", mean=mean, std=std)), pixels)
    chw = x.transpose(2, 0, 1)
    for given in (chw, chw[None]):
        np.testing.assert_array_equal(plot.restore(given, Preprocessing("NCHW", mean=mean, std=std)), pixels)
    caffe = (pixels[:, :, ::-1] - np.array([104.0, 117.0, 123.0])).transpose(2, 0, 1)
    how = Preprocessing(mean=(104, 117, 123), channels="BGR")
    np.testing.assert_array_equal(plot.restore(caffe, how), pixels)
    with pytest.raises(OptionError, match="NCHW"):
        plot.restore(np.zeros((2, 3, 4, 4)), Preprocessing())


def test_panels() -> None:
    a = np.array([[0.0, 0.0], [1.0, -1.0]])
    figure = plot.panels(a, GREY, title="$5 is no formula $", vmax=2)
    assert [len(ax.images) for ax in figure.axes] == [1, 1, 0]
    np.testing.assert_allclose(shown(figure, 0), 128 / 255)
    with pytest.raises(OptionError, match="'mosaic'"):
        plot.panels(a, GREY, ["mosaic"])
    with pytest.raises(OptionError, match="'colour'"):
        plot.panels(a, GREY, colour=3)
    with pytest.raises(OptionError, match="at least one"):
        plot.panels(a, GREY, [])


@pytest.mark.parametrize("shape", [(1, 1), (1, 200), (200, 1), (3, 5)])
def test_odd_shapes_are_drawn(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).standard_normal(shape)
    assert shown(plot.panels(a, a, ["blended_heat_map", "overlay", "alpha_scaling"])).shape == (*shape, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.heat_map(np.zeros((2, 2)), cmap="rainbows"), "no colour map 'rainbows'"),
        (lambda: plot.overlay(np.zeros((2, 2)), GREY, palette="PuOr"), "no palette 'PuOr'"),
        (lambda: plot.blended_heat_map(np.zeros((3, 4)), GREY), r"height and width \[3, 4\]"),
        (lambda: plot.blended_heat_map(np.zeros((2, 2)), GREY, alpha_overlay=0), "alpha_overlay"),
        (lambda: plot.original_image(np.zeros((2, 2, 3, 3))), "a picture is"),
    ],
)
def test_wrong_options(call, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError, match=words):
        call()
