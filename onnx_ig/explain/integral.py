"""The integral along a path by a rule of fixed steps, with a second rule from the same gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from onnx_ig.graph.sources import Source
from onnx_ig.rewriter.step import StepPlan
from onnx_ig.runtime.session import Array
from onnx_ig.runtime.steps import StepRunner, take

if TYPE_CHECKING:
    from onnx_ig.explain.run import Job

__all__ = ["MARGIN", "Integral", "fixed_steps", "norms"]

MARGIN = 1.5
"""Estimates are the difference of two rules times this: on ReLU networks the plain difference is at least 0.7 of the
error, on smooth ones many times it (tools/bench_convergence.py)."""


@dataclass
class Integral:
    """One target, one start: sums over the path by value, as the step model gives them.

    `difference`: of two rules, by value; None where there is no second rule. `error` [N] in its stead where only its
    norm is known. `gradients` and `forwards` spent on each sample, `unmet` the samples that miss the tolerance, [N];
    `stalled` those of them that no more gradients help.
    """

    totals: dict[str, Array]
    gradients: Array
    forwards: Array
    difference: dict[str, Array] | None = None
    error: Array | None = None
    unmet: Array | None = None
    stalled: Array | None = None
    given: dict[str, Array] = field(default_factory=dict)


def fixed_steps(runner: StepRunner, plan: StepPlan, feeds: Mapping[str, Array], job: Job) -> Integral:
    """All steps of the job: the even and the odd ones apart, so that each half is a rule of its own."""
    steps = len(job.alphas)
    names = [f"ig:attribution:{m.value}" for m in plan.moved]
    spent = np.full(job.n, steps)
    line = plan.method.path in ("line", "references")
    if steps < 2 or not line:
        given = runner.run(feeds, job.tiled(job.alphas), job.tiled(job.weights), job.split, job.report)
        totals = {m.value: given.pop(name) for m, name in zip(plan.moved, names, strict=True)}
        return Integral(totals, spent, np.zeros_like(spent), given=given)
    halves = [
        runner.run(feeds, job.tiled(job.alphas[s::2]), job.tiled(job.weights[s::2]), job.split, job.report)
        for s in (0, 1)
    ]
    shares = [float(job.weights[s::2].sum()) for s in (0, 1)]
    totals, difference = {}, {}
    for moved, name in zip(plan.moved, names, strict=True):
        even, odd = (half.pop(name) for half in halves)
        totals[moved.value] = even + odd
        with np.errstate(invalid="ignore", over="ignore"):
            even *= 0.5 / shares[0]
            odd *= 0.5 / shares[1]
            even -= odd
        difference[moved.value] = even
    return Integral(
        totals, spent, np.zeros_like(spent), difference, given={k: _woven(k, halves, runner) for k in halves[0]}
    )  # fmt: skip


def _woven(name: str, halves: Sequence[Mapping[str, Array]], runner: StepRunner) -> Array:
    """What is given per step, even and odd steps in turn."""
    even, odd = (half[name] for half in halves)
    axis = (runner.gives.get(name) or 0) + 1
    joined = np.empty((*even.shape[:axis], even.shape[axis] + odd.shape[axis], *even.shape[axis + 1 :]), even.dtype)
    before = (slice(None),) * axis
    joined[(*before, slice(0, None, 2))] = even
    joined[(*before, slice(1, None, 2))] = odd
    return joined


def norms(values: Mapping[str, Array], sources: Sequence[Source], axes: Mapping[str, int | None], n: int) -> Array:
    """L2 norm of every sample over the features of all sources, float64 [n]; a token is one feature.

    `values` by value, with the batch axis that `axes` gives (None: one sample).
    """
    squares = np.zeros(n)
    for i in range(n):
        for source in sources:
            total: Array | float = 0.0
            for value in source.values:
                name = value.name or ""
                axis = axes.get(name)
                row = take(values[name], axis, i, i + 1).astype(np.float64)
                with np.errstate(invalid="ignore", over="ignore"):
                    total = total + row.sum(axis=-1) if source.kind == "tokens" else row
            squares[i] += float((np.asarray(total) ** 2).sum())
    return np.sqrt(squares)
