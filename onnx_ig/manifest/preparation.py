"""How raw material becomes an input: pictures through `Preprocessing`, text through `Vocabulary`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_ig.arguments import is_whole
from onnx_ig.errors import OptionError
from onnx_ig.manifest.fields import number, numbers, one_of, pair, set_field, text, texts, whole

__all__ = ["CHANNELS", "Preprocessing", "Vocabulary"]

CHANNELS = {"L": 1, "RGB": 3, "BGR": 3, "RGBA": 4}
"""Orders of channels, and how many each has."""

RESAMPLE = ("nearest", "bilinear", "bicubic", "lanczos")


@dataclass(frozen=True)
class Preprocessing:
    """From a picture to a tensor: resize, crop, then (pixel * scale - mean) / std with pixels from 0 to 255.

    Args:
        layout: order of the axes, letters of "NCHW" with at least H and W: "NCHW", "NHWC", "CHW", "NHW" ...
        size: [height, width] of the tensor, or one number for both; None: the model's own, or the picture's.
        resize: a number brings the shorter side to that many pixels, [height, width] stretches; None: without a crop
            the picture is stretched to `size`, with one it is made as small as covers it.
        crop: "center" cuts the middle `size`, a number or [height, width] cuts that; None: no crop.
        scale: factor on the pixels; None: 1/255, or 1 where `mean` or `std` exceed 1 and so are plainly in pixels.
        mean, std: one number, or one a channel.
        channels: "RGB", "BGR", "L" (grey) or "RGBA"; None: L for one channel, else RGB.
        resample: filter of the resizing, "bicubic", "bilinear", "lanczos" (all antialiased) or "nearest".

    Raises OptionError where a field has a wrong type or value.
    """

    layout: str = "NCHW"
    size: tuple[int, int] | None = None
    resize: int | tuple[int, int] | None = None
    crop: str | tuple[int, int] | None = None
    scale: float | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    channels: str | None = None
    resample: str = "bicubic"

    def __post_init__(self) -> None:
        letters = self.layout if isinstance(self.layout, str) else ""
        if len(set(letters)) != len(letters) or not {"H", "W"} <= set(letters) <= set("NCHW"):
            raise OptionError(f"layout must order the letters of NCHW, as NCHW or NHWC, not {self.layout!r}")
        if self.size is not None:
            set_field(self, "size", pair("size", self.size))
        if is_whole(self.resize):
            whole("resize", self.resize, least=1)
        elif self.resize is not None:
            set_field(self, "resize", pair("resize", self.resize))
        if isinstance(self.crop, str) and self.crop != "center":
            raise OptionError(f"crop must be 'center', a number, [height, width] or null, not {self.crop!r}")
        if self.crop is not None and not isinstance(self.crop, str):
            set_field(self, "crop", pair("crop", self.crop))
        for name in ("mean", "std"):
            set_field(self, name, numbers(name, getattr(self, name)))
        if min(abs(s) for s in self.std) == 0:
            raise OptionError("std must not be 0, the pixels are divided by it")
        if self.scale is None:
            in_pixels = max(abs(v) for v in (*self.mean, *self.std)) > 1
            set_field(self, "scale", 1.0 if in_pixels else 1 / 255)
        else:
            set_field(self, "scale", number("scale", self.scale))
        if self.channels is not None:
            one_of("channels", self.channels, tuple(CHANNELS))
        one_of("resample", self.resample, RESAMPLE)
        counts = {len(v) for v in (self.mean, self.std)} - {1}
        if self.channels is not None:
            counts |= {CHANNELS[self.channels]}
        if len(counts) > 1 and counts != {1}:
            raise OptionError(
                f"mean has {len(self.mean)}, std {len(self.std)} values"
                + (f" and {self.channels} {CHANNELS[self.channels]} channels" if self.channels else "")
                + ": give one number, or one a channel"
            )


@dataclass(frozen=True)
class Vocabulary:
    """From text to token ids: the id of a token is its place in `tokens`.

    Args:
        tokens: all tokens.
        unk: token for words that are not among them; None: such a word is an error.
        pad: token that fills short texts of a batch, and a natural baseline; None: texts must have one length.
        hold: tokens that stay as they are along the path, as start and end tokens.
        lowercase: whether text is brought to lower case first.
        split: regular expression. Its matches are the tokens; one that matches neither letters nor digits says what
            lies between them instead. None: white space lies between.
        start, end: tokens that are put before and after every text, and held.

    Raises OptionError where a field has a wrong type or value, or a special token is not among `tokens`.
    """

    tokens: Sequence[str]
    unk: str | None = None
    pad: str | None = None
    hold: Sequence[str] = ()
    lowercase: bool = False
    split: str | None = None
    start: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        tokens = texts("tokens", self.tokens)
        if not tokens:
            raise OptionError("tokens is empty")
        known = set(tokens)
        set_field(self, "tokens", tokens)
        set_field(self, "hold", texts("hold", self.hold))
        if not isinstance(self.lowercase, bool):
            raise OptionError(f"lowercase must be true or false, not {self.lowercase!r}")
        if self.split is not None:
            text("split", self.split)
            try:
                re.compile(self.split)
            except re.error as error:
                raise OptionError(f"split is not a regular expression: {error}") from error
        for name in ("unk", "pad", "start", "end"):
            token = getattr(self, name)
            if token is not None and token not in known:
                raise OptionError(f"{name} is {token!r}, which is not among the {len(tokens)} tokens")
        for token in self.hold:
            if token not in known:
                raise OptionError(f"hold names {token!r}, which is not among the {len(tokens)} tokens")
