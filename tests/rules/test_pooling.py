from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import SHAPES, check, gradients_of, node_model
from tests.rules.configurations import pool_configuration

rng = np.random.default_rng(0)


def away_from_zero(shape: tuple[int, ...]) -> np.ndarray:
    """No element where a norm has a kink."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 2, shape)


@pytest.mark.parametrize("op", ["AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("lengths", "attributes"),
    [
        ((6,), {"kernel_shape": [2], "strides": [2]}),  # side by side
        ((7,), {"kernel_shape": [2], "strides": [2]}),  # with a rest
        ((7,), {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}),
        ((7,), {"kernel_shape": [3], "strides": [3], "pads": [0, 2]}),
        ((6, 5), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),  # stride 1
        ((6, 5), {"kernel_shape": [3, 2], "dilations": [2, 1], "pads": [1, 1, 0, 1]}),
        ((6, 5), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),  # overlapping
        ((6, 5), {"kernel_shape": [2, 1], "strides": [3, 2]}),  # gaps
        ((6, 5), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
        ((6, 5), {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 3]}),
        ((4, 3, 4), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2], "pads": [0, 1, 1, 0, 0, 2]}),
        ((1,), {"kernel_shape": [1]}),
    ],
)
def test_windows(op: str, lengths: tuple[int, ...], attributes: dict[str, Any]) -> None:
    check(op, {"x": away_from_zero((2, 3, *lengths))}, attributes)
    if op == "AveragePool":
        check(op, {"x": away_from_zero((2, 3, *lengths))}, {**attributes, "count_include_pad": 1})


@pytest.mark.parametrize("op", ["AveragePool", "LpPool"])
@pytest.mark.parametrize("seed", range(12))
def test_random(op: str, seed: int) -> None:
    attributes, lengths = pool_configuration(seed)
    if op == "AveragePool":
        attributes["count_include_pad"] = seed % 2 if seed != 7 else 0  # 7 is the one refused below
    else:
        attributes["p"] = 1 + seed % 4
    x = np.random.default_rng(seed).choice([-1.0, 1.0], (2, 2, *lengths))
    x *= np.random.default_rng(seed).uniform(0.5, 2, x.shape)
    check(op, {"x": x}, attributes, shapes=("static", "dynamic") if seed % 3 else ("batch", "unranked"))


@pytest.mark.parametrize("op", ["AveragePool", "LpPool"])
def test_same_of_unknown_meaning_is_refused(op: str) -> None:
    attributes = {"kernel_shape": [2], "strides": [4], "auto_pad": "SAME_UPPER"}
    x = away_from_zero((1, 1, 8))
    with pytest.raises(UnsupportedOperatorError, match="runtimes disagree about auto_pad=SAME_UPPER"):
        gradients_of(node_model(op, {"x": x}, attributes), {"x": x}, "y", ["x"], x)


def test_windows_that_inference_counts_and_runtimes_do_not() -> None:
    """ceil_mode would start a window in the end pads: such pools get floor and longer pads, or are refused where the
    mean would count those.
    """
    attributes = {"kernel_shape": [2], "strides": [3], "pads": [0, 1], "ceil_mode": 1}
    check("AveragePool", {"x": away_from_zero((1, 1, 6))}, {**attributes, "count_include_pad": 1}, opset=22)
    check("LpPool", {"x": away_from_zero((1, 1, 6))}, attributes)
    attributes = {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [1, 2, 0, 2], "ceil_mode": 1}
    x = away_from_zero((1, 1, 2, 4))
    check("AveragePool", {"x": x}, attributes)
    counted = node_model("AveragePool", {"x": x}, {**attributes, "count_include_pad": 1})
    with pytest.raises(UnsupportedOperatorError, match="its ceil_mode would start in the end pads"):
        gradients_of(counted, {"x": x}, "y", ["x"], x)


@pytest.mark.parametrize("op", ["AveragePool", "LpPool", "GlobalAveragePool", "GlobalLpPool"])
def test_empty_batch(op: str) -> None:
    attributes = {} if op.startswith("Global") else {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}
    check(op, {"x": np.zeros((0, 2, 5))}, attributes)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4), (1, 1, 1), (2, 3, 2, 3, 2)])
def test_global_average(shape: tuple[int, ...]) -> None:
    check("GlobalAveragePool", {"x": rng.standard_normal(shape)})


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1)])
def test_global_norm(shape: tuple[int, ...], p: int) -> None:
    check("GlobalLpPool", {"x": away_from_zero(shape)}, {"p": p})


@pytest.mark.parametrize("op", ["LpPool", "GlobalLpPool"])
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("shapes", SHAPES)
def test_norm_of_nothing_has_no_gradient(op: str, p: int, shapes: str) -> None:
    """A window of zeros: the norm has a kink there, and the gradient is 0, not NaN."""
    x = np.zeros((1, 2, 4), np.float32)
    x[0, 1] = 2.0
    attributes = {"p": p} if op.startswith("Global") else {"p": p, "kernel_shape": [4]}
    model = node_model(op, {"x": x}, attributes, dtype=np.float32, shapes=shapes)
    g = gradients_of(model, {"x": x}, "y", ["x"], np.ones((1, 2, 1), np.float32))["x"]
    np.testing.assert_allclose(g, [[[0] * 4, [4 ** (1 / p - 1)] * 4]], rtol=1e-5)


def test_newest_opset() -> None:
    check("AveragePool", {"x": rng.standard_normal((1, 2, 6))}, {"kernel_shape": [3], "pads": [1, 1]}, opset=25)
    check("LpPool", {"x": away_from_zero((1, 2, 6))}, {"kernel_shape": [3], "strides": [2]}, opset=25)
