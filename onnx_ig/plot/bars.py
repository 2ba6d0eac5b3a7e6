"""Attributions of named features as bars, and of positions in a sequence or signal as a strip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from onnx_ig.arguments import check_count
from onnx_ig.errors import OptionError
from onnx_ig.plot.backend import axes_for, figure_of, label
from onnx_ig.plot.colours import BAD, hue, palette_named
from onnx_ig.plot.scale import Array, each, note, numbers, scale, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bars", "series"]

_LONGEST = 40


def bars(
    attribution: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    given: ArrayLike | None = None,
    top: int = 20,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    palette: str = "blue_orange",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """One horizontal bar a feature, the largest magnitude on top, with its value in figures.

    `attribution` [D]; `names` default to the indices; `given` [D] are the feature values, told beside the names. Above
    `top` features the others are one bar, their sum. `vmin` and `vmax` limit the axis, so that pictures compare.
    A value that is not finite has no bar and says so.
    Raises OptionError where lengths, limits or names are wrong.
    """
    palette_named(palette)
    values = numbers(attribution)
    if values.ndim != 1:
        raise OptionError(f"bars need one value a feature; these have the shape {list(values.shape)}")
    check_count(top, "top")
    titles = _titles(names, given, values.size)
    scaled = scale(values, sign, vmin, vmax)
    order = np.argsort(-np.nan_to_num(np.abs(scaled.values), nan=np.inf), kind="stable")
    shown, rest = order[:top], order[top:]
    lengths = [float(v) for v in scaled.values[shown]]
    labels = [titles[i] for i in shown]
    if rest.size:
        lengths.append(float(scaled.values[rest].sum()))
        labels.append(f"{rest.size} others")
    ax = axes_for(ax, 7.0, 0.28 * max(len(lengths), 3) + 1.2)
    rows = np.arange(len(lengths))
    colours = [hue(v, palette, sign) for v in lengths]
    ax.barh(rows, np.nan_to_num(lengths), color=colours, height=0.75)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.invert_yaxis()
    ax.set_yticks(rows)
    for tick in ax.set_yticklabels(labels, fontsize=8):
        label(tick)
    _value_texts(ax, lengths)
    low, high = _extent(np.array(lengths), vmin, vmax, margin=0.18)
    ax.set_xlim(low, high)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_xlabel("attribution" + (f"; {note(scaled)}" if note(scaled) else ""), fontsize=8)
    if title:
        label(ax.set_title(title, fontsize=10))
    return figure_of(ax)


def series(
    attribution: ArrayLike,
    given: ArrayLike | None = None,
    *,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    palette: str = "blue_orange",
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Attributions along a sequence or signal, filled to zero in the hue of their sign.

    `attribution` [T]; `given` [T], the signal, is a thin line on an axis of its own. Values that are not finite are
    marked on the zero line.
    Raises OptionError where lengths, limits or names are wrong.
    """
    palette_named(palette)
    values = numbers(attribution)
    if values.ndim != 1:
        raise OptionError(f"a series needs one value a position; these have the shape {list(values.shape)}")
    scaled = scale(values, sign, vmin, vmax)
    ax = axes_for(ax, 9.0, 3.2)
    place = np.arange(values.size)
    for one, where in ((1, scaled.values >= 0), (-1, scaled.values < 0)):
        drawn = np.where(where, scaled.values, 0.0)
        ax.fill_between(place, drawn, 0.0, step="mid", color=hue(one, palette, sign), linewidth=0.5)
    bad = np.flatnonzero(np.isnan(scaled.values))
    if bad.size:
        ax.plot(bad, np.zeros(bad.size), "x", color=BAD, markersize=4)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xlim(-0.5, max(values.size - 0.5, 0.5))
    ax.set_ylim(*_extent(scaled.values, vmin, vmax, margin=0.05))
    ax.tick_params(labelsize=8)
    ax.set_ylabel("attribution", fontsize=8)
    ax.set_xlabel("position" + (f"; {note(scaled)}" if note(scaled) else ""), fontsize=8)
    if given is not None:
        signal = numbers(given, "signal")
        if signal.shape != values.shape:
            raise OptionError(f"{values.size} attributions, and a signal of the shape {list(signal.shape)}")
        beside = ax.twinx()
        beside.plot(place, signal, color="black", linewidth=0.7, alpha=0.6)
        beside.tick_params(labelsize=8)
        beside.set_ylabel("input", fontsize=8)
    if title:
        label(ax.set_title(title, fontsize=10))
    return figure_of(ax)


def _titles(names: Sequence[str] | None, given: ArrayLike | None, count: int) -> list[str]:
    titles = [str(i) for i in range(count)] if names is None else [str(n) for n in each(names, "names")]
    if len(titles) != count:
        raise OptionError(f"{count} features, and {len(titles)} names")
    titles = [t if len(t) <= _LONGEST else t[: _LONGEST - 1] + "…" for t in titles]
    if given is None:
        return titles
    values = np.asarray(given)
    if values.shape != (count,):
        raise OptionError(f"{count} features, and given values of the shape {list(values.shape)}")
    return [f"{t} = {short(v) if values.dtype.kind in 'fiub' else v}" for t, v in zip(titles, values, strict=True)]


def _value_texts(ax: Axes, lengths: Sequence[float]) -> None:
    for row, value in enumerate(lengths):
        text = f"{value:+.3g}" if np.isfinite(value) else "not finite"
        side = -1 if value < 0 else 1
        ax.annotate(
            text,
            (np.nan_to_num(value), row),
            xytext=(3 * side, 0),
            textcoords="offset points",
            va="center",
            ha="left" if side > 0 else "right",
            fontsize=7,
            color="black" if np.isfinite(value) else BAD,
        )


def _extent(values: Array, vmin: float | None, vmax: float | None, margin: float) -> tuple[float, float]:
    """Limits of the value axis: those given, else from the smallest (or zero) to the largest (or zero), and room."""
    finite = values[np.isfinite(values)]
    low, high = min(0.0, *finite, 0.0), max(0.0, *finite, 0.0)
    room = margin * (high - low) or 1.0
    return (
        vmin if vmin is not None else low - (room if low < 0 else 0.02 * room),
        vmax if vmax is not None else high + (room if high > 0 else 0.02 * room),
    )
