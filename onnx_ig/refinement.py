"""Rules for integrals over alpha in [0, 1] that are refined where the integrand needs it; every value is reused.

The integrand is a vector [d] at each alpha, the derivative of a score times what the input moves by, so that its sum is
the derivative of the score. A rule hands out the alphas that it wants (`pending`), is given values and scores there
(`put`), and has two answers from the same values: `total`, and `total - change`, the coarser rule one level up. `change`
tells how far off the answer may be. Only numpy is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Bisected", "Need", "Nested", "Rule", "cells_of", "fejer"]

Array = npt.NDArray[Any]

_SHARE = 0.5
"""Refined at a time: what carries this share of the sum of squared indicators, and one in eight at least."""
_LEAST = 8
_MOST_NODES = 31
"""In a cell of a smooth integrand; beyond that it is bisected."""
_FLOOR = 0.25
"""Every stretch of the path counts at least this share of the mean change of the score."""


@dataclass(frozen=True)
class Need:
    """What an answer still misses: completeness, agreement with the coarser rule, or both."""

    completeness: bool
    agreement: bool


class Rule(Protocol):
    """What `Bisected` and `Nested` have in common. `count` values were put, and are held.

    `misses` gives the widths of the gaps between nodes, as shares of their far ends, and the change of the score in each
    that its share of the answer does not account for; empty where a rule has no gaps of its own. `refine` gives the rule to
    go on with: itself, or one of the other kind with all values.
    """

    pending: Array
    count: int

    def put(self, values: Array, scores: Array) -> None: ...

    def total(self) -> Array: ...

    def change(self) -> Array: ...

    def misses(self) -> tuple[Array, Array]: ...

    def refine(self, need: Need, most: int) -> Rule: ...


def cells_of(alphas: Array, scores: Array, count: int) -> Array:
    """Ends of `count` cells, float64 [count + 1] from 0 to 1, from scores at `alphas` (rising from 0 to 1).

    As many in each stretch as is proportional to the square root of the change of the score there: where the error of a
    cell is its width times the change, that placement makes the sum of the errors least (Lagrange).
    """
    widths, change = np.diff(alphas), np.abs(np.diff(scores.astype(np.float64)))
    if not np.isfinite(change).all() or not change.any():
        return np.linspace(0, 1, count + 1)
    mass = np.sqrt((change + _FLOOR * change.mean()) * widths)
    ends = np.interp(np.linspace(0, 1, count + 1), np.concatenate([[0], np.cumsum(mass) / mass.sum()]), alphas)
    ends[0], ends[-1] = 0, 1
    return np.asarray(ends)


class Bisected:
    """Trapezoids between neighbouring nodes, for integrands with jumps: gradients of piecewise linear functions.

    Gaps are bisected where neighbouring values differ most, times the gap's width, and, while completeness is missed,
    where the trapezoid differs most from the change of the score between its nodes, which is known exactly. The ends of
    the path are no nodes: derivatives there need not be those beside them. The first and the last value count up to
    them, and those gaps are cut at a third.
    """

    def __init__(self, ends: Array, before: float, after: float):
        """`ends` [n + 1] of the first cells, whose middles are the first nodes; the scores at both ends of the path."""
        self._scores = np.array([before, after], np.float64)  # of the ends, and of the nodes between them
        self._nodes = np.zeros(0)
        self._row = np.zeros(0, np.int64)  # of the values, which stay in the order in which they came
        self._newest = np.zeros(0, bool)
        self._steps = np.zeros(0)  # distances between the values of neighbours
        self._slopes = np.zeros(0)
        self._blocks: list[Array] = []
        self.count = 0
        self.pending = (ends[1:] + ends[:-1]) / 2

    @classmethod
    def resumed(cls, ends: tuple[float, float], nodes: Array, values: Array, scores: Array) -> Bisected:
        """With values [n, d] and scores at `nodes` [n] already; every other node counts as new."""
        rule = cls(np.zeros(2), *ends)
        order = np.argsort(nodes, kind="stable")
        rule.pending = nodes[order]
        rule._take(values[order], scores[order], first=True)
        rule._newest = np.arange(len(nodes)) % 2 == 0
        return rule

    def put(self, values: Array, scores: Array) -> None:
        """The integrand [len(pending), d] and the scores there [len(pending)]."""
        first = not self.count
        self._take(values, scores, first)
        if first:
            self._bisect(np.ones(len(self._nodes) + 1, bool))

    def _take(self, values: Array, scores: Array, first: bool) -> None:
        old = self.count
        self._blocks.append(values)
        self.count += len(values)
        nodes = np.concatenate([self._nodes, self.pending])
        order = np.argsort(nodes, kind="stable")
        self._nodes = nodes[order]
        self._row = np.concatenate([self._row, np.arange(old, self.count)])[order]
        self._slopes = np.concatenate([self._slopes, values.sum(axis=1, dtype=np.float64)])[order]
        self._newest = np.concatenate([self._newest, np.full(len(values), not first)])[order]
        inner = np.concatenate([self._scores[1:-1], scores])[order]
        self._scores = np.concatenate([self._scores[:1], inner, self._scores[-1:]])
        self._steps = self._distances(order, old)
        self.pending = np.zeros(0)

    def _distances(self, order: Array, old: int) -> Array:
        """Distances between neighbours; those known already are taken over."""
        left, right = order[:-1], order[1:]
        known = (left < old) & (right == left + 1)
        steps = np.zeros(len(left))
        steps[known] = self._steps[left[known]]
        for i in np.flatnonzero(~known):
            with np.errstate(invalid="ignore", over="ignore"):
                steps[i] = np.linalg.norm(self._value(self._row[i + 1]) - self._value(self._row[i]))
        return steps

    def _value(self, row: int) -> Array:
        for block in self._blocks:
            if row < len(block):
                return np.asarray(block[row], np.float64)
            row -= len(block)
        raise IndexError(row)

    def _bisect(self, gaps: Array) -> None:
        nodes = self._nodes
        middles = np.concatenate([nodes[:1] / 3, (nodes[1:] + nodes[:-1]) / 2, 1 - (1 - nodes[-1:]) / 3])
        self.pending = middles[gaps]
        self._newest[gaps[1:] | gaps[:-1]] = False

    def _widths(self) -> Array:
        """Of the gaps, the outer two with their ends of the path; [nodes + 1]."""
        return np.diff(np.concatenate([[0], self._nodes, [1]]))

    def _weights(self) -> Array:
        widths = self._widths()
        shares = np.concatenate([widths[:1], widths[1:-1] / 2, widths[-1:]])  # of a gap, for each of its nodes
        return np.asarray(shares[:-1] + shares[1:])

    def _changes(self) -> Array:
        """Weights of what the newest nodes changed: the answer with them less the answer without."""
        widths = self._widths()
        weights = np.zeros(len(self._nodes))
        for m in np.flatnonzero(self._newest):
            left, right = widths[m], widths[m + 1]
            if m == 0:
                weights[0] += left + right / 2
                weights[1] -= left + right / 2
            elif m == len(weights) - 1:
                weights[m] += right + left / 2
                weights[m - 1] -= right + left / 2
            else:
                weights[m - 1 : m + 2] += -right / 2, (left + right) / 2, -left / 2
        return weights

    def _sum(self, weights: Array) -> Array:
        by_row, begin = np.zeros(self.count), 0
        by_row[self._row] = weights
        total = np.zeros(self._blocks[0].shape[1])
        for block in self._blocks:
            total += _weighted(by_row[begin : begin + len(block)], block)
            begin += len(block)
        return total

    def total(self) -> Array:
        """The integral, float64 [d]."""
        return self._sum(self._weights())

    def change(self) -> Array:
        """What the newest nodes changed, float64 [d]."""
        return self._sum(self._changes())

    def misses(self) -> tuple[Array, Array]:
        """Widths of all gaps over their far ends, float64 [nodes + 1], and the change of each score less its trapezoid."""
        widths = self._widths()
        inner = (self._slopes[1:] + self._slopes[:-1]) / 2
        slopes = np.concatenate([self._slopes[:1], inner, self._slopes[-1:]])
        return widths / np.append(self._nodes, 1), np.diff(self._scores) - widths * slopes

    def refine(self, need: Need, most: int) -> Rule:
        """Want values in the gaps that need them, at most `most`; none where values are not finite."""
        widths = self._widths()
        jumps = widths * np.concatenate([self._steps[:1], self._steps, self._steps[-1:]])
        indicators = _unit(jumps) * (1.0 if need.agreement else 0.5)
        if need.completeness:
            indicators = indicators + _unit(np.abs(self.misses()[1]))
        order = np.argsort(-indicators, kind="stable")
        carried = np.cumsum(indicators[order] ** 2)
        if np.isfinite(carried[-1]):
            count = int(np.searchsorted(carried, _SHARE * carried[-1])) + 1
            chosen = np.zeros(len(indicators), bool)
            chosen[order[: min(max(count, -(-len(indicators) // _LEAST)), most)]] = True
            self._bisect(chosen)
        return self


def fejer(n: int) -> tuple[Array, Array]:
    """Nodes in (0, 1) and weights of Fejér's second rule, float64 [n] each: exact for polynomials of degree n - 1.

    The nodes of n are among those of 2n + 1. Source: Waldvogel, Fast construction of the Fejér and Clenshaw-Curtis
    quadrature rules, BIT 46 (2006), section 2.
    """
    angle = np.arange(1, n + 1) * np.pi / (n + 1)
    odd = 2 * np.arange((n + 1) // 2) + 1
    weights = 2 * np.sin(angle) / (n + 1) * (np.sin(odd * angle[:, None]) / odd).sum(1)
    return (1 - np.cos(angle)) / 2, weights


class Nested:
    """Fejér's second rule with 7, 15 and 31 nodes in each of few cells, for smooth integrands.

    The coarser rule is that with 3, 7 or 15 of the same nodes. An integrand that needs more in a cell is not smooth there,
    and bisection goes on with all values. Ends of the path are no nodes, so that integrands which are infinite there
    (square roots at zero) can be had.
    """

    FIRST = 7
    """Nodes of a cell to begin with."""

    def __init__(self, ends: Array, before: float, after: float):
        """`ends` [n + 1] of the cells; the scores at both ends of the path."""
        self._left, self._width = ends[:-1].copy(), np.diff(ends)
        self._ends = (before, after)
        self._values: list[Array] = [np.zeros((3, 0))] * len(self._width)
        self._scores: list[Array] = [np.zeros(3)] * len(self._width)
        self._wanted = np.ones(len(self._width), bool)
        self.count = 0
        self.pending = np.concatenate([self._nodes(c, self.FIRST) for c in range(len(self._width))])

    def _nodes(self, cell: int, count: int) -> Array:
        return np.asarray(self._left[cell] + self._width[cell] * fejer(count)[0])

    def put(self, values: Array, scores: Array) -> None:
        """The integrand [len(pending), d] and the scores there [len(pending)]."""
        first, begin = not self.count, 0
        for cell in np.flatnonzero(self._wanted):
            count = self.FIRST if first else len(self._values[cell]) + 1
            for held, given in ((self._values, values), (self._scores, scores)):
                new = given[begin : begin + count]
                held[cell] = new if first else _between(new, held[cell])
            begin += count
        self.count += len(values)
        self._wanted[:] = False
        self.pending = np.zeros(0)

    def _changes(self, cell: int) -> Array:
        """What the last level changed in one cell."""
        n = len(self._values[cell])
        weights = fejer(n)[1]
        weights[1::2] -= fejer((n - 1) // 2)[1]
        return _weighted(self._width[cell] * weights, self._values[cell])

    def total(self) -> Array:
        """The integral, float64 [d]."""
        cells = zip(self._width, self._values, strict=True)
        return np.asarray(sum(_weighted(w * fejer(len(v))[1], v) for w, v in cells))

    def change(self) -> Array:
        """What the last level of every cell changed, float64 [d]."""
        return np.asarray(sum(map(self._changes, range(len(self._values)))))

    def misses(self) -> tuple[Array, Array]:
        """Of no gaps: a smooth integrand that misses goes on by bisection."""
        return np.zeros(0), np.zeros(0)

    def refine(self, need: Need, most: int) -> Rule:
        """Want the next level in the cells that changed most, as far as `most` values go."""
        changed = np.asarray([np.linalg.norm(self._changes(c)) for c in range(len(self._values))])
        if not np.isfinite(changed).all():
            return self
        if len(self._values[int(np.argmax(changed))]) >= _MOST_NODES:
            nodes = np.concatenate([self._nodes(c, len(v)) for c, v in enumerate(self._values)])
            values, scores = np.concatenate(self._values), np.concatenate(self._scores)
            return Bisected.resumed(self._ends, nodes, values, scores).refine(need, most)
        for cell in np.argsort(-changed, kind="stable"):
            new = len(self._values[cell]) + 1
            if changed[cell] < _SHARE * changed.max() or new > min(most, _MOST_NODES):
                continue
            most -= new
            self._wanted[cell] = True
        wanted = [self._nodes(c, 2 * len(self._values[c]) + 1)[::2] for c in map(int, np.flatnonzero(self._wanted))]
        self.pending = np.concatenate([np.zeros(0), *wanted])
        return self


def _between(new: Array, old: Array) -> Array:
    """Old rows between new ones."""
    both = np.empty((len(new) + len(old), *new.shape[1:]), new.dtype)
    both[::2], both[1::2] = new, old
    return both


def _weighted(weights: Array, values: Array) -> Array:
    """Sum of weighted rows in float64, [d]; a few columns at a time, so that no second array of that size is made."""
    used = np.flatnonzero(weights)
    total = np.zeros(values.shape[1])
    width = max(1, 2_000_000 // max(1, len(used)))
    for begin in range(0, values.shape[1], width):
        columns = slice(begin, begin + width)
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values make no sum, which is seen in the sum
            total[columns] = weights[used] @ values[used, columns].astype(np.float64)
    return total


def _unit(values: Array) -> Array:
    norm = np.linalg.norm(values)
    return values / norm if norm > 0 else values
