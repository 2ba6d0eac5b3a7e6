from __future__ import annotations

import numpy as np
import pytest

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import SHAPES, check, gradients_of, node_model

rng = np.random.default_rng(0)

MODES = ["linear", "cubic", "nearest"]
PADDING = ["zeros", "border", "reflection"]


def grid_away_from_kinks(batch: int, samples: tuple[int, ...], lengths: tuple[int, ...], align: int) -> np.ndarray:
    """Positions with fractional part in (0.1, 0.4) or (0.6, 0.9), from two elements before the image to two behind:
    no sample is at an element, at a border or halfway.
    """
    columns = []
    for length in reversed(lengths):
        whole = rng.integers(-2, length + 1, (batch, *samples))
        position = whole + rng.uniform(0.1, 0.4, whole.shape) + rng.choice([0, 0.5], whole.shape)
        last = max(length - 1, 1)
        columns.append(position * 2 / last - 1 if align else (position * 2 + 1) / length - 1)
    return np.stack(columns, -1)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("mode", MODES)
def test_grid_sample(mode: str, padding: str, align: int) -> None:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    cases = [((4, 5), (3, 7)), ((3, 4, 5), (2, 3, 2)), ((2, 1), (4, 4)), ((3, 3), (1, 1))]
    if mode == "cubic":  # the standard has none in three axes
        cases = cases[:1]
    for i, (lengths, samples) in enumerate(cases):
        inputs = {
            "x": rng.standard_normal((2, 2, *lengths)),
            "grid": grid_away_from_kinks(2, samples, lengths, align),
        }
        wrt = ("x",) if mode == "nearest" else ("x", "grid")
        check("GridSample", inputs, attributes, shapes=(SHAPES[i % 3],), wrt=wrt, step=1e-6)


def test_defaults_and_newer_opsets() -> None:
    inputs = {"x": rng.standard_normal((1, 2, 3, 3)), "grid": grid_away_from_kinks(1, (2, 2), (3, 3), 0)}
    for opset in (20, 21, 25):
        check("GridSample", inputs, {}, opset=opset, shapes=("dynamic",))


def test_empty_batch() -> None:
    inputs = {"x": np.zeros((0, 2, 3, 3)), "grid": np.zeros((0, 2, 2, 2))}
    check("GridSample", inputs, {}, shapes=("static", "dynamic"))


def test_an_unknown_number_of_axes_is_refused() -> None:
    inputs = {"x": rng.standard_normal((1, 1, 2, 2)), "grid": np.zeros((1, 1, 1, 2))}
    with pytest.raises(UnsupportedOperatorError, match="two or three axes is not known"):
        gradients_of(node_model("GridSample", inputs, shapes="unranked"), inputs, "y", ["x"], np.zeros((1, 1, 1, 1)))
