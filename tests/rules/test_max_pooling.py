from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.rules import LOWERINGS, Lowering
from tests.gradcheck import SHAPES, check, gradients_of, node_model
from tests.linear import check_linear
from tests.rules.configurations import pool_configuration

rng = np.random.default_rng(0)


def distinct(shape: tuple[int, ...]) -> np.ndarray:
    """All elements well apart, so that every maximum is alone."""
    return rng.permutation(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(float)


@pytest.fixture(params=["indices", "windows"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(LOWERINGS, "generic", Lowering(max_pool=request.param))
    return request.param


@pytest.mark.parametrize(
    ("lengths", "attributes"),
    [
        ((7,), {"kernel_shape": [2], "strides": [2]}),
        ((7,), {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}),
        ((6, 5), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),  # overlapping
        ((6, 5), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "storage_order": 1}),
        ((6, 5), {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [1, 0, 0, 1]}),
        ((6, 5), {"kernel_shape": [2, 1], "strides": [3, 2]}),  # gaps
        ((6, 5), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
        ((6, 5), {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "strides": [2, 3]}),
        ((6, 5), {"kernel_shape": [3, 2], "auto_pad": "VALID", "strides": [2, 3]}),
        ((4, 3, 4), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2], "pads": [0, 1, 1, 0, 0, 2]}),
        ((1,), {"kernel_shape": [1]}),
    ],
)
def test_windows(form: str, lengths: tuple[int, ...], attributes: dict[str, Any]) -> None:
    check("MaxPool", {"x": distinct((2, 3, *lengths))}, attributes)


def test_empty_batch(form: str) -> None:
    check("MaxPool", {"x": np.zeros((0, 3, 6, 5))}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]})


@pytest.mark.parametrize("seed", range(12))
def test_random(form: str, seed: int) -> None:
    attributes, lengths = pool_configuration(seed)
    check("MaxPool", {"x": distinct((2, 2, *lengths))}, attributes,
          shapes=("static", "dynamic") if seed % 3 else ("batch", "unranked"))  # fmt: skip


@pytest.mark.parametrize("order", [0, 1])
def test_a_node_with_indices_of_its_own(order: int) -> None:
    attributes = {"kernel_shape": [2, 2], "pads": [0, 1, 0, 0], "storage_order": order}
    check("MaxPool", {"x": distinct((2, 2, 3, 4))}, attributes, outputs=("y", "indices"))


@pytest.mark.parametrize("shapes", SHAPES)
def test_the_first_maximum_wins(form: str, shapes: str) -> None:
    x = np.asarray([[[[1, 5, 5], [5, 5, 0]]]], np.float32)
    model = node_model("MaxPool", {"x": x}, {"kernel_shape": [2, 2]}, dtype=np.float32, shapes=shapes)
    g = gradients_of(model, {"x": x}, "y", ["x"], np.asarray([[[[1, 10]]]], np.float32))["x"]
    np.testing.assert_array_equal(g, [[[[0, 11, 0], [0, 0, 0]]]])


@pytest.mark.parametrize("shapes", SHAPES)
def test_a_window_of_padding_alone(form: str, shapes: str) -> None:
    """Dilated over one element, the taps fall on both sides of it: no element is the maximum."""
    x = np.asarray([[[3]]], np.float32)
    attributes = {"kernel_shape": [2], "dilations": [2], "pads": [1, 1]}
    model = node_model("MaxPool", {"x": x}, attributes, dtype=np.float32, shapes=shapes)
    g = gradients_of(model, {"x": x}, "y", ["x"], np.ones((1, 1, 1), np.float32))["x"]
    np.testing.assert_array_equal(g, [[[0]]])


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4), (1, 1, 1), (2, 2, 2, 3, 2), (0, 2, 3)])
def test_global(shape: tuple[int, ...]) -> None:
    check("GlobalMaxPool", {"x": distinct(shape)})


@pytest.mark.parametrize("shapes", SHAPES)
def test_global_ties(shapes: str) -> None:
    x = np.asarray([[[[1, 4], [4, 2]], [[0, 0], [0, 0]]]], np.float32)
    model = node_model("GlobalMaxPool", {"x": x}, dtype=np.float32, shapes=shapes)
    g = gradients_of(model, {"x": x}, "y", ["x"], np.asarray([[[[3]], [[2]]]], np.float32))["x"]
    np.testing.assert_array_equal(g, [[[[0, 3], [0, 0]], [[2, 0], [0, 0]]]])


def test_newest_opset() -> None:
    check("MaxPool", {"x": distinct((1, 2, 6))}, {"kernel_shape": [3], "pads": [1, 1]}, opset=25)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("output_shape", [None, [2, 2, 5, 5]])
def test_unpool(output_shape: list[int] | None, shapes: str) -> None:
    x = rng.standard_normal((2, 2, 2, 3))
    size = 2 * 2 * (24 if output_shape is None else 25)
    indices = rng.permutation(size)[: x.size].reshape(x.shape)
    inputs = {"x": x, "i": indices, "shape": None if output_shape is None else np.asarray(output_shape, np.int64)}
    check_linear(
        "MaxUnpool", inputs, {"kernel_shape": [2, 2], "strides": [2, 2]}, constants=("shape",), shapes=(shapes,)
    )


def test_unpool_where_a_later_element_overwrites() -> None:
    inputs = {"x": rng.standard_normal((1, 1, 4)), "i": np.asarray([[[5, 2, 5, 2]]], np.int64)}
    check_linear("MaxUnpool", inputs, {"kernel_shape": [2], "strides": [2]})
    inputs = {"x": np.zeros((0, 1, 4)), "i": np.zeros((0, 1, 4), np.int64)}
    check_linear("MaxUnpool", inputs, {"kernel_shape": [2], "strides": [2]})
