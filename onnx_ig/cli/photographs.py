"""From the file of a picture to the tensor that a model takes, by the words of `Preprocessing`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onnx_ig.cli.ports import Port
from onnx_ig.errors import FeedError, MissingDependencyError, OptionError
from onnx_ig.manifest import Preprocessing
from onnx_ig.manifest.preparation import CHANNELS

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ENDINGS", "Photograph", "guess_preprocessing", "read_photograph"]

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


@dataclass(frozen=True)
class Photograph:
    """`tensor`: one row for the model; `pixels` [H, W, C] uint8: what it shows, cut and resized as the model sees it."""

    tensor: NDArray[Any]
    pixels: NDArray[np.uint8]


def guess_preprocessing(port: Port) -> Preprocessing:
    """What to do with pixels where nothing is known: the layout by the place of the channels, values from 0 to 1."""
    shape = port.shape or (None, None, None, None)
    layouts = {4: ("NCHW", "NHWC"), 3: ("CHW", "HWC", "NHW"), 2: ("HW",)}.get(len(shape), ("NCHW",))
    layout = min(layouts, key=lambda letters: _unlikely(letters, shape))
    whole = port.dtype is not None and port.dtype.kind in "iu"
    return Preprocessing(layout, scale=1.0 if whole else None)


def _unlikely(layout: str, shape: tuple[int | None, ...]) -> int:
    """How little a layout fits: three channels are likelier than one, that than none told, and four come last."""
    if "C" not in layout:
        return 4
    count = shape[layout.index("C")] if len(shape) == len(layout) else None
    if count is None:
        return 2 if len(layout) == 4 else 5  # a free first axis of three is the samples
    return {3: 0, 1: 1, 4: 3}.get(count, 5)


def read_photograph(path: Path, spec: Preprocessing, port: Port) -> Photograph:
    """Read a picture for one input.

    Raises FeedError where the file is no picture; OptionError where the preprocessing contradicts the input;
    MissingDependencyError without Pillow.
    """
    letters = spec.layout
    if port.rank is not None and port.rank != len(letters):
        raise OptionError(f"the layout {letters} has {len(letters)} axes, and the input {port} has {port.rank}")
    dims: dict[str, int | None] = dict(zip(letters, port.shape or [None] * len(letters), strict=True))
    if port.dtype is None or port.dtype.kind not in "fiu":
        raise OptionError(f"the input {port} takes no pictures")
    order = _order(spec, dims, port)
    picture = _fit(_open(path, order), spec, _size(spec, dims, port))
    pixels = np.asarray(picture, np.uint8).reshape(picture.height, picture.width, CHANNELS[order])
    values = pixels[:, :, ::-1] if order == "BGR" else pixels
    scaled = (values * float(spec.scale or 1.0) - np.array(spec.mean)) / np.array(spec.std)
    if port.dtype.kind in "iu":
        limits = np.iinfo(port.dtype)
        scaled = np.clip(np.rint(scaled), limits.min, limits.max)
    placed, axes = (scaled, "HWC") if "C" in letters else (scaled[:, :, 0], "HW")
    placed = placed.transpose([axes.index(c) for c in letters if c != "N"])
    if "N" in letters:
        placed = np.expand_dims(placed, letters.index("N"))
    taken = zip(letters, port.shape or placed.shape, placed.shape, strict=True)
    if any(letter != "N" and side not in (None, given) for letter, side, given in taken):
        raise OptionError(f"a picture becomes a tensor of the shape {list(placed.shape)}, which is none for {port}")
    return Photograph(np.ascontiguousarray(placed, port.dtype), pixels)


def _order(spec: Preprocessing, dims: dict[str, int | None], port: Port) -> str:
    """The order of channels: told, or by their number."""
    if "C" not in dims:
        if spec.channels not in (None, "L"):
            raise OptionError(f"channels {spec.channels} need a C in the layout {spec.layout}")
        return "L"
    told = max(len(spec.mean), len(spec.std))
    count = dims["C"] or (told if told > 1 else 3)
    order = spec.channels or {1: "L", 3: "RGB", 4: "RGBA"}.get(count)
    if order is None or (dims["C"] is not None and CHANNELS[order] != dims["C"]):
        raise OptionError(f"the input {port} takes {count} channels, and a picture has {CHANNELS.get(order or '', 3)}")
    for name, values in (("mean", spec.mean), ("std", spec.std)):
        if len(values) not in (1, CHANNELS[order]):
            raise OptionError(f"{name} has {len(values)} values, and the input {port} {CHANNELS[order]} channels")
    return order


def _size(spec: Preprocessing, dims: dict[str, int | None], port: Port) -> tuple[int, int] | None:
    """[height, width] of the tensor; None: whatever resizing leaves."""
    size = spec.size or (spec.crop if isinstance(spec.crop, tuple) else None)
    fixed = (dims["H"], dims["W"])
    if size is None and None not in fixed:
        return fixed  # type: ignore[return-value]
    for side, taken in zip(size or (), fixed, strict=False):
        if taken is not None and side != taken:
            raise OptionError(f"the size {list(size or ())} does not fit the input {port}")
    return size


def _open(path: Path, order: str) -> Image:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise MissingDependencyError(
            "reading pictures needs Pillow, which is not installed: pip install 'onnx_ig[plot]'"
        ) from error
    try:
        with Image.open(path) as opened:
            picture: Image.Image = ImageOps.exif_transpose(opened)
            if picture.mode.startswith("I"):
                # Sixteen bits: Pillow's own conversion would cut everything above 255 off.
                picture = Image.fromarray((np.asarray(picture, np.float64) / 257).astype(np.uint8))
            if order != "RGBA" and picture.has_transparency_data:
                # What is transparent is seen over white.
                clear = picture.convert("RGBA")
                picture = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
            return picture.convert("RGB" if order == "BGR" else order)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise FeedError(f"{path} is not a picture that can be read: {_plain(error, path)}") from error


def _plain(error: Exception, path: Path) -> str:
    text = str(error) or type(error).__name__
    return "its content is of no known kind" if "cannot identify" in text else text.replace(str(path), path.name)


def _fit(picture: Image, spec: Preprocessing, size: tuple[int, int] | None) -> Image:
    """Resize and crop."""
    from PIL.Image import Resampling

    how = Resampling[spec.resample.upper()]
    if isinstance(spec.resize, tuple):
        picture = picture.resize((spec.resize[1], spec.resize[0]), how)
    elif spec.resize is not None:
        picture = _scaled(picture, spec.resize / min(picture.size), how)
    elif spec.crop is not None and size is not None:
        picture = _scaled(picture, max(size[0] / picture.height, size[1] / picture.width), how)
    if size is None:
        return picture
    height, width = size
    if spec.crop is not None:
        if picture.height < height or picture.width < width:
            raise OptionError(
                f"the picture is resized to {picture.height} x {picture.width} and cannot be cropped to {height} x {width}"
            )
        left, top = (picture.width - width) // 2, (picture.height - height) // 2
        return picture.crop((left, top, left + width, top + height))
    return picture if picture.size == (width, height) else picture.resize((width, height), how)


def _scaled(picture: Image, factor: float, how: Any) -> Image:
    if factor == 1:
        return picture
    return picture.resize((max(1, round(picture.width * factor)), max(1, round(picture.height * factor))), how)
