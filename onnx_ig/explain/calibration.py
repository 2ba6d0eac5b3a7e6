"""Fixed steps for models that take no tolerance: how many, and where, by the user's own examples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_ig.errors import OnnxIgWarning, OptionError
from onnx_ig.explain.integral import MARGIN
from onnx_ig.explain.refine import AGREE, LEAST, RANGE, ROUNDING
from onnx_ig.quadrature import Calibration, nodes_and_weights
from onnx_ig.refinement import cells_of
from onnx_ig.runtime.result import Attribution
from onnx_ig.runtime.session import Array

if TYPE_CHECKING:
    from onnx_ig.explain.explainer import Explainer

__all__ = ["calibrate"]

_SHARE = 0.95
"""Of the examples that must be within the tolerance."""
_RATIO = 1.3
"""Between the numbers of steps that are tried."""
_GRID = 32
"""Stretches of the path over which the examples' scores are averaged."""


def calibrate(
    explainer: Explainer, feeds: Any, tolerance: float, most: int, options: Mapping[str, Any], eps: float
) -> Calibration:
    """Try rules with more and more steps until enough examples are within the tolerance; see `Explainer.calibrate`.

    On smooth graphs Gauss-Legendre; where the path has kinks, midpoints and midpoints of cells that the examples' scores
    place. The first one within the tolerance, with the smallest error of those with as many steps. `eps`: the relative
    rounding of the model.
    """
    if tolerance is None:
        raise OptionError("tolerance=None: what is to be met is needed, as 0.01")
    nodes_and_weights("riemann_middle", most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnnxIgWarning)
        free = explainer.attribute(feeds, tolerance=tolerance, n_steps=max(most, LEAST), **options)
        density, scale = _density(free), _Scale(free, eps)
        steps = max(4, int(np.median(free.gradient_counts if free.gradient_counts is not None else 8)) // 2)
        while True:
            steps = min(steps, most)
            found = [
                _judged(explainer.attribute(feeds, n_steps=c, **options), c, tolerance, scale)
                for c in _candidates(steps, density, smooth=free.quadrature == "nested fejer", tolerance=tolerance)
            ]
            best = min(found, key=lambda c: (c.met < _SHARE, c.error if c.met >= _SHARE else 1 - c.met))
            if best.met >= _SHARE or steps >= most:
                break
            steps = int(np.ceil(_RATIO * steps))
    if best.met < _SHARE:
        warnings.warn(
            f"tolerance={tolerance:g} is met by {best.met:.0%} of {best.samples} samples with {best.n_steps} steps; a larger "
            "n_steps= or tolerance= may do",
            OnnxIgWarning,
            stacklevel=3,
        )
    return best


def _candidates(steps: int, density: Array | None, smooth: bool, tolerance: float) -> Iterator[Calibration]:
    def candidate(rule: str, alphas: Array, weights: Array) -> Calibration:
        return Calibration(rule, alphas, weights, tolerance, delta=np.nan, error=np.nan, met=0.0, samples=0)

    rule = "gausslegendre" if smooth else "riemann_middle"
    yield candidate(rule, *nodes_and_weights(rule, steps))
    if density is not None and not smooth:
        ends = cells_of(np.linspace(0, 1, len(density)), density, steps)
        yield candidate("placed", (ends[1:] + ends[:-1]) / 2, np.diff(ends))


def _density(free: Attribution) -> Array | None:
    """How much of all the change of the score has come by each of _GRID + 1 alphas, averaged over the examples."""
    if "scores" not in free.curves:
        return None
    grid = np.linspace(0, 1, _GRID + 1)
    shape = free.prediction.shape
    total = np.zeros(_GRID)
    for at in np.ndindex(shape):
        alphas, scores = (free.curves[k][at] for k in ("alphas", "scores"))
        there = np.isfinite(alphas)
        known = np.concatenate([[free.baseline_prediction[at]], scores[there], [free.prediction[at]]])
        change = np.abs(np.diff(np.interp(grid, np.concatenate([[0], alphas[there], [1]]), known)))
        if np.isfinite(change).all() and change.any():
            total += change / change.sum()
    return np.concatenate([[0], np.cumsum(total)]) if total.any() else None


class _Scale:
    """What deltas are measured by: `least` of the change of the score, and a `rounding` that is no delta, by sample.

    As with a tolerance: where F(x) - F(baseline) is tiny, a share of the range of F along the path counts.
    """

    def __init__(self, free: Attribution, eps: float):
        scores = [free.prediction[..., None], free.baseline_prediction[..., None]]
        if "scores" in free.curves:
            scores.append(free.curves["scores"])
        known = np.concatenate(scores, axis=-1)
        self.least = RANGE * (np.nanmax(known, axis=-1) - np.nanmin(known, axis=-1))
        self.rounding = ROUNDING * eps * np.nanmax(np.abs(known), axis=-1)

    def deltas(self, result: Attribution) -> Array:
        """Shares of what they are measured by."""
        delta = np.abs(result.convergence_delta)
        change = np.maximum(np.abs(result.prediction - result.baseline_prediction), self.least)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(delta <= self.rounding, 0.0, delta / change))


def _judged(result: Attribution, steps: Calibration, tolerance: float, scale: _Scale) -> Calibration:
    """The candidate with what it reaches."""
    features = max(1, sum(a.size for a in result.attributions.values()) // max(1, result.prediction.size))
    norms = np.maximum(_norms(result), scale.least / np.sqrt(features))
    error = np.zeros_like(norms) if result.error_estimate is None else np.nan_to_num(result.error_estimate, nan=np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(error == 0, 0.0, error / norms)
    deltas = scale.deltas(result)
    good = (deltas <= tolerance) & (errors <= MARGIN * AGREE * tolerance)
    return Calibration(
        steps.quadrature, steps.alphas, steps.weights, tolerance,
        delta=float(deltas.max()), error=float(errors.max()), met=float(good.mean()), samples=len(result.prediction),
    )  # fmt: skip


def _norms(result: Attribution) -> Array:
    """Norm of the attributions of every sample (and target) over all inputs."""
    squares = np.zeros(result.prediction.shape)
    for name, array in result.items():
        axis = result.axes.get(name)
        wide = array.astype(np.float64) ** 2
        lead = result.prediction.ndim
        moved = wide[None] if axis is None else np.moveaxis(wide, range(axis, axis + lead), range(lead))
        squares += moved.reshape(*squares.shape, -1).sum(axis=-1)
    return np.sqrt(squares)
