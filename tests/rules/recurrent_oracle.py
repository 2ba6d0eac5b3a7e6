"""RNN, GRU and LSTM of the ONNX standard in numpy, float64: the forward that the gradient tests difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Activation = Callable[[Array], Array]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def _sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


FUNCTIONS: dict[str, Callable[[float, float], Activation]] = {
    "sigmoid": lambda a, b: _sigmoid,
    "tanh": lambda a, b: np.tanh,
    "relu": lambda a, b: lambda z: np.maximum(z, 0),
    "affine": lambda a, b: lambda z: a * z + b,
    "leakyrelu": lambda a, b: lambda z: np.where(z >= 0, z, a * z),
    "thresholdedrelu": lambda a, b: lambda z: np.where(z > a, z, 0),
    "scaledtanh": lambda a, b: lambda z: a * np.tanh(b * z),
    "hardsigmoid": lambda a, b: lambda z: np.clip(a * z + b, 0, 1),
    "elu": lambda a, b: lambda z: np.where(z >= 0, z, a * (np.exp(z) - 1)),
    "softsign": lambda a, b: lambda z: z / (1 + np.abs(z)),
    "softplus": lambda a, b: lambda z: np.log1p(np.exp(z)),
}
ALPHA = {"affine": 1.0, "leakyrelu": 0.01, "thresholdedrelu": 1.0, "scaledtanh": 1.0, "hardsigmoid": 0.2, "elu": 1.0}
BETA = {"affine": 0.0, "scaledtanh": 1.0, "hardsigmoid": 0.5}


def activations(op: str, count: int, attributes: dict[str, Any]) -> list[Activation]:
    """All functions of all directions; alphas and betas go to those that take one, in order."""
    alphas = list(attributes.get("activation_alpha", []))
    betas = list(attributes.get("activation_beta", []))
    found = []
    for name in attributes.get("activations", DEFAULTS[op] * count):
        key = name.lower()
        alpha = (alphas.pop(0) if alphas else ALPHA[key]) if key in ALPHA else 0.0
        beta = (betas.pop(0) if betas else BETA[key]) if key in BETA else 0.0
        found.append(FUNCTIONS[key](alpha, beta))
    return found


def run(op: str, inputs: dict[str, Array | None], attributes: dict[str, Any]) -> list[Array]:
    """[Y, Y_h] (and Y_c of LSTM); `inputs` by the names of the standard: X, W, R, B, sequence_lens, initial_h ..."""
    x, w, r = (np.asarray(inputs[k]) for k in "XWR")
    batch_first = attributes.get("layout", 0) == 1
    if batch_first:
        x = x.swapaxes(0, 1)
    steps, batch, _ = x.shape
    directions, hidden = w.shape[0], r.shape[-1]
    lengths = inputs.get("sequence_lens")
    lengths = np.full(batch, steps) if lengths is None else np.asarray(lengths)
    functions = activations(op, directions, attributes)
    each = len(functions) // directions
    kind = attributes.get("direction", "forward")

    def state(name: str) -> Array:
        given = inputs.get(name)
        if given is None:
            return np.zeros((directions, batch, hidden))
        return np.asarray(given).swapaxes(0, 1) if batch_first else np.asarray(given)

    h0, c0 = state("initial_h"), state("initial_c")
    y = np.zeros((steps, directions, batch, hidden))
    y_h, y_c = h0.copy(), c0.copy()
    for d in range(directions):
        backwards = kind == "reverse" or d == 1
        for n in range(batch):
            h, s = h0[d, n], c0[d, n]
            order = range(int(lengths[n]))
            for t in reversed(order) if backwards else order:
                h, s = _step(op, x[t, n], h, s, d, inputs, attributes, functions[d * each : (d + 1) * each])
                y[t, d, n] = h
            if lengths[n] == 0:
                h, s = np.zeros(hidden), np.zeros(hidden)
            y_h[d, n], y_c[d, n] = h, s
    if batch_first:
        y, y_h, y_c = y.transpose(2, 0, 1, 3), y_h.swapaxes(0, 1), y_c.swapaxes(0, 1)
    return [y, y_h, y_c] if op == "LSTM" else [y, y_h]


def _step(
    op: str,
    x: Array,
    h: Array,
    cell: Array,
    d: int,
    inputs: dict[str, Array | None],
    attributes: dict[str, Any],
    functions: Sequence[Activation],
) -> tuple[Array, Array]:
    w, r = np.asarray(inputs["W"])[d], np.asarray(inputs["R"])[d]
    size = r.shape[-1]
    b = inputs.get("B")
    wb, rb = np.split(np.asarray(b)[d], 2) if b is not None else np.zeros((2, len(w)))
    limit = attributes.get("clip", np.inf)

    def clip(z: Array) -> Array:
        return np.clip(z, -limit, limit)

    xs = [w[k : k + size] @ x + wb[k : k + size] for k in range(0, len(w), size)]
    hs = [r[k : k + size] @ h + rb[k : k + size] for k in range(0, len(w), size)]
    if op == "RNN":
        return functions[0](clip(xs[0] + hs[0])), cell
    if op == "GRU":
        z, reset = functions[0](clip(xs[0] + hs[0])), functions[0](clip(xs[1] + hs[1]))
        if attributes.get("linear_before_reset", 0):
            candidate = xs[2] + reset * hs[2]
        else:
            candidate = xs[2] + r[2 * size :] @ (reset * h) + rb[2 * size :]
        return (1 - z) * functions[1](clip(candidate)) + z * h, cell
    f, g, out = functions
    p = inputs.get("P")
    pi, po, pf = np.split(np.asarray(p)[d], 3) if p is not None else np.zeros((3, size))
    i = f(clip(xs[0] + hs[0] + pi * cell))
    forget = 1 - i if attributes.get("input_forget", 0) else f(clip(xs[2] + hs[2] + pf * cell))
    new = forget * cell + i * g(clip(xs[3] + hs[3]))
    o = f(clip(xs[1] + hs[1] + po * new))
    return o * out(new), new
