"""Integrated gradients of a plain numpy function, by central differences in float64: the oracle of structured models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Mapping[str, Array]], float]


def slopes(score: Function, point: Mapping[str, Array], step: float = 1e-5) -> dict[str, Array]:
    """The gradient of a score with respect to every array."""
    found = {}
    for name, array in point.items():
        gradient = np.empty(array.shape)
        for place in np.ndindex(array.shape):
            sides = []
            for sign in (step, -step):
                moved = array.copy()
                moved[place] += sign
                sides.append(score({**point, name: moved}))
            gradient[place] = (sides[0] - sides[1]) / (2 * step)
        found[name] = gradient
    return found


def integrated(
    score: Function, point: Mapping[str, Array], start: Mapping[str, Array] | None = None, steps: int = 8
) -> dict[str, Array]:
    """Integrated gradients by Gauss-Legendre quadrature from `start`, by default zero; all arrays move together."""
    start = start or {k: np.zeros_like(v) for k, v in point.items()}
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = {k: np.zeros_like(v) for k, v in point.items()}
    for alpha, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        at = {k: start[k] + alpha * (v - start[k]) for k, v in point.items()}
        for name, gradient in slopes(score, at).items():
            total[name] += weight * gradient
    return {k: total[k] * (v - start[k]) for k, v in point.items()}
