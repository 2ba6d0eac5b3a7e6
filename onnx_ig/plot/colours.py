"""Two palettes with zero neutral, and any colour map of matplotlib, cut to the limits of the values.

"red_green" is the usual pair; "blue_orange" (Okabe and Ito's blue and vermilion) is told apart by colour-blind readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from onnx_ig.errors import OptionError
from onnx_ig.plot.backend import colours_module
from onnx_ig.plot.scale import Array, Scale

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

__all__ = ["BAD", "PALETTES", "RGB", "colour_map", "hue", "palette_named", "rgba"]

RGB: TypeAlias = tuple[float, float, float]
BAD: RGB = (0.8, 0.0, 0.8)
"""Magenta, which no palette has: values that are not finite."""

_STEPS = 511


@dataclass(frozen=True)
class Palette:
    """Hues at full attribution: negative, positive, and magnitudes without a sign."""

    negative: RGB
    positive: RGB
    magnitude: RGB


PALETTES = {
    "red_green": Palette((0.84, 0.10, 0.11), (0.10, 0.60, 0.25), (0.42, 0.15, 0.55)),
    "blue_orange": Palette((0.835, 0.369, 0.0), (0.0, 0.447, 0.698), (0.42, 0.15, 0.55)),
}


def palette_named(name: str) -> Palette:
    """Raises OptionError, listing the palettes, for an unknown name."""
    if name not in PALETTES:
        raise OptionError(f"there is no palette {name!r}; there are {', '.join(PALETTES)}")
    return PALETTES[name]


def hue(value: float, palette: str, sign: str = "all") -> RGB:
    """The full hue that stands for the sign of a value."""
    chosen = palette_named(palette)
    if sign == "absolute_value":
        return chosen.magnitude
    return chosen.negative if value < 0 else chosen.positive


def colour_map(scaled: Scale, cmap: str, opacity: float | None = None) -> Colormap:
    """Colours from `scaled.vmin` to `scaled.vmax`.

    Signed values take them around zero, so that one value has one colour whatever the limits; magnitudes
    ("absolute_value") run through a map of matplotlib from end to end. With `opacity` zero is transparent and full
    attribution that opaque, for drawing over a photograph.
    Raises OptionError where neither a palette nor matplotlib has the name.
    """
    colours = colours_module()
    at = np.linspace(scaled.vmin, scaled.vmax, _STEPS) / scaled.reach
    strength = np.abs(at)
    if cmap in PALETTES:
        hues = np.array([hue(v, cmap, scaled.sign) for v in at])
        table = hues if opacity is not None else 1 - strength[:, None] * (1 - hues)
    else:
        place = at if scaled.sign == "absolute_value" else (at + 1) / 2
        table = _matplotlib(cmap)(place)[:, :3]
    if opacity is not None:
        table = np.column_stack([table, strength * opacity])
    return colours.ListedColormap(table, name=cmap).with_extremes(bad=(*BAD, 1.0))


def rgba(scaled: Scale, cmap: Colormap) -> Array:
    """The colours of the values, [..., 4] from 0 to 1; beyond the limits the last colour."""
    # The place in the map is computed here, in float64: matplotlib's own image scaling loses very small values.
    place = np.clip((scaled.values - scaled.vmin) / (scaled.vmax - scaled.vmin), 0.0, 1.0)
    return np.asarray(cmap(np.ma.masked_invalid(place)), np.float64)


def _matplotlib(name: str) -> Any:
    import matplotlib

    if name not in matplotlib.colormaps:
        raise OptionError(f"there is no colour map {name!r}: give {', '.join(PALETTES)} or one of matplotlib's")
    return matplotlib.colormaps[name]
