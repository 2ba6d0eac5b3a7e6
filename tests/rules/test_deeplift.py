"""DeepLIFT Rescale: exact for every operator that has a rule, refused for those that have none."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import onnx_ig
from onnx_ig import UnsupportedOperatorError
from tests.gradcheck import Runner

rng = np.random.default_rng(3)


def model(body: str, x: str = "double[N,3]", y: str = "double[N,M]", constants: str = "") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g ({x} x) => ({y} y) {constants} {{ {body} }}')


def multipliers(m: onnx.ModelProto, x: np.ndarray, reference: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
    augmented = onnx_ig.add_gradients(m, rules="deeplift")
    return Runner(augmented)({"x": x, "grad_y": cotangent, "x_reference": reference})[-1]


def check_complete(m: onnx.ModelProto, x: np.ndarray, reference: np.ndarray, rtol: float = 1e-9) -> None:
    forward = Runner(m)
    y, base = forward({"x": x})[0], forward({"x": reference})[0]
    cotangent = rng.standard_normal(y.shape)
    attribution = multipliers(m, x, reference, cotangent) * (x - reference)
    assert np.isfinite(attribution).all()
    expected = float((cotangent * (y - base)).sum())
    assert abs(float(attribution.sum()) - expected) <= rtol * max(1.0, abs(expected), float(np.abs(attribution).sum()))


BODIES = {
    "relu": "y = Relu(x)",
    "sigmoid": "y = Sigmoid(x)",
    "tanh twice": "a = Tanh(x) y = Tanh(a)",
    "leaky": "y = LeakyRelu <alpha = 0.3> (x)",
    "elu": "y = Elu(x)",
    "softplus": "y = Softplus(x)",
    "gelu": "y = Gelu(x)",
    "exp": "y = Exp(x)",
    "square": "y = Mul(x, x)",
    "product": "a = Relu(x) b = Tanh(x) y = Mul(a, b)",
    "quotient": "a = Exp(x) b = Sigmoid(x) y = Div(a, b)",
    "matmul": "t = Transpose(x) a = MatMul(x, t) y = Relu(a)",
    "softmax": "y = Softmax(x)",
    "softmax first axis": "y = Softmax <axis = 0> (x)",
    "log softmax": "y = LogSoftmax(x)",
    "residual": "a = Relu(x) b = Add(a, x) y = Relu(b)",
    "reduce max": "y = ReduceMax <keepdims = 1> (x, k)",
    "mean": "a = Tanh(x) y = ReduceMean <keepdims = 1> (a, k)",
    "gather": "a = Relu(x) y = Gather <axis = 1> (a, k)",
    "layer norm": "y = LayerNormalization <axis = -1> (x, gamma, beta)",
    "layer norm over all": "y = LayerNormalization <axis = 0> (x, gamma, beta)",
}
CONSTANTS = "<int64[1] k = {1}, double[3] gamma = {1.0, -2.0, 0.5}, double[3] beta = {0.1, 0.2, 0.3}>"


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_complete(body: str) -> None:
    m = model(body, constants=CONSTANTS)
    check_complete(m, rng.standard_normal((4, 3)), rng.standard_normal((4, 3)))
    check_complete(m, rng.standard_normal((4, 3)), np.zeros((4, 3)))
    same = rng.standard_normal((2, 3))
    check_complete(m, same, same)


@pytest.mark.parametrize("attributes", ["kernel_shape = [4], strides = [2]", "kernel_shape = [3], pads = [1, 1]"])
def test_max_pool_complete_with_overlaps(attributes: str) -> None:
    m = model(f"y = MaxPool <{attributes}> (x)", x="double[N,2,9]", y="double[N,2,L]")
    check_complete(m, rng.standard_normal((2, 2, 9)), rng.standard_normal((2, 2, 9)))


def test_max_pool_windows_accumulate() -> None:
    """Literal: overlapping windows add up (a released implementation of another library gives 9 at index 2)."""
    m = model("y = MaxPool <kernel_shape = [4], strides = [2]> (x)", x="double[1,1,8]", y="double[1,1,3]")
    x = np.array([[[0, 0, 9, 0, 0, 0, 1, 0]]], float)
    got = multipliers(m, x, np.zeros_like(x), np.ones((1, 1, 3))) * x
    assert got.ravel().tolist() == [0, 0, 18, 0, 0, 0, 1, 0]


def test_max_pool_literal_with_a_falling_maximum() -> None:
    """Literal: windows of four, input of ones against a baseline whose maxima lie elsewhere."""
    m = model("y = MaxPool <kernel_shape = [4]> (x)", x="double[2,1,4]", y="double[2,1,1]")
    base = np.array([[[1, 2, 3, 9]], [[4, 8, 6, 7]]], float)
    x = np.ones_like(base)
    got = multipliers(m, x, base, np.ones((2, 1, 1))) * (x - base)
    assert got[:, 0].tolist() == [[0, 0, 0, -8], [0, -7, 0, 0]]


EQUIVALENT = {  # f and g compute the same function: Axiomatic Attribution for Deep Networks, section 2.2 / figure 7
    "f": ("a = Relu(x) c = MatMul(a, w) d = Add(c, minus) y = Relu(d)", [1.5, -0.5]),
    "g": ("s = Sub(x, shift) a = Relu(s) c = MatMul(a, w) y = Relu(c)", [2.0, -1.0]),
}


@pytest.mark.parametrize("name", EQUIVALENT)
def test_equivalent_networks_differ(name: str) -> None:
    """The paper's pair: Rescale is not implementation invariant, (1.5, -0.5) for one and (2, -1) for the other."""
    body, expected = EQUIVALENT[name]
    constants = "<double[2,1] w = {1.0, -1.0}, double[1] minus = {-1.0}, double[2] shift = {1.0, 0.0}>"
    m = model(body, x="double[N,2]", y="double[N,1]", constants=constants)
    x = np.array([[3.0, 1.0]])
    got = multipliers(m, x, np.zeros_like(x), np.ones((1, 1))) * x
    np.testing.assert_allclose(got, [expected], rtol=1e-12)


def test_what_has_no_exact_rule_is_refused() -> None:
    m = model("a = ReduceProd <keepdims = 1> (x, k) y = Add(a, a)", constants=CONSTANTS)
    with pytest.raises(UnsupportedOperatorError, match="ReduceProd"):
        onnx_ig.add_gradients(m, rules="deeplift")


def test_choosing_by_the_input_is_refused() -> None:
    m = model("k0 = Greater(x, z) y = Where(k0, x, z)", constants="<double[1] z = {0.0}>")
    with pytest.raises(UnsupportedOperatorError, match="condition depends on the input"):
        onnx_ig.add_gradients(m, rules="deeplift")
