"""Pictures of attributions, as pure functions on arrays: matplotlib Figures and HTML texts.

Needs the extra `[plot]`; matplotlib is imported when the first picture is drawn. Nothing is normalised behind the
reader's back: see `scale`.
"""

from __future__ import annotations

from onnx_ig.plot.bars import bars, series
from onnx_ig.plot.curves import curves
from onnx_ig.plot.files import save
from onnx_ig.plot.images import (
    PICTURES,
    alpha_scaling,
    blended_heat_map,
    heat_map,
    masked_image,
    original_image,
    overlay,
    panels,
)
from onnx_ig.plot.photograph import displayable, restore
from onnx_ig.plot.picture import headline, picture
from onnx_ig.plot.tokens import TokenRow, token_html, token_text

__all__ = [
    "PICTURES",
    "TokenRow",
    "alpha_scaling",
    "bars",
    "blended_heat_map",
    "curves",
    "displayable",
    "headline",
    "heat_map",
    "masked_image",
    "original_image",
    "overlay",
    "panels",
    "picture",
    "restore",
    "save",
    "series",
    "token_html",
    "token_text",
]
