"""Judging gradients of whole models by finite differences, and knowing when these prove nothing.

A point is judged only where the model is smooth: along every direction tried, central differences of two steps agree and
one-sided differences draw together as the step shrinks. At a kink they keep their distance, at a jump it grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["DOUBLE", "SINGLE", "Precision", "Slope", "Unsettled", "disagreement", "slopes"]

Arrays = Mapping[str, np.ndarray]
Score = Callable[[Arrays], float]


@dataclass(frozen=True)
class Precision:
    """How a score is computed.

    `steps` to try, from the smallest; `rounding` of the score; `tolerance` within which two differences must agree;
    `largest` unit of a direction, which otherwise is the size of the input.
    """

    steps: tuple[float, ...]
    rounding: float
    tolerance: float
    largest: float = np.inf


DOUBLE = Precision((1e-6, 1e-5, 1e-4, 1e-3), 1e-15, 1e-4, largest=1.0)
SINGLE = Precision((1e-3, 3e-3, 1e-2, 3e-2, 1e-1), 2e-7, 1e-2)


class Unsettled(Exception):
    """Differences prove nothing at this point; the message says why. `kink`: they prove that there is a kink."""

    def __init__(self, message: str, kink: bool = False):
        super().__init__(message)
        self.kink = kink


@dataclass(frozen=True)
class Slope:
    """The derivative of a score along `direction` in one input; `size`: that of random directions there, `noise` its own."""

    input: str
    direction: np.ndarray
    value: float
    size: float
    noise: float


def slopes(
    score: Score, point: Arrays, wrt: Sequence[str], magnitude: float, precision: Precision, *, count: int = 2
) -> list[Slope]:
    """Derivatives of `score` at `point` along `count` random directions in each input of `wrt`.

    `magnitude` is the sum of the absolute values of what the score adds up. Entries of the point that are not finite are
    not moved. Inputs in which the score is not smooth are left out; where that is all of them, raises Unsettled.
    """
    rng = np.random.default_rng(3)
    here = score(point)
    if not np.isfinite(here):
        raise Unsettled("the score is not finite")
    found: list[Slope] = []
    reasons: list[str] = []
    kink = False
    for name in wrt:
        directions = list(_directions(point[name], count, precision.largest, rng))
        try:
            found.extend(_plateau(score, point, name, directions, here, magnitude, precision))
        except Unsettled as unsettled:
            reasons.append(f"{name}: {unsettled}")
            kink |= unsettled.kink
    if not found:
        raise Unsettled("; ".join(reasons), kink)
    return found


def disagreement(slope: Slope, gradient: np.ndarray, rounding: float) -> float:
    """|gradient . direction - slope| relative to the size of either, 0 where it is within the noise.

    `rounding` is what the gradient's own type may have lost.
    """
    moved = slope.direction != 0
    terms = gradient.astype(np.float64)[moved] * slope.direction[moved]
    error = abs(float(terms.sum()) - slope.value) - slope.noise - rounding
    scale = max(slope.size, float(np.sqrt((terms**2).sum())), 1e-30)
    return max(0.0, error / scale) if np.isfinite(terms).all() else np.inf


def _directions(x: np.ndarray, count: int, largest: float, rng: np.random.Generator) -> Iterator[np.ndarray]:
    wide = x.astype(np.float64)
    finite = np.isfinite(wide)
    unit = min(max(0.1, float(np.sqrt(np.mean(wide[finite] ** 2)))), largest) if finite.any() else 1.0
    for _ in range(count):
        yield np.where(finite, rng.standard_normal(x.shape) * unit, 0.0)


def _plateau(
    score: Score,
    point: Arrays,
    name: str,
    directions: Sequence[np.ndarray],
    here: float,
    magnitude: float,
    precision: Precision,
) -> list[Slope]:
    """The slopes at the smallest step from which a larger one does not differ. Raises Unsettled."""
    x = point[name].astype(np.float64)
    previous: tuple[float, np.ndarray, np.ndarray] | None = None
    for step in precision.steps:
        ahead, behind = (
            np.array([score({**point, name: np.asarray(x + s * step * d)}) for d in directions]) for s in (1.0, -1.0)
        )
        if not (np.isfinite(ahead).all() and np.isfinite(behind).all()):
            raise Unsettled("scores nearby are not finite")
        central = (ahead - behind) / (2 * step)
        gap = np.abs(ahead - 2 * here + behind) / step
        keep = False
        if previous is not None:
            smaller, slope, distance = previous
            size = float(np.sqrt(np.mean(slope**2)))
            noise = precision.rounding * max(1.0, magnitude) / smaller
            limit = precision.tolerance * size + noise
            steady = bool((np.abs(central - slope) <= limit).all())
            closing = bool((distance <= np.maximum(limit, gap * (2 * smaller / step))).all())
            lost = (np.abs(slope) <= noise) & (distance <= noise)  # flat, or a step too small for a narrow type inside
            keep = steady and bool(lost.all())
            if steady and closing and (not keep or step == precision.steps[-1]):
                return [Slope(name, d, float(v), size, noise) for d, v in zip(directions, slope, strict=True)]
            if steady and (np.abs(gap - distance) <= np.maximum(limit, 0.2 * gap)).all() and not keep:
                raise Unsettled("one-sided differences keep apart", kink=True)
        if not keep:
            previous = (step, central, gap)
    raise Unsettled("no step is smooth")
