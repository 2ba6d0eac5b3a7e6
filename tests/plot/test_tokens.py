"""Coloured text: what stands on which colour, and that tokens are never interpreted."""

from __future__ import annotations

import re

import numpy as np
import pytest

from onnx_ig import plot
from onnx_ig.errors import OptionError


def backgrounds(page: str) -> list[tuple[str, float]]:
    """(hue as "r,g,b", opacity) of each token."""
    found = re.findall(r'class="t[^"]*" style="background:rgba\((\d+,\d+,\d+),([\d.]+)\)', page)
    return [(hue, float(opacity)) for hue, opacity in found]


def test_html_colours() -> None:
    page = plot.token_html(plot.TokenRow(["a", "b", "c", "d"], [2.0, -1.0, 0.0, np.nan]))
    blue, orange, magenta = "0,114,178", "213,94,0", "204,0,204"
    assert backgrounds(page) == [(blue, 0.75), (orange, 0.375), (blue, 0.0), (magenta, 0.75)]
    assert "1 value is not finite" in page
    assert 'title="-1"' in page
    assert ">+2<" in page
    assert ">-2<" in page  # the scale


def test_rows_share_one_scale_unless_limits_are_given() -> None:
    rows = [plot.TokenRow(["a"], [4.0], "first"), plot.TokenRow(["b"], [1.0], "second")]
    assert [o for _, o in backgrounds(plot.token_html(rows))] == [0.75, 0.188]
    assert [o for _, o in backgrounds(plot.token_html(rows, vmax=1))] == [0.75, 0.75]
    assert backgrounds(plot.token_html(rows, palette="red_green"))[0][0] == "26,153,64"


def test_html_escapes_tokens_and_titles() -> None:
    page = plot.token_html(plot.TokenRow(["<script>", "a&b", "\x1b[2J"], [1, 2, 3], "<i>"), title='"<b>"')
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "a&amp;b" in page
    assert "\x1b" not in page
    assert "<h2>&lt;i&gt;</h2>" in page
    assert "<b>" not in page


def test_held_tokens_are_marked() -> None:
    page = plot.token_html(plot.TokenRow(["[CLS]", "good"], [0.0, 1.0], held=[True, False]))
    assert 'class="t held"' in page
    assert "0 (held)" in page


def test_terminal() -> None:
    text = plot.token_text(plot.TokenRow(["good", "bad", "nul"], [1.0, -0.5, 0.0]))
    assert text.count("\x1b[0m") == 3
    assert "\x1b[48;2;64;149;197m" in text  # three quarters of the blue over white
    assert "\x1b[48;2;255;255;255m\x1b[38;2;0;0;0mnul" in text
    plain = plot.token_text(plot.TokenRow(["good", "b\x1bad\n"], [1.0, -0.5], "title"), colour=False)
    assert plain == "title\ngood(+1) b\\x1bad\\n(-0.5)"


def test_empty_text() -> None:
    assert plot.token_text(plot.TokenRow([], [])) == ""
    assert "<p></p>" in plot.token_html(plot.TokenRow([], []))


def test_wrong_options() -> None:
    with pytest.raises(OptionError, match="2 tokens need as many values"):
        plot.TokenRow(["a", "b"], [1.0])
    with pytest.raises(OptionError, match="1 tokens, and 2 marks"):
        plot.TokenRow(["a"], [1.0], held=[True, False])
    with pytest.raises(OptionError, match="no palette"):
        plot.token_html(plot.TokenRow(["a"], [1.0]), palette="x")
    with pytest.raises(OptionError, match="sign"):
        plot.token_text(plot.TokenRow(["a"], [1.0]), sign="both")
