"""Attributions of tokens as coloured text: an HTML page, or ANSI colours for a terminal.

One value a token; colours stand for values from `vmin` to `vmax` as in `scale`. Tokens are shown, never interpreted:
markup and control characters in them are escaped.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onnx_ig.arrays import as_array
from onnx_ig.errors import OptionError
from onnx_ig.plot.colours import BAD, RGB, hue, palette_named
from onnx_ig.plot.scale import Scale, each, note, numbers, scale, short

__all__ = ["TokenRow", "token_html", "token_text"]

_FULL = 0.75
"""Opacity of a full attribution: black text stays readable on it."""

_STYLE = """\
body { font: 16px/1.9 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; background: #fff;
  color: #000 }
h1 { font-size: 1.1em } h2 { font-size: 1em; margin: 1.5em 0 .3em } p { margin: .2em 0 }
.t { padding: .15em .25em; border-radius: .2em; white-space: pre-wrap } .held { outline: 1px dotted #999 }
.scale { font-size: .8em; color: #444 } .scale span { padding: .1em .6em }
"""


@dataclass(frozen=True)
class TokenRow:
    """One text: its tokens, a value for each, a heading, and which tokens were held along the path.

    Raises OptionError where the numbers of tokens and values differ, or one of them is no list.
    """

    tokens: Sequence[str]
    values: ArrayLike
    title: str = ""
    held: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        shape = as_array(self.values, "values").shape
        for name in ("tokens", "held"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, each(getattr(self, name), name))
        if shape != (len(self.tokens),):
            raise OptionError(f"{len(self.tokens)} tokens need as many values; these have the shape {list(shape)}")
        if self.held is not None and len(self.held) != len(self.tokens):
            raise OptionError(f"{len(self.tokens)} tokens, and {len(self.held)} marks for held ones")


def token_html(
    rows: TokenRow | Sequence[TokenRow],
    *,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 0.0,
    palette: str = "blue_orange",
    title: str = "",
) -> str:
    """A page that shows each token on the colour of its value, which a pointer resting on it tells in figures.

    All rows share one scale. Raises OptionError where limits or names are wrong.
    """
    rows = _rows(rows)
    parts, shared = _scaled(rows, sign, vmin, vmax, outlier_percentile, palette)
    body = [f"<h1>{html.escape(title)}</h1>"] if title else []
    for row, part in zip(rows, parts, strict=True):
        held = row.held if row.held is not None else [False] * len(row.tokens)
        if row.title:
            body.append(f"<h2>{html.escape(row.title)}</h2>")
        spans = [_span(*one, part, palette) for one in zip(row.tokens, part.values, held, strict=True)]
        body.append(f"<p>{' '.join(spans)}</p>")
        if note(part):
            body.append(f'<p class="scale">{html.escape(note(part))}</p>')
    body.append(_legend(shared, palette))
    heading = html.escape(title or "attributions")
    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{heading}</title>\n<style>{_STYLE}</style></head>\n'
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


def token_text(
    rows: TokenRow | Sequence[TokenRow],
    *,
    sign: str = "all",
    vmin: float | None = None,
    vmax: float | None = None,
    outlier_percentile: float = 0.0,
    palette: str = "blue_orange",
    colour: bool = True,
) -> str:
    """The tokens for a terminal, a line a row.

    They stand in black on the colour of the value (24 bits), or, without colours, with the value behind each.
    Raises OptionError where limits or names are wrong.
    """
    rows = _rows(rows)
    parts, _ = _scaled(rows, sign, vmin, vmax, outlier_percentile, palette)
    lines = []
    for row, part in zip(rows, parts, strict=True):
        if row.title:
            lines.append(printable(row.title))
        words = []
        for token, value in zip(row.tokens, part.values, strict=True):
            text = printable(token)
            words.append(_ansi(text, float(value), part, palette) if colour else f"{text}({value:+.3g})")
        lines.append(" ".join(words))
    return "\n".join(lines)


def printable(text: str) -> str:
    """`text` with control characters written out, so that no token can steer a terminal or break a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _rows(rows: Any) -> list[TokenRow]:
    several = [rows] if isinstance(rows, TokenRow) else each(rows, "rows")
    if not all(isinstance(row, TokenRow) for row in several):
        raise OptionError(f"rows={rows!r}: a TokenRow, or a list of them, is needed")
    return several


def _scaled(
    rows: Sequence[TokenRow],
    sign: str,
    vmin: float | None,
    vmax: float | None,
    outlier_percentile: float,
    palette: str,
) -> tuple[list[Scale], Scale]:
    palette_named(palette)
    values = [numbers(row.values) for row in rows]
    shared = scale(np.concatenate(values) if values else [], sign, vmin, vmax, outlier_percentile)
    return [scale(v, sign, shared.vmin, shared.vmax) for v in values], shared


def _colour(value: float, part: Scale, palette: str) -> tuple[RGB, float]:
    """Hue and opacity that stand for a value."""
    if not np.isfinite(value):
        return BAD, _FULL
    return hue(value, palette, part.sign), _FULL * min(abs(value) / part.reach, 1.0)


def _css(value: float, part: Scale, palette: str) -> str:
    (red, green, blue), opacity = _colour(value, part, palette)
    return f"background:rgba({red * 255:.0f},{green * 255:.0f},{blue * 255:.0f},{opacity:.3f})"


def _span(token: str, value: float, held: bool, part: Scale, palette: str) -> str:
    kind, said = ("t held", " (held)") if held else ("t", "")
    shown = html.escape(printable(token))
    return f'<span class="{kind}" style="{_css(value, part, palette)}" title="{short(value)}{said}">{shown}</span>'


def _legend(shared: Scale, palette: str) -> str:
    shown = []
    for value in sorted({shared.vmin, min(max(0.0, shared.vmin), shared.vmax), shared.vmax}):
        shown.append(f'<span style="{_css(value, shared, palette)}">{value:+.3g}</span>')
    return f'<p class="scale">attribution: {" ".join(shown)}</p>'


def _ansi(text: str, value: float, part: Scale, palette: str) -> str:
    colour, opacity = _colour(value, part, palette)
    red, green, blue = (round(255 * (1 - opacity * (1 - c))) for c in colour)
    return f"\x1b[48;2;{red};{green};{blue}m\x1b[38;2;0;0;0m{text}\x1b[0m"
