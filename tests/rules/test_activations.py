from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.rules import LOWERINGS, Lowering
from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(3)
OPS: list[tuple[str, dict[str, Any], int]] = [
    ("Relu", {}, 20),
    ("LeakyRelu", {}, 20),
    ("LeakyRelu", {"alpha": -0.3}, 20),
    ("Elu", {}, 20),
    ("Elu", {"alpha": 0.7}, 22),
    ("Selu", {}, 20),
    ("Selu", {"alpha": 1.2, "gamma": 0.9}, 22),
    ("Celu", {}, 28),
    ("Celu", {"alpha": 0.6}, 28),
    ("Gelu", {}, 20),
    ("Gelu", {"approximate": "tanh"}, 20),
    ("HardSigmoid", {}, 20),
    ("HardSigmoid", {"alpha": 0.6, "beta": 0.4}, 22),
    ("HardSwish", {}, 22),
    ("Softplus", {}, 22),
    ("Sigmoid", {}, 20),
    ("Tanh", {}, 20),
    ("Softsign", {}, 22),
    ("Mish", {}, 20),
    ("Mish", {}, 22),
    ("Swish", {}, 24),
    ("Swish", {"alpha": 1.7}, 24),
    ("ThresholdedRelu", {}, 20),
    ("ThresholdedRelu", {"alpha": -0.2}, 22),
]


def slope(op: str, x: list[float], attributes: dict[str, Any], opset: int = 20, dtype: Any = np.float64) -> np.ndarray:
    """The derivative at every x."""
    point = np.array(x, dtype)
    model = node_model(op, {"x": point}, attributes, dtype=dtype, opset=opset)
    return gradients_of(model, {"x": point}, "y", ["x"], np.ones_like(point))["x"]


@pytest.mark.parametrize(("op", "attributes", "opset"), OPS)
def test_activation(op: str, attributes: dict[str, Any], opset: int) -> None:
    check(op, {"x": 2 * rng.standard_normal((3, 4))}, attributes, opset=opset)
    check(op, {"x": np.array(0.37)}, attributes, opset=opset, shapes=["static"])
    check(op, {"x": np.zeros((0, 2))}, attributes, opset=opset, shapes=["static"])


@pytest.mark.parametrize(("op", "attributes", "opset"), OPS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_far_out_the_slope_is_the_asymptote(op: str, attributes: dict[str, Any], opset: int, dtype: Any) -> None:
    far = 6e4 if dtype == np.float16 else 1e30
    got = slope(op, [-far, far], attributes, opset, dtype)
    alpha = attributes.get("alpha")
    right = {
        "Selu": attributes.get("gamma", 1.0507010221481323),
        "HardSigmoid": 0,
        "Sigmoid": 0,
        "Tanh": 0,
        "Softsign": 0,
    }
    left = {"LeakyRelu": alpha or 0.01}
    assert got.dtype == dtype
    np.testing.assert_allclose(got, [left.get(op, 0), right.get(op, 1)], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attributes", "x", "expected"),
    [
        ("Relu", {}, [0.0, -0.0], [0, 0]),
        ("LeakyRelu", {"alpha": 0.25}, [0.0, -0.0], [0.25, 0.25]),
        ("Elu", {"alpha": 0.25}, [0.0], [0.25]),
        ("HardSigmoid", {"alpha": 0.5, "beta": 0.5}, [-1.0, 1.0], [0, 0]),
        ("HardSwish", {}, [-3.0, 3.0], [0, 1]),
        ("ThresholdedRelu", {"alpha": 1.0}, [1.0], [0]),
        ("Shrink", {"lambd": 0.5}, [0.5, -0.5], [0, 0]),
        ("Softsign", {}, [0.0], [1]),
        ("Gelu", {}, [0.0], [0.5]),
        ("Gelu", {"approximate": "tanh"}, [0.0], [0.5]),
    ],
)
def test_kinks(op: str, attributes: dict[str, Any], x: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(slope(op, x, attributes), expected, rtol=1e-15)


@pytest.mark.parametrize("attributes", [{}, {"lambd": 0.3, "bias": 0.2}, {"lambd": -0.1}])
def test_shrink(attributes: dict[str, Any]) -> None:
    """ONNX Runtime's Shrink is float32 inside, so the step is wide."""
    x = np.array([[-2, -0.7, -0.2], [0.1, 0.9, 4]])
    check("Shrink", {"x": x}, attributes, step=1e-2, rtol=1e-4)
    assert slope("Shrink", [-1e30, 1e30], attributes).tolist() == [1, 1]


@pytest.mark.parametrize("opset", [20, 28])
def test_celu_in_float32(opset: int) -> None:
    """Up to opset 27 Celu is float32 only."""
    x = [-2.0, -0.5, 0, 1e30]
    got = slope("Celu", x, {"alpha": 0.25}, opset, np.float32)
    np.testing.assert_allclose(got, [np.exp(-8), np.exp(-2), 1, 1], rtol=1e-6)


@pytest.mark.parametrize("slope_shape", [(2, 3), (3,), (1,), (2, 1), ()])
def test_prelu(slope_shape: tuple[int, ...]) -> None:
    check("PRelu", {"x": rng.standard_normal((2, 3)), "slope": rng.standard_normal(slope_shape)})


def test_prelu_takes_the_slope_at_zero() -> None:
    feeds = {"x": np.zeros(2), "slope": np.array([0.25, -3])}
    got = gradients_of(node_model("PRelu", feeds), feeds, "y", ["x", "slope"], np.ones(2))
    assert got["x"].tolist() == [0.25, -3]
    assert got["slope"].tolist() == [0, 0]


@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_swiglu(alpha: float) -> None:
    inputs = {"a": rng.standard_normal((2, 3)), "b": rng.standard_normal((2, 3))}
    check("SwiGLU", inputs, {"alpha": alpha}, opset=28)


@pytest.mark.parametrize("form", ["mul", "where"])
def test_forms_of_the_gate(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that selects stops an infinite cotangent, one that multiplies makes it NaN, so that it is seen."""
    monkeypatch.setitem(LOWERINGS, "generic", Lowering(relu_gate=form))
    feeds = {"x": np.array([-1.0, 1.0], np.float32)}
    model = node_model("Relu", feeds, dtype=np.float32)
    got = gradients_of(model, feeds, "y", ["x"], np.array([np.inf, 3.0], np.float32))["x"]
    np.testing.assert_array_equal(got, [0.0 if form == "where" else np.nan, 3.0])
