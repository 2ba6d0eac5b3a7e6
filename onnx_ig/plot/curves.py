"""Score and gradient norm along the path from the baseline to the input: where the model saturates.

Source: Sundararajan et al., Gradients of Counterfactuals (2016), figures 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from onnx_ig.errors import OptionError
from onnx_ig.plot.backend import label, new_figure
from onnx_ig.plot.scale import Array, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["curves"]


def curves(
    alphas: ArrayLike,
    scores: ArrayLike,
    gradient_norms: ArrayLike | None = None,
    *,
    slopes: ArrayLike | None = None,
    baseline_score: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    title: str = "",
) -> Figure:
    """Score over alpha and, where given, the norm of the gradient below it, and how complete the attributions are so far.

    `alphas` [m]; `scores`, `gradient_norms` and `slopes` (the score's derivative by alpha) [m] or [N, m], a line a
    sample, named by `names` [N]. With slopes and the `baseline_score` (a number or [N]) the last panel
    shows the trapezoidal sum of the slopes up to alpha less the change of the score: where the delta comes from. Points
    that are not finite are left out of the lines and counted.
    Raises OptionError where shapes do not fit.
    """
    at = numbers(alphas, "alphas")
    if at.ndim != 1:
        raise OptionError(f"alphas are [m]; these have the shape {list(at.shape)}")
    lines = {"score": _rows("scores", scores, at.size)}
    if gradient_norms is not None:
        lines["gradient norm"] = _rows("gradient_norms", gradient_norms, at.size)
    if slopes is not None and baseline_score is not None:
        lines["delta so far"] = _deltas(at, lines["score"], _rows("slopes", slopes, at.size), baseline_score)
    for values in lines.values():
        if len(values) != len(lines["score"]):
            raise OptionError(f"{len(lines['score'])} samples have scores, and {len(values)} gradient norms or slopes")
    if names is not None and len(names) != len(lines["score"]):
        raise OptionError(f"{len(lines['score'])} samples, and {len(names)} names")
    figure = new_figure(6.0, 1.0 + 2.2 * len(lines))
    axes = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (what, values) in zip(axes, lines.items(), strict=True):
        _draw(ax, at, values, what, names)
    axes[-1].set_xlabel("alpha: 0 is the baseline, 1 the input", fontsize=8)
    if names is not None:
        for text in axes[0].legend(fontsize=8).get_texts():
            label(text)
    if title:
        label(figure.suptitle(title, fontsize=10))
    return figure


def _deltas(at: Array, scores: Array, slopes: Array, baseline_score: ArrayLike) -> Array:
    """Sum of the slopes up to each alpha less the change of the score since the start, [N, m] in the order given."""
    order = np.argsort(at, kind="stable")
    a, s, f = at[order], slopes[:, order], scores[:, order]
    parts = np.concatenate([s[:, :1] * a[0], (s[:, 1:] + s[:, :-1]) / 2 * np.diff(a)], axis=1)
    deltas = np.empty_like(f)
    deltas[:, order] = np.cumsum(parts, axis=1) - (f - np.reshape(np.asarray(baseline_score, np.float64), (-1, 1)))
    return deltas


def _rows(name: str, values: ArrayLike, count: int) -> Array:
    array = numbers(values, name)
    array = array[None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != count:
        raise OptionError(f"{name} are [m] or [N, m] with m = {count}; these have the shape {list(array.shape)}")
    return array


def _draw(ax: Axes, at: Array, values: Array, what: str, names: Sequence[str] | None) -> None:
    order = np.argsort(at, kind="stable")
    for i, row in enumerate(values):
        drawn = np.where(np.isfinite(row), row, np.nan)[order]
        ax.plot(
            at[order], drawn, marker=".", markersize=3, linewidth=1.2, label=names[i] if names is not None else None
        )
    bad = int((~np.isfinite(values)).sum())
    ax.set_ylabel(what + (f"\n({bad} not finite)" if bad else ""), fontsize=8)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.3)
