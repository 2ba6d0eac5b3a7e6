"""One sample of what a result holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["row_of"]


def row_of(result: Any, name: str, array: npt.NDArray[Any], sample: int, target: int | None = None) -> npt.NDArray[Any]:
    """One sample, and one of K targets, of an array of `result` that belongs to the input `name`.

    The targets have an axis behind the batch axis, as `Attribution.attributions` have, and lead where the feeds are one
    sample. Results that do not say their axes lead with the samples, where the numbers agree.
    """
    axes = getattr(result, "axes", {})
    axis = axes.get(name, 0 if array.ndim and array.shape[0] == len(result.prediction) else None)
    if target is not None and np.ndim(result.prediction) == 2:
        array = np.take(array, target, axis=0 if axis is None else axis + 1)
    if axis is None and array.ndim and array.shape[0] == 1:
        axis = 0  # one sample, with a leading axis of its own
    return array if axis is None else np.take(array, sample, axis=axis)
