"""The photograph itself, whatever form it comes in, as pixels that can be shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onnx_ig.arrays import as_array
from onnx_ig.errors import OptionError
from onnx_ig.manifest import Preprocessing
from onnx_ig.plot.scale import Array, numbers

__all__ = ["displayable", "grey", "restore"]


def displayable(image: ArrayLike, size: tuple[int, int] | None = None) -> Array:
    """The picture as [H, W, 3] from 0 to 1.

    `image` is [H, W], [H, W, C] or [C, H, W]; `size` = (H, W) tells which of the axes are which. Integers are pixels
    from 0 to 255; floats from 0 to 1 are shown as they are, and others, as normalised inputs with their negative
    pixels, are stretched from their smallest value to their largest (`restore` gives the real ones). An alpha channel
    is laid over white. Other numbers of channels than 1, 3 and 4 are shown by their mean.
    Raises OptionError where the picture does not have that size, or no pixels.
    """
    array = as_array(image, "picture")
    pixels = _channels_last(numbers(array, "picture"), size)
    if not pixels.size:
        raise OptionError(f"the picture has the shape {list(array.shape)} and so no pixels")
    pixels = np.clip(pixels / 255, 0, 1) if array.dtype.kind in "iu" else _within_one(pixels)
    if pixels.shape[2] == 4:
        alpha = pixels[:, :, 3:]
        pixels = pixels[:, :, :3] * alpha + (1 - alpha)
    if pixels.shape[2] != 3:
        pixels = np.repeat(pixels.mean(2, keepdims=True), 3, 2)
    return pixels


def _channels_last(pixels: Array, size: tuple[int, int] | None) -> Array:
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim == 3:
        first, last = pixels.shape[1:] == size, pixels.shape[:2] == size
        if size is None:
            last = pixels.shape[2] in (1, 3, 4) or pixels.shape[0] not in (1, 3, 4)
            first = not last
        if last:
            return pixels
        if first:
            return pixels.transpose(1, 2, 0)
    wanted = f", of height and width {list(size)}" if size else ""
    raise OptionError(
        f"a picture is [H, W], [H, W, C] or [C, H, W]{wanted}; this one has the shape {list(pixels.shape)}"
    )


def _within_one(pixels: Array) -> Array:
    finite = np.isfinite(pixels)
    if not finite.any():
        return np.full_like(pixels, 0.5)
    low, high = float(pixels[finite].min()), float(pixels[finite].max())
    if low < 0 or high > 1:
        pixels = (pixels - low) / (high - low) if high > low else np.full_like(pixels, 0.5)
    return np.where(finite, pixels, 0.5)


def grey(pixels: Array) -> Array:
    """The luminance (Rec. 601) of [H, W, 3] as [H, W, 3]."""
    return np.repeat((pixels @ np.array([0.299, 0.587, 0.114]))[:, :, None], 3, 2)


def restore(x: ArrayLike, how: Preprocessing) -> NDArray[np.uint8]:
    """The pixels [H, W, C] that became the input `x` of one sample, by undoing mean, std, scale and channel order.

    `x` has the axes of `how.layout`, without the batch axis or with one of length 1.
    Raises OptionError for another shape.
    """
    if not isinstance(how, Preprocessing):
        raise OptionError(f"how={how!r}: an onnx_ig.manifest.Preprocessing is needed")
    array = numbers(x, "picture")
    letters = how.layout
    if "N" in letters and array.ndim == len(letters) - 1:
        letters = letters.replace("N", "")
    if array.ndim != len(letters) or ("N" in letters and array.shape[letters.index("N")] != 1):
        raise OptionError(f"one picture in the layout {how.layout} cannot have the shape {list(array.shape)}")
    if "N" in letters:
        array, letters = array.squeeze(letters.index("N")), letters.replace("N", "")
    if "C" not in letters:
        array, letters = array[..., None], letters + "C"
    pixels = array.transpose([letters.index(c) for c in "HWC"])
    for name, values in (("mean", how.mean), ("std", how.std)):
        if len(values) not in (1, pixels.shape[2]):
            raise OptionError(f"{name} has {len(values)} values, and the picture {pixels.shape[2]} channels")
    pixels = (pixels * np.array(how.std) + np.array(how.mean)) / (how.scale or 1.0)
    if how.channels == "BGR":
        pixels = pixels[:, :, ::-1]
    return np.asarray(np.clip(np.rint(np.nan_to_num(pixels, nan=127.0)), 0, 255), np.uint8)
