"""Nodes and weights for integrals over alpha in [0, 1].

Names as in captum. Every rule's weights sum to 1, so that a linear model gets its exact attribution at any number of
steps (captum's trapezoid sums to (n-1)/n; it is not copied).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_ig.arguments import check_count, check_word
from onnx_ig.errors import OptionError

__all__ = ["QUADRATURES", "Calibration", "check_steps", "nodes_and_weights", "steps_of"]

Array = npt.NDArray[np.float64]


_LARGE = 256
"""Steps beyond which numpy's rule, the eigenvalues of an n x n matrix, takes memory and time that nobody expects."""


def _gausslegendre(n: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(n) if n <= _LARGE else _newton(n)
    return (nodes + 1) / 2, weights / 2


def _newton(n: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [-1, 1] by Newton's method, in memory that grows with n.

    Source: Abramowitz and Stegun 22.16.6 (first guess), 22.7.10 (recurrence), 22.8.5 (derivative), 25.4.29 (weights).
    """
    x = -np.cos(np.pi * (np.arange(1, n + 1) - 0.25) / (n + 0.5))
    for _ in range(4):
        before, value = np.ones_like(x), x
        for k in range(2, n + 1):
            before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
        slope = n * (before - x * value) / (1 - x * x)
        x = x - value / slope
    x = (x - x[::-1]) / 2
    weights = 2 / ((1 - x * x) * slope * slope)
    return x, 2 * weights / weights.sum()


def _left(n: int) -> tuple[Array, Array]:
    return np.arange(n) / n, np.full(n, 1 / n)


def _right(n: int) -> tuple[Array, Array]:
    return np.arange(1, n + 1) / n, np.full(n, 1 / n)


def _middle(n: int) -> tuple[Array, Array]:
    return (np.arange(n) + 0.5) / n, np.full(n, 1 / n)


def _trapezoid(n: int) -> tuple[Array, Array]:
    weights = np.full(n, 1 / (n - 1))
    weights[[0, -1]] /= 2
    return np.linspace(0, 1, n), weights


QUADRATURES: dict[str, Callable[[int], tuple[Array, Array]]] = {
    "gausslegendre": _gausslegendre,
    "riemann_left": _left,
    "riemann_right": _right,
    "riemann_middle": _middle,
    "riemann_trapezoid": _trapezoid,
}


def nodes_and_weights(quadrature: str, n: int) -> tuple[Array, Array]:
    """Nodes in [0, 1] and weights summing to 1, float64 [n] each.

    Raises OptionError for an unknown rule, n < 1, or fewer than 2 steps for the trapezoid.
    """
    check_word(quadrature, QUADRATURES, "quadrature")
    check_count(n, "n_steps")
    if quadrature == "riemann_trapezoid" and n < 2:
        raise OptionError("riemann_trapezoid needs n_steps of at least 2: it has a node at each end")
    return QUADRATURES[quadrature](int(n))


@dataclass(frozen=True)
class Calibration:
    """Steps chosen on examples: where they stand, float64 [n], and what was reached there.

    `quadrature` is the name of a rule, or "placed" for cells of unequal width. `delta` and `error`: largest
    |delta| / |F(x) - F(baseline)| (where that is tiny, of a twentieth of the range of F along the path) and largest
    estimated error / norm of the attributions among the `samples`; `met`: the share of samples within the tolerance. Takes
    the place of `n_steps` in `Explainer.attribute` and `rewrite`.
    """

    quadrature: str
    alphas: Array
    weights: Array
    tolerance: float
    delta: float
    error: float
    met: float
    samples: int

    @property
    def n_steps(self) -> int:
        return len(self.alphas)

    def notes(self) -> dict[str, Any]:
        """For the manifest of a one-file model; what is not finite is None, since JSON has no word for it."""
        delta, error = (float(v) if np.isfinite(v) else None for v in (self.delta, self.error))
        return {
            "tolerance": self.tolerance, "relative_delta": delta, "relative_error_estimate": error, "met": self.met,
            "samples": self.samples,
        }  # fmt: skip

    def __str__(self) -> str:
        return (
            f"{self.n_steps} steps ({self.quadrature}): delta at most {self.delta:.2%} of F(x) - F(baseline), estimated error "
            f"at most {self.error:.2%} of the attributions; {self.met:.0%} of {self.samples} samples within {self.tolerance:g}"
        )


def check_steps(n_steps: Any, method: str, path: str) -> None:
    """Raises OptionError for a calibration where the method takes no steps along a straight line."""
    if isinstance(n_steps, Calibration) and path not in ("line", "references"):
        raise OptionError(f"n_steps: a calibration chooses steps along a straight line, and {method} takes none there")


def steps_of(n_steps: int | Calibration, quadrature: str) -> tuple[Array, Array, str]:
    """(alphas, weights, name of the rule) of a number of steps or of a calibration. Raises OptionError."""
    if isinstance(n_steps, Calibration):
        return n_steps.alphas, n_steps.weights, n_steps.quadrature
    return *nodes_and_weights(quadrature, n_steps), quadrature
