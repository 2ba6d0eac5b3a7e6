from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import check, gradients_of, node_model
from tests.linear import check_linear

rng = np.random.default_rng(0)


def dft_inputs(shape: tuple[int, ...], points: int | None, axis: int | None) -> dict[str, np.ndarray | None]:
    return {
        "x": rng.standard_normal(shape),
        "n": None if points is None else np.asarray(points, np.int64),
        "axis": None if axis is None else np.asarray(axis, np.int64),
    }


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("parts", "attributes"),
    [
        (1, {}),
        (2, {}),
        (1, {"onesided": 1}),
        (2, {"inverse": 1}),
        (1, {"inverse": 1}),
        (2, {"inverse": 1, "onesided": 1}),
    ],
)
def test_dft(parts: int, attributes: dict[str, Any], stored: bool) -> None:
    constants = ("n", "axis") if stored else ()
    cases: list[tuple[tuple[int, ...], int | None, int | None]] = [
        ((2, 5, parts), None, None), ((2, 4, 3, parts), 6, 1), ((3, 2, parts), 5, 0), ((1, 2, parts), None, 1),
    ]  # fmt: skip
    if attributes != {"inverse": 1, "onesided": 1}:
        cases += [((2, 5, parts), 4, -2), ((2, 3, parts), 1, -2)]
    for shape, points, axis in cases:
        inputs = dft_inputs(shape, points, axis)
        check("DFT", inputs, attributes, constants=constants, shapes=("static", "dynamic"))
        check_linear("DFT", inputs, attributes, constants=constants, shapes=("batch", "unranked"), dtype=np.float64)


def test_a_half_spectrum_of_other_length_is_refused() -> None:
    inputs = dft_inputs((1, 3, 2), 8, None)
    model = node_model("DFT", inputs, {"inverse": 1, "onesided": 1}, constants=("n",))
    with pytest.raises(UnsupportedOperatorError, match="a half spectrum of 3 bins for 8 points"):
        gradients_of(model, {"x": np.zeros((1, 3, 2))}, "y", ["x"], np.zeros((1, 8, 1)))


STFTS = [(11, 3, 4, None), (9, 2, 5, 5), (8, 5, None, 3), (4, 1, 4, None)]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("length", "step", "window", "frame"), STFTS)
def test_stft(length: int, step: int, window: int | None, frame: int | None, onesided: int, parts: int) -> None:
    inputs = {
        "x": rng.standard_normal((2, length, parts)),
        "step": np.asarray(step, np.int64),
        "window": None if window is None else rng.uniform(0.2, 1, window),
        "frame": None if frame is None else np.asarray(frame, np.int64),
    }
    check("STFT", inputs, {"onesided": onesided}, constants=("step", "frame"))
    check("STFT", inputs, {"onesided": onesided}, shapes=("dynamic", "unranked"))


def test_a_signal_without_the_axis_of_parts() -> None:
    inputs = {"x": rng.standard_normal((2, 9)), "step": np.asarray(2, np.int64), "window": rng.uniform(0.2, 1, 4)}
    check_linear("STFT", inputs, {}, constants=("step",), shapes=("unranked",), dtype=np.float64)


def test_onesided_is_the_default_of_stft() -> None:
    """onnx's shape inference takes it for two-sided, and the shapes behind would be wrong."""
    inputs = {"x": rng.standard_normal((1, 9, 1)), "step": np.asarray(2, np.int64), "window": rng.uniform(0.2, 1, 4)}
    check("STFT", inputs, constants=("step",))
