"""What a user should know about an answer: each warning with its remedy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from onnx_ig.errors import OnnxIgWarning
from onnx_ig.explain.stalls import REASON
from onnx_ig.runtime.result import Attribution
from onnx_ig.runtime.session import Array

__all__ = ["warn_about", "warn_unmet", "warn_zeros"]

_NEAR_ZERO = 0.25
_RELATIVE_DELTA = 0.05


def warn_about(result: Attribution, moved: Mapping[str, Array], baselines: Mapping[str, Array | None]) -> None:
    """Warn where a baseline equals the input, its score is no number or far from zero, or completeness is missed by more
    than 5 %.

    `moved` holds what is fed (or the internal value) for every source, `baselines` where it came from.
    """
    for name, array in moved.items():
        baseline = baselines.get(name)
        same = np.array_equal(array, baseline) if baseline is not None else array.dtype.kind == "f" and not array.any()
        if same and array.size:
            _warn(
                f"input {name!r} equals its baseline, so its attribution is exactly zero; choose another baseline for it"
            )
    if not np.isfinite(result.convergence_delta).all():
        lost = np.isfinite(result.prediction) & ~np.isfinite(result.baseline_prediction)
        if lost.any():
            _warn(
                f"the baseline's own score is not finite for {int(lost.sum())} of {lost.size} samples, so that nothing tells "
                "whether their attributions are complete; choose another baseline= (a small number instead of zero)"
            )
        return
    change = np.abs(result.prediction - result.baseline_prediction)
    far = np.abs(result.baseline_prediction) > _NEAR_ZERO * np.maximum(np.abs(result.prediction), 1e-12)
    far &= np.abs(result.baseline_prediction) > 1e-6
    if far.any():
        _warn(
            f"the baseline's own score is not near zero ({_few(result.baseline_prediction[far])} against a prediction of "
            f"{_few(result.prediction[far])}): attributions explain the difference only; try another baseline= (a mean, "
            "blurred or padded input)"
        )
    if result.tolerance is not None:
        return
    missed = (result.relative_delta > _RELATIVE_DELTA) & (np.abs(result.convergence_delta) > 1e-6) & (change > 0)
    if missed.any():
        worst = float(result.relative_delta[missed].max())
        steps = f"n_steps={2 * result.n_steps} or more" if result.n_steps else "another baseline"
        _warn(
            f"attributions of {int(missed.sum())} of {missed.size} samples miss F(x) - F(baseline) by more than "
            f"{_RELATIVE_DELTA:.0%} (worst {worst:.0%}); use {steps}"
        )


def warn_zeros(
    result: Attribution, moved: Mapping[str, Array], starts: Sequence[Mapping[str, Array | None]], complete: bool
) -> None:
    """Warn where all that is attributed to a sample is zero though it is not at its baseline: its score does not change.

    `starts` holds what `baselines` is in `warn_about`, for every reference.
    """
    count = len(result.prediction)
    none, away = np.ones(count, bool), np.zeros(count, bool)
    for name, array in result.attributions.items():
        none &= ~_rows(array, result.axes.get(name), count).any(axis=1)
        fed = _rows(moved[name], result.axes.get(name), count)
        for start in (s.get(name) for s in starts):
            there = 0 if start is None else _rows(start, result.axes.get(name), count)
            away |= (fed != there).any(axis=1) if fed.dtype.kind == "f" or start is not None else True
    none &= away
    if complete:
        none &= (result.prediction == result.baseline_prediction).reshape(count, -1).all(axis=1)
    if none.any():
        where, other = ("between baseline and input", " or baseline=") if complete else ("at the input", "")
        _warn(
            f"attributions of {int(none.sum())} of {count} samples are all zero: their score does not change {where}, as "
            "where it is saturated or does not depend on what is attributed. Explain the value before the saturation with "
            f"output= (scores before Softmax or Sigmoid), or choose another target={other}"
        )


def _rows(array: Array, axis: int | None, count: int) -> Array:
    """What belongs to each sample, [N, all of it]; one row stands for all."""
    rows = array[None] if axis is None else np.moveaxis(array, axis, 0)
    return np.broadcast_to(rows.reshape(len(rows), -1), (count, rows[0].size))


def warn_unmet(result: Attribution, unmet: Array, stalled: Array, cap: int, why: str | None) -> None:
    """Warn where a tolerance is not met; `unmet` [N, K] says which samples, for any of K targets.

    `stalled` [N, K]: those of them that no more gradients help; `why`, if the others did not end by `cap`.
    """
    bad = np.flatnonzero(unmet.any(axis=1))
    if not len(bad):
        return
    hopeless = int(stalled.any(axis=1).sum())
    share = result.relative_delta.reshape(len(unmet), -1)[bad].max(axis=1)
    place = int(np.argmax(np.nan_to_num(share, nan=np.inf)))
    worst = int(bad[place])
    error = 0.0 if result.error_estimate is None else float(result.error_estimate.reshape(len(unmet), -1)[worst].max())
    within, remedies = f" within {cap} gradients each", list[str]()
    if hopeless < len(bad):
        remedies.append(
            f"n_steps={2 * cap} or a larger tolerance may do" if why is None else f"{why}; a larger one may do"
        )
    else:
        within = ""
    if hopeless:
        remedies.append(f"{hopeless} of them ended early, as {REASON}")
    _warn(
        f"tolerance={result.tolerance:g} is not met for {len(bad)} of {len(unmet)} samples{within} "
        f"(worst: sample {worst}, delta {share[place]:.2%} of F(x) - F(baseline), estimated error {error:.2g}): "
        + "; ".join(remedies)
    )


def _few(values: Array) -> str:
    return ", ".join(f"{v:.3g}" for v in np.ravel(values)[:3]) + (" ..." if values.size > 3 else "")


def _warn(message: str) -> None:
    warnings.warn(message, OnnxIgWarning, stacklevel=4)
