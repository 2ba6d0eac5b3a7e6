"""Control flow of JAX as jax2onnx writes it, against jax.vjp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import onnx_ig
from tests.gradcheck import Runner

jax = pytest.importorskip("jax")
jax2onnx = pytest.importorskip("jax2onnx")
jnp, lax = jax.numpy, jax.lax
pytestmark = [
    pytest.mark.framework,
    pytest.mark.filterwarnings("ignore"),  # of the exporter
]
WEIGHTS = jnp.asarray(np.random.default_rng(0).standard_normal((4, 4)) * 0.5, jnp.float32)


def scanned(x: Any) -> Any:
    def step(h: Any, row: Any) -> tuple[Any, Any]:
        h = jnp.tanh(h @ WEIGHTS + row)
        return h, h * row

    last, ys = lax.scan(step, jnp.zeros(4), x)
    return ys + last


def nested(x: Any) -> Any:
    def outer(total: Any, block: Any) -> tuple[Any, Any]:
        inner, _ = lax.scan(lambda h, row: (jnp.tanh(h + row), None), total, block.reshape(2, 2))
        return total + inner, None

    return lax.scan(outer, jnp.zeros(2), x)[0]


def mapped(x: Any) -> Any:
    return lax.map(lambda row: jnp.tanh(row @ WEIGHTS), x)


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, s: jnp.sin(s @ WEIGHTS) * 1.2 + i * 0.1, x)


def conditional(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: v * jnp.sin(v), lambda v: jnp.exp(v), x)


@pytest.mark.parametrize("scale", [1.0, -1.0])
@pytest.mark.parametrize("function", [scanned, nested, mapped, counted, conditional])
def test_gradients(function: Callable[[Any], Any], scale: float) -> None:
    rng = np.random.default_rng(1)
    x = (rng.random((5, 4)) * scale).astype(np.float32)
    y, pullback = jax.vjp(function, jnp.asarray(x))
    cotangent = rng.standard_normal(y.shape).astype(np.float32)
    (expected,) = pullback(jnp.asarray(cotangent))
    shape = jax.ShapeDtypeStruct(x.shape, np.float32)
    model = jax2onnx.to_onnx(function, [shape], input_names=["x"], output_names=["y"])
    value, gradient = Runner(onnx_ig.add_gradients(model, of="y", wrt="x"))({"x": x, "grad_y": cotangent})
    np.testing.assert_allclose(value, y, atol=1e-5)
    np.testing.assert_allclose(gradient, expected, atol=1e-5 * float(jnp.abs(expected).max()))


def test_a_loop_that_stops_at_a_condition() -> None:
    """JAX has no reverse mode for it; forward mode gives the directional derivative."""

    def function(x: Any) -> Any:
        return lax.while_loop(lambda s: jnp.abs(s).sum() < 20.0, lambda s: s * 1.5 + jnp.sin(s), x)

    rng = np.random.default_rng(2)
    x, direction = rng.random(4).astype(np.float32), rng.standard_normal(4).astype(np.float32)
    y, tangent = jax.jvp(function, (jnp.asarray(x),), (jnp.asarray(direction),))
    cotangent = rng.standard_normal(4).astype(np.float32)
    shape = jax.ShapeDtypeStruct(x.shape, np.float32)
    model = jax2onnx.to_onnx(function, [shape], input_names=["x"], output_names=["y"])
    value, gradient = Runner(onnx_ig.add_gradients(model, of="y", wrt="x"))({"x": x, "grad_y": cotangent})
    np.testing.assert_allclose(value, y, rtol=1e-5)
    np.testing.assert_allclose(float(gradient @ direction), float(tangent @ cotangent), rtol=1e-4)
