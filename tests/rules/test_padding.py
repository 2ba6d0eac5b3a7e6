from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import SHAPES, check
from tests.linear import check_linear

rng = np.random.default_rng(0)


def pad_inputs(
    shape: tuple[int, ...], pads: list[int], axes: list[int] | None = None, value: float | None = None
) -> dict[str, np.ndarray | None]:
    return {
        "x": rng.standard_normal(shape),
        "pads": np.asarray(pads, np.int64),
        "value": None if value is None else np.asarray(value),
        "axes": None if axes is None else np.asarray(axes, np.int64),
    }


CASES: list[tuple[str, tuple[int, ...], list[int], list[int] | None]] = [
    ("reflect", (2, 4), [0, 3, 0, 3], None),
    ("reflect", (3, 2, 4), [1, 2], [-1]),
    ("reflect", (3, 5), [-1, 2, 1, -2], None),
    ("edge", (2, 4), [1, 0, 2, 5], None),
    ("edge", (2, 3, 1), [0, -1, 2, 0, 2, 3], None),
    ("edge", (2, 3, 2), [1, 2, 0, 3], [2, 0]),
    ("wrap", (2, 4), [1, 0, 2, 4], None),
    ("wrap", (2, 3), [0, 4, 0, 7], None),  # around several times
    ("wrap", (2, 4), [0, -1, 0, 2], None),
    ("constant", (2, 4), [1, 0, 2, 5], None),
    ("constant", (2, 4), [-1, 2, 0, -3], None),
    ("constant", (2, 3, 4), [1, -2, 0, 3], [-1, 0]),
]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(("mode", "shape", "pads", "axes"), CASES)
def test_pad(mode: str, shape: tuple[int, ...], pads: list[int], axes: list[int] | None, stored: bool) -> None:
    constants = ("pads", "axes") if stored else ()
    inputs = pad_inputs(shape, pads, axes)
    check("Pad", inputs, {"mode": mode}, constants=constants)
    check_linear("Pad", inputs, {"mode": mode}, constants=constants)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_the_value_that_is_added(shape: tuple[int, ...]) -> None:
    inputs = pad_inputs((2, 3), [1, -1, 0, 2])
    check("Pad", {**inputs, "value": np.full(shape, 0.7)}, wrt=("x", "value"))
    for opset in (21, 25):
        check("Pad", {**inputs, "value": np.full(shape, 0.7)}, wrt=("x", "value"), opset=opset, shapes=("dynamic",))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_empty_batch(mode: str) -> None:
    inputs = pad_inputs((0, 4), [0, 1, 0, 2])
    check("Pad", inputs, {"mode": mode}, constants=("pads",))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("seed", range(8))
def test_random(mode: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = random.integers(2, 5, random.integers(1, 4))
    most = shape - 1 if mode == "reflect" else shape + 1
    pads = [*random.integers(0, most + 1), *random.integers(0, most + 1)]
    inputs = pad_inputs(tuple(int(n) for n in shape), [int(p) for p in pads])
    check_linear("Pad", inputs, {"mode": mode}, constants=("pads",), shapes=("static", "dynamic"))
    check_linear("Pad", inputs, {"mode": mode}, shapes=("batch", "unranked"))


def test_axes_computed_at_run_time_with_stored_pads() -> None:
    check_linear("Pad", pad_inputs((2, 3, 4), [1, 2, 0, 1], [2, 0]), {"mode": "edge"}, constants=("pads",))


@pytest.mark.parametrize(
    ("shape", "target", "axes"),
    [((5, 4), [3, 6], None), ((2, 5, 4), [2, 7], [2, 1]), ((4, 5), [7], [-1]), ((4, 5), [4, 2], None)],
)
@pytest.mark.parametrize("stored", [True, False])
def test_center_crop_pad(shape: tuple[int, ...], target: list[int], axes: list[int] | None, stored: bool) -> None:
    attributes: dict[str, Any] = {} if axes is None else {"axes": axes}
    inputs = {"x": rng.standard_normal(shape), "shape": np.asarray(target, np.int64)}
    kinds = SHAPES if axes is None else SHAPES[:3]  # runtimes expand it with axes only at a known rank
    check_linear("CenterCropPad", inputs, attributes, constants=("shape",) if stored else (), shapes=kinds)
