"""Attributions whose values are known: from the papers, or by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import parser

import onnx_ig
from onnx_ig.quadrature import nodes_and_weights
from tests.cases.models import attribute, model, served

pytestmark = pytest.mark.filterwarnings("ignore::onnx_ig.OnnxIgWarning")

F = model("a = Relu(x1) b = Sub(a, one) c = Relu(x2) d = Sub(b, c) y = Relu(d)")
G = model("a = Sub(x1, one) b = Relu(a) c = Relu(x2) d = Sub(b, c) y = Relu(d)")
MIN_BY_RELU = model("a = Sub(x1, x2) b = Relu(a) y = Sub(x1, b)")
MIN = model("y = Min(x1, x2)")
FINE = {"n_steps": 3000, "quadrature": "riemann_middle"}


@pytest.mark.parametrize("network", [F, G], ids=["f", "g"])
def test_two_forms_of_one_function(network: Any) -> None:
    """Axiomatic Attribution for Deep Networks, the pair of equivalent networks at (3, 1)."""
    np.testing.assert_allclose(attribute(network, [[3, 1]], **FINE)["x"], [[1.5, -0.5]], atol=2e-3)
    assert attribute(network, [[3, 1]], "gradient")["x"].tolist() == [[1, -1]]
    assert attribute(network, [[3, 1]], "gradient_x_input")["x"].tolist() == [[3, -1]]
    assert attribute(network, [[3, 1]]).prediction.tolist() == [1]


def test_g_at_other_points() -> None:
    start = np.array([[1.0, 0.0]])
    np.testing.assert_allclose(attribute(G, [[2, 0]], baselines=start)["x"], [[1, 0]], atol=1e-12)
    np.testing.assert_allclose(attribute(G, [[3, 0]], baselines=start)["x"], [[2, 0]], atol=1e-12)
    assert attribute(G, [[-10, -5]])["x"].tolist() == [[0, 0]]


def test_saturation() -> None:
    """1 - relu(1 - x) at 2: the gradient is zero, the attribution 1."""
    network = model("a = Sub(one, x1) b = Relu(a) y = Sub(one, b)", features=1)
    np.testing.assert_allclose(attribute(network, [[2]], **FINE)["x"], [[1]], atol=1e-3)
    assert attribute(network, [[2]], "gradient")["x"].tolist() == [[0]]


@pytest.mark.parametrize("network", [MIN_BY_RELU, MIN], ids=["by relu", "Min"])
def test_minimum(network: Any) -> None:
    got = attribute(network, [[1, 2], [1, 3], [2, 1]])["x"]
    np.testing.assert_allclose(got, [[1, 0], [1, 0], [0, 1]], atol=1e-12)


POLYNOMIALS = {
    "x1 x2": ("y = Mul(x1, x2)", [3, 3], [6, 6]),
    "x1^2 x2": ("a = Mul(x1, x1) y = Mul(a, x2)", [8, 4], [24, 12]),
    "x1^2 x2^3": ("a = Mul(x1, x1) b = Mul(x2, x2) c = Mul(b, x2) y = Mul(a, c)", [43.2, 64.8], [216, 324]),
    "x1^3 + x1 x2": ("a = Mul(x1, x1) b = Mul(a, x1) c = Mul(x1, x2) y = Add(b, c)", [11, 3], [30, 6]),
}


@pytest.mark.parametrize(("body", "integrated", "product"), POLYNOMIALS.values(), ids=POLYNOMIALS)
def test_polynomials(body: str, integrated: list[float], product: list[float]) -> None:
    network = model(body)
    np.testing.assert_allclose(attribute(network, [[2, 3]])["x"], [integrated], rtol=1e-12)
    np.testing.assert_allclose(served(network, [[2, 3]]), [integrated], rtol=1e-12)
    np.testing.assert_allclose(attribute(network, [[2, 3]], "gradient_x_input")["x"], [product], rtol=1e-12)


def test_product_of_three() -> None:
    network = model("a = Mul(x1, x2) y = Mul(a, x3)", features=3)
    np.testing.assert_allclose(attribute(network, [[2, 3, 5]])["x"], [[10, 10, 10]], rtol=1e-12)
    np.testing.assert_allclose(attribute(network, [[2, 3, 5]], "gradient_x_input")["x"], [[30, 30, 30]], rtol=1e-12)


def pooled(attributes: str, length: int) -> Any:
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 17]> g (float[N,1,{length}] x) => (float[N,1] y) <int64[1] last = {{2}}> '
        f"{{ p = MaxPool <{attributes}> (x) y = ReduceSum <keepdims = 0> (p, last) }}"
    )


def test_max_pool_falling_from_the_baseline() -> None:
    network = pooled("kernel_shape = [4]", 4)
    x = np.ones((2, 1, 4), np.float32)
    base = np.array([[[1, 2, 3, 9]], [[4, 8, 6, 7]]], np.float32)
    got = onnx_ig.Explainer(network).attribute(x, base, target=0, n_steps=50)["x"]
    np.testing.assert_allclose(got[:, 0], [[0, 0, 0, -8], [0, -7, 0, 0]], atol=1e-5)


def test_max_pool_with_overlapping_windows() -> None:
    network = pooled("kernel_shape = [4], strides = [2]", 8)
    x = np.array([[[0, 0, 9, 0, 0, 0, 1, 0]]], np.float32)
    a = onnx_ig.Explainer(network).attribute(x, target=0, n_steps=50)
    assert a.prediction.tolist() == [19]
    np.testing.assert_allclose(a["x"].ravel(), [0, 0, 18, 0, 0, 0, 1, 0], atol=1e-5)


def test_square_roots() -> None:
    """Gauss-Legendre with 50 steps beside the exact (2, 3): the integrand is infinite at the baseline."""
    network = model("a = Sqrt(x1) b = Sqrt(x2) y = Add(a, b)")
    np.testing.assert_allclose(attribute(network, [[4, 9]])["x"], [[1.983, 2.974]], atol=1e-3)
    with pytest.warns(onnx_ig.OnnxIgWarning, match="NaN or infinity"):
        onnx_ig.Explainer(network).attribute(np.array([[4.0, 9.0]]), target=0, n_steps=4, quadrature="riemann_left")


def test_sigmoid_and_softmax() -> None:
    network = model("a = Add(x1, x2) y = Sigmoid(a)")
    np.testing.assert_allclose(attribute(network, [[1, 3]])["x"], [[0.1205, 0.36151]], atol=1e-4)
    soft = model("y = Softmax(x)", features=3, outputs=3)
    got = attribute(soft, [[1, 2, 3]], target=2)["x"]
    np.testing.assert_allclose(got, [[-0.09138, -0.29829, 0.72158]], atol=1e-5)
    assert math.isclose(float(got.sum()), 0.33191, abs_tol=1e-5)


def test_other_baselines() -> None:
    mixed = model("a = Mul(x1, five) b = Mul(x2, x2) c = Sin(x3) d = Add(a, b) y = Add(d, c)", features=3)
    got = attribute(mixed, [[1, 2, 3]], baselines=np.array([0.5, 1, 1]))["x"]
    np.testing.assert_allclose(got, [[2.5, 3, -0.70035]], atol=1e-5)
    square = model("a = Mul(x1, two) b = Add(a, x2) y = Mul(b, b)")
    np.testing.assert_allclose(attribute(square, [[3, 3]])["x"], [[54, 27]], rtol=1e-12)
    linear = model("a = Mul(x1, two) y = Add(a, x2)")
    got = attribute(linear, [[10, 5]], baselines=np.array([-1.0, -3.0]))["x"]
    np.testing.assert_allclose(got, [[22, 8]], rtol=1e-12)


def test_expected_gradients() -> None:
    network = model("y = Mul(x1, x1)", features=1)
    got = attribute(network, [[3]], "expected_gradients", references={"x": np.array([[0.0], [1.0]])})
    np.testing.assert_allclose(got["x"], [[8.5]], rtol=1e-12)
    np.testing.assert_allclose(got.convergence_delta, [0], atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "n", "nodes", "weights"),
    [
        ("riemann_left", 4, [0, 0.25, 0.5, 0.75], [0.25] * 4),
        ("riemann_right", 4, [0.25, 0.5, 0.75, 1], [0.25] * 4),
        ("riemann_middle", 4, [0.125, 0.375, 0.625, 0.875], [0.25] * 4),
        ("riemann_trapezoid", 4, [0, 1 / 3, 2 / 3, 1], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        ("gausslegendre", 2, [0.2113, 0.7887], [0.5, 0.5]),
    ],
)
def test_quadrature(rule: str, n: int, nodes: list[float], weights: list[float]) -> None:
    got = nodes_and_weights(rule, n)
    np.testing.assert_allclose(got[0], nodes, atol=5e-5)
    np.testing.assert_allclose(got[1], weights, atol=1e-12)
