"""Attributions of a picture, in captum's words: heat_map, blended_heat_map, masked_image, alpha_scaling, and overlay.

Every function draws one sample: `attribution` [H, W], or with a channel axis that is summed (`channel_axis`, 0 for
[C, H, W] by default); `image` is the photograph in any form that `displayable` takes. They return the matplotlib
Figure; with `ax=` they draw into it. Colours stand for values from `vmin` to `vmax`, which the colour bar shows, with
an arrow where values lie beyond; by default the limits leave out the extreme `outlier_percentile` of the total, as
captum's do. Values that are not finite are magenta, and counted below the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from onnx_ig.arguments import check_word
from onnx_ig.errors import OptionError
from onnx_ig.plot.backend import axes_for, figure_of, label, new_figure
from onnx_ig.plot.colours import BAD, RGB, colour_map, hue, palette_named, rgba
from onnx_ig.plot.photograph import displayable, grey
from onnx_ig.plot.scale import Array, Scale, each, note, reduce_channels, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

__all__ = [
    "PICTURES",
    "alpha_scaling",
    "blended_heat_map",
    "heat_map",
    "masked_image",
    "original_image",
    "overlay",
    "panels",
]


def heat_map(
    attribution: ArrayLike,
    *,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 2.0,
    cmap: str = "blue_orange",
    channel_axis: int | None = None,
    reduction: str = "sum",
    colour_bar: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """The attributions alone, as colours.

    `attribution` [H, W] or [C, H, W] (another `channel_axis` where it is given).
    `cmap`: "blue_orange", "red_green" or a colour map of matplotlib; `reduction` of channels: "sum", "mean", "norm".
    Raises OptionError where shapes, limits or names are wrong.
    """
    scaled = _scaled(attribution, channel_axis, reduction, sign, vmin, vmax, outlier_percentile)
    colours = colour_map(scaled, cmap)
    ax = _axes(ax, scaled.values.shape)
    _show(ax, rgba(scaled, colours), title, scaled)
    if colour_bar:
        _colour_bar(ax, scaled, colours)
    return figure_of(ax)


def blended_heat_map(
    attribution: ArrayLike,
    image: ArrayLike,
    *,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 2.0,
    cmap: str = "blue_orange",
    alpha_overlay: float = 0.9,
    channel_axis: int | None = None,
    reduction: str = "sum",
    colour_bar: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """The heat map over the photograph in grey: the photograph shows where attributions are small.

    `attribution` [H, W] or [C, H, W] (another `channel_axis` where it is given); `image` as `displayable` takes it.
    `alpha_overlay`: how opaque a full attribution is.
    Raises OptionError where shapes, limits or names are wrong.
    """
    _fraction("alpha_overlay", alpha_overlay)
    scaled = _scaled(attribution, channel_axis, reduction, sign, vmin, vmax, outlier_percentile)
    colours = colour_map(scaled, cmap, opacity=alpha_overlay)
    over = rgba(scaled, colours)
    # Greys between 0.4 and 0.95 leave both palettes readable on black and on white parts of the photograph.
    under = 0.4 + 0.55 * grey(displayable(image, _size(scaled)))
    ax = _axes(ax, scaled.values.shape)
    _show(ax, under * (1 - over[:, :, 3:]) + over[:, :, :3] * over[:, :, 3:], title, scaled)
    if colour_bar:
        _colour_bar(ax, scaled, colours)
    return figure_of(ax)


def overlay(
    attribution: ArrayLike,
    image: ArrayLike,
    *,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 2.0,
    palette: str = "red_green",
    channel_axis: int | None = None,
    reduction: str = "sum",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Positive and negative pixels in the two hues of the palette, as bright as they matter, on the dimmed photograph.

    `attribution` [H, W] or [C, H, W] (another `channel_axis` where it is given); `image` as `displayable` takes it.
    `palette`: "red_green", or "blue_orange" for colour-blind readers. The legend says which hue is which sign.
    Raises OptionError where shapes, limits or names are wrong.
    """
    palette_named(palette)
    scaled = _scaled(attribution, channel_axis, reduction, sign, vmin, vmax, outlier_percentile)
    strength = np.nan_to_num(scaled.intensity, nan=1.0)[:, :, None]
    positive, negative = _light(1, scaled, palette), _light(-1, scaled, palette)
    hues = _painted(np.where(scaled.values[:, :, None] < 0, np.array(negative), np.array(positive)), scaled)
    under = 0.35 * grey(displayable(image, _size(scaled)))
    ax = _axes(ax, scaled.values.shape)
    _show(ax, under * (1 - strength) + hues * strength, title, scaled)
    _legend(ax, scaled, palette)
    return figure_of(ax)


def masked_image(
    attribution: ArrayLike,
    image: ArrayLike,
    *,
    sign: str = "absolute_value",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 2.0,
    channel_axis: int | None = None,
    reduction: str = "sum",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """The pixels of the photograph times their attribution, black where it is zero.

    `attribution` [H, W] or [C, H, W] (another `channel_axis` where it is given); `image` as `displayable` takes it.
    Source: Sundararajan et al., Axiomatic Attribution for Deep Networks (2017), section 6.1.
    Raises OptionError where shapes or limits are wrong, or for sign="all", which one brightness cannot show.
    """
    scaled, pixels = _scaling(attribution, image, sign, channel_axis, reduction, vmin, vmax, outlier_percentile)
    ax = _axes(ax, scaled.values.shape)
    _show(ax, _painted(pixels * np.nan_to_num(scaled.intensity)[:, :, None], scaled), title, scaled)
    return figure_of(ax)


def alpha_scaling(
    attribution: ArrayLike,
    image: ArrayLike,
    *,
    sign: str = "absolute_value",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 2.0,
    channel_axis: int | None = None,
    reduction: str = "sum",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """The photograph, opaque where the attribution is full and white where it is zero.

    `attribution` [H, W] or [C, H, W] (another `channel_axis` where it is given); `image` as `displayable` takes it.
    Raises OptionError where shapes or limits are wrong, or for sign="all", which one opacity cannot show.
    """
    scaled, pixels = _scaling(attribution, image, sign, channel_axis, reduction, vmin, vmax, outlier_percentile)
    ax = _axes(ax, scaled.values.shape)
    opacity = np.nan_to_num(scaled.intensity)[:, :, None]
    _show(ax, _painted(pixels * opacity + (1 - opacity), scaled), title, scaled)
    return figure_of(ax)


def original_image(image: ArrayLike, *, title: str = "", ax: Axes | None = None) -> Figure:
    """The photograph. Raises OptionError for what is no picture."""
    pixels = displayable(image)
    ax = _axes(ax, pixels.shape[:2])
    _show(ax, pixels, title)
    return figure_of(ax)


PICTURES: dict[str, Callable[..., Any]] = {
    "original_image": original_image,
    "heat_map": heat_map,
    "blended_heat_map": blended_heat_map,
    "overlay": overlay,
    "masked_image": masked_image,
    "alpha_scaling": alpha_scaling,
}
"""Kinds of pictures by name."""


def panels(
    attribution: ArrayLike,
    image: ArrayLike,
    kinds: str | Sequence[str] = ("original_image", "blended_heat_map"),
    *,
    channel_axis: int | None = None,
    title: str = "",
    **options: Any,
) -> Figure:
    """Several kinds of pictures side by side, under one title; `options` go to those that take them.

    `attribution` [H, W] or [C, H, W] (another `channel_axis` where it is given); `image` as `displayable` takes it.
    Raises OptionError for an unknown kind or option.
    """
    for kind in (kinds := [kinds] if isinstance(kinds, str) else each(kinds, "kinds")):
        check_word(kind, PICTURES, "kind")
    if not kinds:
        raise OptionError(f"name at least one kind of picture: {', '.join(PICTURES)}")
    taken = {kind: _options_of(PICTURES[kind]) for kind in kinds}
    for name in options:
        if not any(name in names for names in taken.values()):
            raise OptionError(f"none of {', '.join(kinds)} takes the option {name!r}")
    shape = reduce_channels(attribution, channel_axis).shape
    width, height = _inches(shape)
    figure = new_figure(width * len(kinds), height + (0.4 if title else 0))
    axes = figure.subplots(1, len(kinds), squeeze=False)[0]
    for kind, ax in zip(kinds, axes, strict=True):
        chosen = {k: v for k, v in {**options, "channel_axis": channel_axis}.items() if k in taken[kind]}
        arguments = [attribution] if "attribution" in taken[kind] else []
        if "image" in taken[kind]:
            arguments.append(displayable(image, shape))
        PICTURES[kind](*arguments, ax=ax, **chosen)
    if title:
        label(figure.suptitle(title, fontsize=10))
    return figure


def _options_of(function: Callable[..., Any]) -> set[str]:
    return set(signature(function).parameters)


def _scaled(
    attribution: ArrayLike,
    channel_axis: int | None,
    reduction: str,
    sign: str,
    vmin: float | None,
    vmax: float | None,
    outlier_percentile: float,
) -> Scale:
    return scale(reduce_channels(attribution, channel_axis, reduction), sign, vmin, vmax, outlier_percentile)


def _scaling(
    attribution: ArrayLike,
    image: ArrayLike,
    sign: str,
    channel_axis: int | None,
    reduction: str,
    vmin: float | None,
    vmax: float | None,
    outlier_percentile: float,
) -> tuple[Scale, Array]:
    if sign == "all":
        raise OptionError("scaling the photograph shows magnitudes: sign is 'positive', 'negative' or 'absolute_value'")
    scaled = _scaled(attribution, channel_axis, reduction, sign, vmin, vmax, outlier_percentile)
    return scaled, displayable(image, _size(scaled))


def _painted(pixels: Array, scaled: Scale) -> Array:
    return np.where(np.isnan(scaled.values)[:, :, None], np.array(BAD), pixels)


def _light(value: float, scaled: Scale, palette: str) -> RGB:
    """The hue made brighter: on a dark ground it is light, not ink."""
    red, green, blue = (min(1.25 * c, 1.0) for c in hue(value, palette, scaled.sign))
    return red, green, blue


def _fraction(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise OptionError(f"{name} must be above 0 and at most 1, not {value}")


def _size(scaled: Scale) -> tuple[int, int]:
    height, width = scaled.values.shape
    return height, width


def _inches(shape: Sequence[int]) -> tuple[float, float]:
    """Width and height of a panel: five inches for the longer side of the picture, room for the bar or a title."""
    height, width = max(shape[0], 1), max(shape[1], 1)
    longer = max(height, width)
    return max(5.0 * width / longer, 1.2) + 0.9, max(5.0 * height / longer, 1.2) + 0.5


def _axes(ax: Axes | None, shape: Sequence[int]) -> Axes:
    return axes_for(ax, *_inches(shape))


def _show(ax: Axes, pixels: Array, title: str, scaled: Scale | None = None) -> None:
    ax.imshow(np.clip(pixels, 0, 1), interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    if title:
        label(ax.set_title(title, fontsize=10))
    if scaled is not None and note(scaled):
        label(ax.set_xlabel(note(scaled), fontsize=8, color=BAD))


def _colour_bar(ax: Axes, scaled: Scale, colours: Colormap) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[scaled.below, scaled.above]
    mappable = ScalarMappable(Normalize(scaled.vmin, scaled.vmax), colours)
    bar = figure_of(ax).colorbar(mappable, ax=ax, extend=extend, fraction=0.046, pad=0.03)
    bar.ax.tick_params(labelsize=8)


def _legend(ax: Axes, scaled: Scale, palette: str) -> None:
    from matplotlib.patches import Patch

    names = {
        "all": ((1, "for the output"), (-1, "against it")),
        "positive": ((1, "for the output"),),
        "negative": ((-1, "against the output"),),
        "absolute_value": ((1, "magnitude"),),
    }[scaled.sign]
    patches = [Patch(color=_light(s, scaled, palette), label=f"{text} (full: {scaled.reach:.3g})") for s, text in names]
    ax.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=2, fontsize=8, frameon=False)
