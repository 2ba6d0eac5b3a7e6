"""Activations fused into what comes before them, and the approximations that have operators of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnx_ig.graph.fused.table import Fused, Unexpanded, fused

__all__ = ["activated"]

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Mish": (),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}


def activated(f: Fused, x: ir.Value, name: str, parameters: Sequence[float | None]) -> ir.Value:
    """The activation `name` of `x`; parameters in the order of the operator's attributes, None for the default."""
    if not name:
        return x
    if name == "Clip":
        low, high = (*parameters, None, None)[:2]
        bounds = [None if b is None or math.isinf(b) else f.like(b, x) for b in (low, high)]
        return f.op.Clip(x, *bounds)
    if name not in _PARAMETERS:
        raise Unexpanded(f"its fused activation {name!r} is not known", "Save the model at optimisation level BASIC.")
    given = {k: float(v) for k, v in zip(_PARAMETERS[name], parameters, strict=False) if v is not None}
    return f.op.node(name, (x,), given)


@fused("Gelu")
def gelu(f: Fused) -> None:
    """x * Phi(x)."""
    f.replace(f.op.Gelu(f.x))


@fused("BiasGelu")
def bias_gelu(f: Fused) -> None:
    """Gelu(a + b)."""
    f.replace(f.op.Gelu(f.op.Add(f.x, f.need(1))))


@fused("FastGelu")
def fast_gelu(f: Fused) -> None:
    """Gelu by tanh, of x + bias where there is one."""
    bias = f.operand(1)
    f.replace(f.op.Gelu(f.x if bias is None else f.op.Add(f.x, bias), approximate="tanh"))


@fused("GemmFastGelu")
def gemm_fast_gelu(f: Fused) -> None:
    """FastGelu of a product and a bias."""
    product, bias = f.op.MatMul(f.x, f.need(1)), f.operand(2)
    f.replace(f.op.Gelu(product if bias is None else f.op.Add(product, bias), approximate="tanh"))


@fused("QuickGelu")
def quick_gelu(f: Fused) -> None:
    """x * sigmoid(alpha * x)."""
    alpha = float(f.attr("alpha", 1.702))
    scaled = f.x if alpha == 1 else f.op.Mul(f.x, f.like(alpha, f.x))
    f.replace(f.op.Mul(f.x, f.op.Sigmoid(scaled)))


@fused("ScaledSiLU")
def scaled_silu(f: Fused) -> None:
    """z * sigmoid(z) of z = scale * x."""
    scale = f.operand(1)
    factor = f.like(float(f.attr("alpha", 1.0)), f.x) if scale is None else f.cast(scale, f.dtype(f.x))
    z = f.op.Mul(f.x, factor)
    f.replace(f.op.Mul(z, f.op.Sigmoid(z)))


@fused("BiasSplitGelu")
def bias_split_gelu(f: Fused) -> None:
    """left * Gelu(right) of the halves of x + bias along the last axis."""
    left, right = f.op.Split(f.op.Add(f.x, f.need(1)), outputs=2, axis=-1, num_outputs=2)
    f.replace(f.op.Mul(left, f.op.Gelu(right)))


@fused("BiasAdd")
def bias_add(f: Fused) -> None:
    """x + bias + skip."""
    f.replace(f.op.Add(f.op.Add(f.x, f.need(1)), f.need(2)))
