"""Which form of a backward each runtime gets: the one place where forms are chosen.

A rule states the mathematics and asks `c.lowering` for the form; a form that turns out faster or a runtime that lacks an
operator changes this table and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["LOWERINGS", "Lowering"]


@dataclass(frozen=True)
class Lowering:
    """Forms by family; the alternatives are named where the rule is.

    `conv_stride1`  "flipped" Conv with flipped, transposed weights, or "transpose" ConvTranspose.
    `relu_gate`     "mul" (gradient times the cast mask), "where" (keeps an upstream inf or NaN behind a closed gate out) or
                    "blocked" (as "mul", with masks behind convolutions in the layout of ONNX Runtime's CPU kernels).
    `max_pool`      "indices" (MaxPool's second output and ScatterElements) or "windows" (scatter-free).
    `layer_norm`    "statistics" (the forward's mean and inverse deviation, as further outputs) or "recompute".
    `branches`      "keep" (the forward If gives out what the backward reads, empty where the other branch is taken) or
                    "again" (the branch taken is computed again): TensorRT wants the same shapes of both branches.
    `gather`        "scatter" (ScatterND that adds) or "one_hot" (a product with a 0/1 matrix): TensorRT's parser reads
                    ScatterND and passes over its reduction, so that duplicates would not accumulate.
    """

    conv_stride1: str = "flipped"
    relu_gate: str = "mul"
    max_pool: str = "indices"
    layer_norm: str = "statistics"
    branches: str = "keep"
    gather: str = "scatter"


_GENERIC = Lowering()

LOWERINGS: dict[str, Lowering] = {
    "generic": _GENERIC,
    "cpu": replace(_GENERIC, relu_gate="blocked"),
    "cuda": _GENERIC,
    "tensorrt": replace(_GENERIC, max_pool="windows", layer_norm="recompute", branches="again", gather="one_hot"),
    "openvino": replace(_GENERIC, layer_norm="recompute", branches="again"),
    "web": _GENERIC,
}
