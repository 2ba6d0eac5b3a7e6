"""Calculus: the vector-Jacobian product of every operator, one file per operator family."""

from __future__ import annotations

from onnx_ig.arguments import check_word
from onnx_ig.rules import (
    activations,
    affine_grid,
    attention,
    blocks,
    columns,
    conditional,
    convolution,
    cumulative,
    deform_conv,
    determinant,
    einsum,
    elementwise,
    features,
    grid_sample,
    identities,
    indexing,
    loop,
    losses,
    matmul,
    max_pooling,
    normalization,
    norms,
    padding,
    pooling,
    quantization,
    random,
    recurrent_gru,
    recurrent_lstm,
    recurrent_quantized,
    recurrent_rnn,
    reductions,
    regions,
    resize,
    rotary,
    scan,
    scatter,
    selection,
    sequence,
    shape,
    slicing,
    softmax,
    spectral,
    subsets,
    trigonometric,
)
from onnx_ig.rules.context import Context
from onnx_ig.rules.deeplift import DEEPLIFT
from onnx_ig.rules.guided import GUIDED_BACKPROP
from onnx_ig.rules.lowering import LOWERINGS, Lowering
from onnx_ig.rules.registry import GRADIENT, Refusal, Rule, RuleSet

__all__ = [
    "DEEPLIFT",
    "GRADIENT",
    "GUIDED_BACKPROP",
    "LOWERINGS",
    "QUANTIZED",
    "RULE_SETS",
    "Context",
    "Lowering",
    "Refusal",
    "Rule",
    "RuleSet",
    "activations",
    "affine_grid",
    "attention",
    "blocks",
    "columns",
    "conditional",
    "convolution",
    "cumulative",
    "deform_conv",
    "determinant",
    "einsum",
    "elementwise",
    "features",
    "grid_sample",
    "identities",
    "indexing",
    "loop",
    "losses",
    "lowering_named",
    "matmul",
    "max_pooling",
    "normalization",
    "norms",
    "padding",
    "pooling",
    "quantization",
    "random",
    "recurrent_gru",
    "recurrent_lstm",
    "recurrent_quantized",
    "recurrent_rnn",
    "reductions",
    "regions",
    "resize",
    "rotary",
    "rule_set_named",
    "scan",
    "scatter",
    "selection",
    "sequence",
    "shape",
    "slicing",
    "softmax",
    "spectral",
    "subsets",
    "trigonometric",
]

QUANTIZED = ("straight-through", "refuse")
"""What is done with the roundings of a quantised model."""

RULE_SETS: dict[str, RuleSet] = {s.name: s for s in (GRADIENT, GUIDED_BACKPROP, DEEPLIFT)}


def rule_set_named(name: str, quantized: str = "straight-through") -> RuleSet:
    """The rule set; with quantized="refuse" roundings are refused where it would estimate their derivative.

    Raises OptionError for a name that is not one of RULE_SETS, or another word for `quantized`.
    """
    check_word(name, RULE_SETS, "rules")
    check_word(quantized, QUANTIZED, "quantized")
    return RULE_SETS[name] if quantized == "straight-through" else RULE_SETS[name].without_estimates()


def lowering_named(runtime: str) -> Lowering:
    """Raises OptionError for a name that is not one of LOWERINGS."""
    check_word(runtime, LOWERINGS, "runtime")
    return LOWERINGS[runtime]
