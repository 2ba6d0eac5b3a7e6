"""Small networks in JAX, as functions and as a Flax module, with weights and rows to explain from fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax, nn
from numpy.typing import NDArray

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A function of batches and rows for each of its arguments; `smooth`: no ReLU and no maximum inside.

    `axes` gives the symbolic dimensions. `tokens` is the function of the embedded tokens and the table, where the
    argument is integer.
    """

    function: Function
    feeds: dict[str, NDArray[Any]]
    axes: dict[str, dict[int, str]]
    smooth: bool = True
    tokens: tuple[Function, Any] | None = None


class Weights:
    """Arrays of standard normal numbers over the square root of their first size or its product, in order."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Any:
        size = int(np.prod(shape[:-1])) or 1
        return jnp.asarray((self._rng.standard_normal(shape) / np.sqrt(size)).astype(np.float32))


def _rows(**shapes: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal((3, *shape)).astype(np.float32) for name, shape in shapes.items()}


def _batch(feeds: dict[str, NDArray[Any]]) -> dict[str, dict[int, str]]:
    return {name: {0: "N"} for name in feeds}


def _convolve(x: Any, w: Any, stride: int = 1, padding: Any = "SAME", groups: int = 1) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding, dimension_numbers=layout, feature_group_count=groups
    )


def _norm(x: Any, axes: tuple[int, ...] | int, scale: Any, shift: Any) -> Any:
    mean = x.mean(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(axes, keepdims=True) + 1e-5) * scale + shift


def cnn(activation: Function, pool: Function, smooth: bool) -> Case:
    """image [N, 16, 16, 3] -> [N, 4]: convolutions, a residual, a depthwise one at stride 2."""
    w = Weights(1)
    first, second, depth, point, head = w(3, 3, 3, 8), w(3, 3, 8, 8), w(3, 3, 1, 8), w(1, 1, 8, 8), w(8, 4)
    scale, shift = 1 + w(8), w(8)

    def function(image: Any) -> Any:
        x = activation(_convolve(image, first) * scale + shift)
        x = pool(activation(x + _convolve(x, second)), (3, 3), (2, 2), "SAME")
        x = activation(_convolve(_convolve(x, depth, 2, groups=8), point))
        return x.mean((1, 2)) @ head + shift[:4]

    feeds = _rows(image=(16, 16, 3))
    return Case(function, feeds, _batch(feeds), smooth)


def mlp() -> Case:
    """x [N, 10] -> [N, 4]."""
    w = Weights(2)
    a, b, c, d, scale, shift = w(10, 16), w(16), w(16, 12), w(12, 4), 1 + w(16), w(16)

    def function(x: Any) -> Any:
        h = nn.gelu(x @ a + b, approximate=False)
        h = nn.silu(_norm(h, -1, scale, shift) @ c)
        return nn.log_softmax(jnp.tanh(nn.softplus(h) - nn.elu(h)) @ d)

    feeds = _rows(x=(10,))
    return Case(function, feeds, _batch(feeds))


def transformer() -> Case:
    """x [N, 7, 8] -> [N, 3]: two heads written with einsum, feed-forward, norms."""
    w = Weights(3)
    qkv, out, up, down, head = w(8, 3, 2, 4), w(2, 4, 8), w(8, 16), w(16, 8), w(8, 3)
    scale, shift = 1 + w(8), w(8)

    def function(x: Any) -> Any:
        q, k, v = jnp.moveaxis(jnp.einsum("ntd,dchk->ntchk", x, qkv), 2, 0)
        weight = nn.softmax(jnp.einsum("nqhk,nthk->nhqt", q, k) / 2, axis=-1)
        x = _norm(x + jnp.einsum("nhqt,nthk,hkd->nqd", weight, v, out), -1, scale, shift)
        x = x + nn.gelu(x @ up) @ down
        return x.mean(1) @ head

    feeds = _rows(x=(7, 8))
    return Case(function, feeds, _batch(feeds))


def recurrent() -> Case:
    """x [N, 6, 5] -> [N, 3]: a gated cell by lax.scan over time."""
    w = Weights(4)
    wx, wh, b, head = w(5, 24), w(6, 24), w(24), w(6, 3)

    def cell(state: tuple[Any, Any], x: Any) -> tuple[tuple[Any, Any], None]:
        h, c = state
        i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return (nn.sigmoid(o) * jnp.tanh(c), c), None

    def function(x: Any) -> Any:
        zero = jnp.zeros((x.shape[0], 6), x.dtype)
        (h, _), _ = lax.scan(cell, (zero, zero), jnp.swapaxes(x, 0, 1))
        return h @ head

    feeds = _rows(x=(6, 5))
    return Case(function, feeds, _batch(feeds))


def text_cnn() -> Case:
    """ids [N, 9] -> [N, 2]: embedding, a convolution over three tokens, the maximum over time."""
    w = Weights(5)
    table, kernel, head = 3 * w(20, 8), w(3, 8, 6), w(6, 2)

    def rest(x: Any) -> Any:
        y = lax.conv_general_dilated(x, kernel, (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"))
        return nn.relu(y).max(1) @ head

    ids = np.stack([np.random.default_rng(n).permutation(np.arange(1, 20, dtype=np.int32))[:9] for n in range(3)])
    return Case(lambda ids: rest(table[ids]), {"ids": ids}, {"ids": {0: "N"}}, False, (rest, table))


def tabular() -> Case:
    """dense [N, 6], sparse [N, 4] -> [N, 2]."""
    w = Weights(6)
    a, b, head, scale = w(6, 8), w(4, 8), w(16, 2), 1 + w(8)

    def function(dense: Any, sparse: Any) -> Any:
        x, y = jnp.tanh(dense @ a), nn.softplus(sparse @ b)
        return jnp.concatenate([x * y, jnp.exp(-((x - y) ** 2)) * scale], 1) @ head

    feeds = _rows(dense=(6,), sparse=(4,))
    return Case(function, feeds, _batch(feeds))


def signal() -> Case:
    """x [N, 20, 2] -> [N, 3]: dilated causal convolutions, a sum of squares over time."""
    w = Weights(7)
    first, second, head = w(3, 2, 6), w(3, 6, 6), w(6, 3)

    def causal(x: Any, kernel: Any, dilation: int) -> Any:
        return lax.conv_general_dilated(
            x, kernel, (1,), [(2 * dilation, 0)], rhs_dilation=(dilation,), dimension_numbers=("NHC", "HIO", "NHC")
        )

    def function(x: Any) -> Any:
        x = jnp.tanh(causal(x, first, 1))
        x = nn.sigmoid(causal(x, second, 2)) * x
        return jnp.sqrt((x**2).sum(1) + 1e-3) @ head

    feeds = _rows(x=(20, 2))
    return Case(function, feeds, _batch(feeds))


def unet() -> Case:
    """image [3, 8, 12, 1] -> [3, 8, 12, 2]: up by a transposed convolution and by bilinear resizing.

    jax2onnx 0.17 exports the resizing with a fixed batch only.
    """
    w = Weights(8)
    first, second, up, last = w(3, 3, 1, 4), w(3, 3, 4, 8), w(2, 2, 8, 4), w(1, 1, 16, 2)

    def function(image: Any) -> Any:
        a = nn.silu(_convolve(image, first))
        b = nn.silu(_convolve(a, second, 2))
        c = lax.conv_transpose(b, up, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        d = jax.image.resize(b, (b.shape[0], 8, 12, 8), "bilinear", antialias=False)
        return _convolve(jnp.concatenate([jnp.tanh(c), a, d], 3), last)

    return Case(function, _rows(image=(8, 12, 1)), {"image": {}})


class Perceptron(nnx.Module):
    """x [N, 10] -> [N, 4] with Flax's own layers."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.norm = nnx.Linear(10, 16, rngs=rngs), nnx.LayerNorm(16, rngs=rngs)
        self.dropout, self.second = nnx.Dropout(0.2, rngs=rngs, deterministic=True), nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.second(self.dropout(nnx.gelu(self.norm(self.first(x)))))


def flax() -> Case:
    """The Flax module."""
    feeds = _rows(x=(10,))
    return Case(Perceptron(nnx.Rngs(0)), feeds, _batch(feeds))


CASES: dict[str, Callable[[], Case]] = {
    "cnn": lambda: cnn(nn.silu, nnx.avg_pool, True),
    "cnn_relu": lambda: cnn(nn.relu, nnx.max_pool, False),
    "mlp": mlp,
    "transformer": transformer,
    "recurrent": recurrent,
    "text_cnn": text_cnn,
    "tabular": tabular,
    "signal": signal,
    "unet": unet,
    "flax": flax,
}
