"""From attributions to what is drawn: channels, sign and the limits of the colours.

Nothing is normalised: colours stand for values between `vmin` and `vmax`, and the colour bar says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onnx_ig.arguments import is_whole
from onnx_ig.arrays import as_array
from onnx_ig.errors import OptionError

__all__ = ["SIGNS", "Array", "Scale", "cumulative_limit", "reduce_channels", "scale", "select"]

Array: TypeAlias = NDArray[np.float64]

SIGNS = ("all", "positive", "negative", "absolute_value")
"""Which part of the attributions is drawn, in captum's words."""

_REDUCTIONS = ("sum", "mean", "norm")
_SMALLEST = 1e-290
"""Below this the arithmetic of the drawing itself loses digits; it is drawn as zero."""


def numbers(values: ArrayLike, name: str = "attribution") -> Array:
    """`values` as float64. Raises OptionError where they are not real numbers."""
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise OptionError(f"the {name} must be real numbers, not {array.dtype}")
    return array.astype(np.float64)


def each(values: Any, name: str) -> list[Any]:
    """`values` one by one. Raises OptionError for what is a text or holds nothing, as a number."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise OptionError(f"{name}={values!r}: a list is needed")
    return list(values)


def reduce_channels(attribution: ArrayLike, channel_axis: int | None = None, how: str = "sum") -> Array:
    """One value a pixel: [H, W] from [C, H, W] (or where `channel_axis` says), [H, W] as it is.

    `how`: "sum", which keeps completeness, "mean", or "norm" (Euclidean, no sign).
    Raises OptionError for other shapes. A pixel with a value that is not finite is NaN.
    """
    if how not in _REDUCTIONS:
        raise OptionError(f"channels are reduced by {', '.join(_REDUCTIONS)}, not {how!r}")
    values = numbers(attribution)
    if not values.size:
        raise OptionError(f"there is nothing to draw: the attribution has the shape {list(values.shape)}")
    if values.ndim == 2 and channel_axis is None:
        return values
    if values.ndim != 3:
        raise OptionError(
            f"one picture's attribution is [H, W] or has one channel axis; this has the shape {list(values.shape)}"
            + (" (give one sample of the batch)" if values.ndim == 4 else "")
        )
    axis = 0 if channel_axis is None else channel_axis
    if not is_whole(axis) or not -3 <= axis < 3:
        raise OptionError(f"channel_axis={axis!r}: a whole number between -3 and 2 is needed")
    with np.errstate(invalid="ignore", over="ignore"):
        reduced = {
            "sum": lambda: values.sum(axis),
            "mean": lambda: values.mean(axis),
            "norm": lambda: np.sqrt(np.square(values).sum(axis)),
        }[how]()
    return np.where(np.isfinite(reduced), reduced, np.nan)


def select(values: Array, sign: str) -> Array:
    """The part of `values` with that sign, zero elsewhere; NaN stays NaN."""
    if sign not in SIGNS:
        raise OptionError(f"sign must be one of {', '.join(SIGNS)}, not {sign!r}")
    if sign == "positive":
        return np.maximum(values, 0.0)
    if sign == "negative":
        return np.minimum(values, 0.0)
    return np.abs(values) if sign == "absolute_value" else values


def cumulative_limit(magnitudes: Array, outlier_percentile: float) -> float:
    """The magnitude up to which the small values make (100 - outlier_percentile) % of the total; 0 for no values.

    As captum's `_normalize_scale`: a few extreme pixels do not decide about all the others.
    """
    if not 0 <= outlier_percentile <= 100:
        raise OptionError(f"outlier_percentile must be from 0 to 100, not {outlier_percentile}")
    ordered = np.sort(magnitudes, axis=None)
    if not ordered.size or ordered[-1] == 0:
        return 0.0
    if outlier_percentile == 0:
        return float(ordered[-1])
    total = np.cumsum(ordered / ordered[-1])
    place = int(np.searchsorted(total, total[-1] * (1 - outlier_percentile / 100)))
    return float(ordered[min(place, ordered.size - 1)])


@dataclass(frozen=True)
class Scale:
    """Values to draw with the limits of their colours.

    `values` hold NaN where nothing finite is to be shown, `bad` counts those; `below` and `above` say whether values
    lie beyond `vmin` and `vmax`.
    """

    values: Array
    vmin: float
    vmax: float
    sign: str
    bad: int

    @property
    def below(self) -> bool:
        return bool(np.any(self.values < self.vmin))

    @property
    def above(self) -> bool:
        return bool(np.any(self.values > self.vmax))

    @property
    def reach(self) -> float:
        """The larger magnitude of the limits: full colour."""
        return max(abs(self.vmin), abs(self.vmax))

    @property
    def intensity(self) -> Array:
        """|value| / reach, from 0 to 1; NaN stays."""
        return np.clip(np.abs(self.values) / self.reach, 0.0, 1.0)


def scale(
    values: ArrayLike,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 0.0,
) -> Scale:
    """Choose the part and the limits.

    The limits, where they are not given, are 0 and the largest magnitude (both signs: minus and plus that), so that
    zero is always neutral; with `outlier_percentile` the magnitude is `cumulative_limit`'s. One of the limits given:
    the other follows it by symmetry. All values zero: the limits are those of one.
    Raises OptionError where vmin >= vmax, or a limit contradicts the sign.
    """
    picked = select(numbers(values), sign)
    finite = np.isfinite(picked)
    picked = np.where(finite & (np.abs(np.where(finite, picked, 0.0)) < _SMALLEST), 0.0, picked)
    reach = cumulative_limit(np.abs(picked[finite]), outlier_percentile) or 1.0
    low, high = _limits(sign, vmin, vmax, reach)
    return Scale(np.where(finite, picked, np.nan), low, high, sign, int(np.size(picked) - finite.sum()))


def _limits(sign: str, vmin: float | None, vmax: float | None, reach: float) -> tuple[float, float]:
    for name, limit in (("vmin", vmin), ("vmax", vmax)):
        if limit is not None and not (np.isreal(limit) and np.isfinite(limit)):
            raise OptionError(f"{name} must be a number, not {limit!r}")
    if sign == "all":
        low = vmin if vmin is not None else -abs(vmax) if vmax is not None else -reach
        high = vmax if vmax is not None else abs(vmin) if vmin is not None else reach
    elif sign == "negative":
        low, high = (-reach if vmin is None else vmin), (0.0 if vmax is None else vmax)
    else:
        low, high = (0.0 if vmin is None else vmin), (reach if vmax is None else vmax)
    if not low < high:
        raise OptionError(f"the colours need vmin < vmax; with sign={sign!r} they are {low:g} and {high:g}")
    return float(low), float(high)


def note(scaled: Scale) -> str:
    """A line for the picture where values could not be drawn, else empty."""
    if not scaled.bad:
        return ""
    return f"{scaled.bad} value{'s are' if scaled.bad > 1 else ' is'} not finite"


def short(value: Any) -> str:
    """A number for people: four digits, as 0.01234 or 1.234e-07."""
    return f"{float(value):.4g}"
