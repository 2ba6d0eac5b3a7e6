"""Pictures to tensors by the same words that the file's metadata carries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def prepare(path: Path, spec: Mapping[str, Any]) -> NDArray[np.float32]:
    """One picture as [1, C, H, W], float32.

    `resize`: the shorter side is brought to that many pixels (bicubic, antialiased); `crop` "center": the middle
    `size` = [H, W] of it. Then (pixel * scale - mean) / std per channel, pixels 0 to 255.
    """
    height, width = spec["size"]
    mean = np.asarray(spec["mean"], np.float64)
    std = np.asarray(spec["std"], np.float64)
    picture = Image.open(path).convert("L" if mean.size == 1 else "RGB")
    factor = spec["resize"] / min(picture.size)
    if factor != 1:
        scaled = (round(picture.width * factor), round(picture.height * factor))
        picture = picture.resize(scaled, Image.Resampling.BICUBIC)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    picture = picture.crop((left, top, left + width, top + height))
    pixels = np.asarray(picture, np.float64).reshape(height, width, mean.size)
    return ((pixels * spec["scale"] - mean) / std).transpose(2, 0, 1)[None].astype(np.float32)
