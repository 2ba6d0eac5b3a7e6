"""The networks in JAX, channels last, exported by jax2onnx and attributed by jax.grad: run as a module."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from jax2onnx import to_onnx

from .shared import EPSILON, HEADS, NETWORKS, UNITS, WIDTH, Array, Gradient, Weights, attributions, digits, write

Function = Callable[[Any], Any]


def cnn(w: Weights) -> Function:
    """image [N, 8, 8, 1] -> [N, 10]."""
    kernels = [w[f"conv{i}.weight"].transpose(2, 3, 1, 0) for i in (1, 2)]
    scale = w["norm.weight"] / np.sqrt(w["norm.running_var"] + EPSILON)
    head = w["head.weight"].reshape(10, 16, 2, 2).transpose(2, 3, 1, 0).reshape(64, 10)

    def convolve(x: Any, kernel: Array, bias: Array) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, jnp.asarray(kernel), (1, 1), "SAME", dimension_numbers=layout) + bias

    def pool(x: Any) -> Any:
        return x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2, x.shape[3]).mean((2, 4))

    def function(image: Any) -> Any:
        x = (convolve(image, kernels[0], w["conv1.bias"]) - w["norm.running_mean"]) * scale + w["norm.bias"]
        x = pool(nn.silu(convolve(pool(nn.silu(x)), kernels[1], w["conv2.bias"])))
        return x.reshape(x.shape[0], 64) @ head + w["head.bias"]

    return function


def lstm(w: Weights) -> Function:
    """rows [N, 8, 8] -> [N, 10] by lax.scan over the rows; gates in PyTorch's order."""
    bias = w["cell.bias_ih_l0"] + w["cell.bias_hh_l0"]
    given, state = w["cell.weight_ih_l0"].T, w["cell.weight_hh_l0"].T

    def step(carried: tuple[Any, Any], x: Any) -> tuple[tuple[Any, Any], None]:
        h, c = carried
        i, f, g, o = jnp.split(x @ given + h @ state + bias, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return (nn.sigmoid(o) * jnp.tanh(c), c), None

    def function(rows: Any) -> Any:
        zero = jnp.zeros((rows.shape[0], UNITS), rows.dtype)
        (h, _), _ = lax.scan(step, (zero, zero), jnp.swapaxes(rows, 0, 1))
        return h @ w["head.weight"].T + w["head.bias"]

    return function


def attention(w: Weights) -> Function:
    """rows [N, 8, 8] -> [N, 10], attention written with einsum; GELU in its tanh form, JAX's own."""

    def dense(x: Any, name: str) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return (
            centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * w[f"{name}.weight"]
            + w[f"{name}.bias"]
        )

    def function(rows: Any) -> Any:
        x = dense(rows, "embed") + w["positions"]
        q, k, v = (
            y.reshape(y.shape[0], 8, HEADS, WIDTH // HEADS)
            for y in jnp.split(dense(norm(x, "norm1"), "qkv"), 3, axis=2)
        )
        weight = nn.softmax(jnp.einsum("nqhd,nkhd->nhqk", q, k) / np.sqrt(WIDTH // HEADS).item(), axis=-1)
        mixed = jnp.einsum("nhqk,nkhd->nqhd", weight, v)
        x = x + dense(mixed.reshape(mixed.shape[0], 8, WIDTH), "out")
        x = x + dense(nn.gelu(dense(norm(x, "norm2"), "up")), "down")
        return dense(x.mean(1), "head")

    return function


BUILDERS = {"cnn": cnn, "lstm": lstm, "attention": attention}


def slope(function: Function, target: Array) -> Gradient:
    """The gradient of each row's target, by jax.grad."""
    chosen = np.eye(10)[target]
    gradient = jax.jit(jax.grad(lambda x: (function(x) * chosen).sum()))
    return lambda points: np.asarray(gradient(jnp.asarray(points)))


def main(folder: Path, weights: Path) -> None:
    """Write files and references of every network; prints lines."""
    images, _, _, chosen = digits()
    with np.load(weights, allow_pickle=False) as file:
        saved = dict(file)
    packages = ("jax", "jax2onnx", "onnx", "onnxruntime", "numpy")
    for name in NETWORKS:
        w = {k.removeprefix(f"{name}."): v for k, v in saved.items() if k.startswith(f"{name}.")}
        x = images[chosen]
        label, x = ("image", x[..., None]) if name == "cnn" else ("rows", x)
        shape = jax.ShapeDtypeStruct(("N", *x.shape[1:]), jnp.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            proto = to_onnx(BUILDERS[name](w), [shape], input_names=[label], output_names=["logits"])
        with jax.enable_x64(True):
            function = BUILDERS[name]({k: v.astype(np.float64) for k, v in w.items()})
            logits = np.asarray(function(jnp.asarray(x, jnp.float64)))
            references = attributions(slope(function, logits.argmax(1)), label, x)
        said = write(
            folder, name, "jax", {"jax": proto}, {label: x}, logits, references, packages, "jax.grad, in float64"
        )
        print("\n".join(said), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
