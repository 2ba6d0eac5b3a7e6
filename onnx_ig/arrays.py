"""Arrays from what a caller gives, with errors in the caller's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_ig.errors import OptionError

__all__ = ["as_array", "converted"]


def as_array(given: Any, what: str) -> npt.NDArray[Any]:
    """`given` as an array. Raises OptionError where it is none, such as rows of different lengths."""
    try:
        return np.asarray(given)
    except (ValueError, TypeError) as error:
        raise OptionError(f"{what}: what is given is not an array ({error})") from error


def converted(array: npt.NDArray[Any], dtype: npt.DTypeLike, what: str) -> npt.NDArray[Any]:
    """`array` in another type. Raises OptionError where a number is too large for it: no infinity, and no wrapped id."""
    wanted = np.dtype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(wanted)
    if array.dtype.kind in "iu" and wanted.kind in "iu":
        fits = bool((result == array).all())
    else:
        fits = wanted.kind in "iu" or bool(np.isfinite(result.astype(np.float64)).all())
    if not fits:
        raise OptionError(f"{what} holds numbers that do not fit into {wanted}")
    return result
