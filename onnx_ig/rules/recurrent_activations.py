"""The activation functions of RNN, GRU and LSTM, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.context import Context

__all__ = ["Activation", "activations"]

Value = ir.Value


@dataclass(frozen=True)
class Activation:
    """a = f(z) and f'(z), elementwise; `alpha` and `beta` as the function uses them."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def slope_of_value(self) -> bool:
        """Whether f' follows from a alone."""
        return self.name in ("sigmoid", "tanh", "relu", "softsign")

    def value(self, op: Emitter, z: Value) -> Value:
        """a = f(z), of the shape of z."""
        return _FUNCTIONS[self.name][0](op, z, self.alpha, self.beta)

    def slope(self, op: Emitter, z: Value, a: Value) -> Value:
        """f'(z), of the shape of z, from z and a = f(z)."""
        return _FUNCTIONS[self.name][1](op, z, a, self.alpha, self.beta)


def activations(c: Context, defaults: list[str], directions: int) -> list[list[Activation]]:
    """The functions of each direction, as the attributes give them.

    `activation_alpha` and `activation_beta` go to the functions that take one, in order. Refuses a function that is not
    known, and one whose parameters are left to a default on which the standard and ONNX Runtime differ.
    """
    names = [str(name) for name in c.attr("activations", defaults * directions)]
    if len(names) != len(defaults) * directions:
        raise c.refuse(
            f"it names {len(names)} activations and needs {len(defaults) * directions}", "The model is not valid ONNX."
        )
    alphas, betas = list(c.attr("activation_alpha", ())), list(c.attr("activation_beta", ()))
    found = []
    for name in names:
        key = name.lower()
        if key not in _FUNCTIONS:
            raise c.refuse(f"its activation {name!r} is not one of the standard", "The model is not valid ONNX.")
        found.append(
            Activation(key, _parameter(c, name, key, "alpha", alphas), _parameter(c, name, key, "beta", betas))
        )
    size = len(defaults)
    return [found[k : k + size] for k in range(0, len(found), size)]


_PARAMETERS: dict[str, dict[str, float | None]] = {  # None: without a default that all runtimes share
    "affine": {"alpha": None, "beta": None},
    "leakyrelu": {"alpha": 0.01},
    "thresholdedrelu": {"alpha": None},
    "scaledtanh": {"alpha": None, "beta": None},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "elu": {"alpha": 1.0},
}


def _parameter(c: Context, name: str, key: str, parameter: str, given: list[float]) -> float:
    defaults = _PARAMETERS.get(key, {})
    if parameter not in defaults:
        return 0.0
    if given:
        return float(given.pop(0))
    default = defaults[parameter]
    if default is None:
        raise c.refuse(
            f"its activation {name} has no activation_{parameter}, and runtimes differ in the default",
            f"Write activation_{parameter} into the model.",
        )
    return default


def _sigmoid(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Sigmoid(z)


def _sigmoid_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return op.Mul(a, op.Sub(1.0, a))


def _tanh(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Tanh(z)


def _tanh_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return op.Sub(1.0, op.Mul(a, a))


def _relu(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Relu(z)


def _relu_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return _flag(op, op.Greater(a, 0.0), a)


def _affine(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Add(op.Mul(z, alpha), beta)


def _affine_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return op.Add(op.Mul(z, 0.0), alpha)


def _leaky_relu(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Where(op.Greater(z, 0.0), z, op.Mul(z, alpha))


def _leaky_relu_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return _either(op, op.Greater(z, 0.0), 1.0, alpha, z)


def _thresholded_relu(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Where(op.Greater(z, alpha), z, op.Mul(z, 0.0))


def _thresholded_relu_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return _flag(op, op.Greater(z, alpha), z)


def _scaled_tanh(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Mul(op.Tanh(op.Mul(z, beta)), alpha)


def _scaled_tanh_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    tanh = op.Tanh(op.Mul(z, beta))
    return op.Mul(op.Sub(1.0, op.Mul(tanh, tanh)), alpha * beta)


def _hard_sigmoid(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Min(op.Max(op.Add(op.Mul(z, alpha), beta), 0.0), 1.0)


def _hard_sigmoid_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    inside = op.And(op.Greater(a, 0.0), op.Less(a, 1.0))
    return _either(op, inside, alpha, 0.0, z)


def _elu(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    below = op.Mul(op.Sub(op.Exp(op.Min(z, 0.0)), 1.0), alpha)
    return op.Where(op.Greater(z, 0.0), z, below)


def _elu_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return op.Where(op.Greater(z, 0.0), 1.0, op.Add(a, alpha))


def _softsign(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    return op.Div(z, op.Add(op.Abs(z), 1.0))


def _softsign_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    rest = op.Sub(1.0, op.Abs(a))
    return op.Mul(rest, rest)


def _softplus(op: Emitter, z: Value, alpha: float, beta: float) -> Value:
    # max(z, 0) + log(1 + exp(-|z|)) does not overflow
    return op.Add(op.Max(z, 0.0), op.Log(op.Add(op.Exp(op.Neg(op.Abs(z))), 1.0)))


def _softplus_slope(op: Emitter, z: Value, a: Value, alpha: float, beta: float) -> Value:
    return op.Sigmoid(z)


def _flag(op: Emitter, condition: Value, like: Value) -> Value:
    return op.CastLike(condition, like)


def _either(op: Emitter, condition: Value, yes: float, no: float, like: Value) -> Value:
    return op.Add(op.Mul(_flag(op, condition, like), yes - no), no)


_FUNCTIONS: dict[str, tuple[Callable[..., Value], Callable[..., Value]]] = {
    "sigmoid": (_sigmoid, _sigmoid_slope),
    "tanh": (_tanh, _tanh_slope),
    "relu": (_relu, _relu_slope),
    "affine": (_affine, _affine_slope),
    "leakyrelu": (_leaky_relu, _leaky_relu_slope),
    "thresholdedrelu": (_thresholded_relu, _thresholded_relu_slope),
    "scaledtanh": (_scaled_tanh, _scaled_tanh_slope),
    "hardsigmoid": (_hard_sigmoid, _hard_sigmoid_slope),
    "elu": (_elu, _elu_slope),
    "softsign": (_softsign, _softsign_slope),
    "softplus": (_softplus, _softplus_slope),
}
