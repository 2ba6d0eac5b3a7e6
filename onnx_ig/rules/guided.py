"""Guided backpropagation: the gradient, with negative cotangents stopped at every Relu."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.gates import gate
from onnx_ig.rules.registry import GRADIENT, RuleSet

__all__ = ["GUIDED_BACKPROP"]

GUIDED_BACKPROP = RuleSet("guided_backprop", parent=GRADIENT)


@GUIDED_BACKPROP.rule("Relu")
def relu(c: Context, gy: ir.Value) -> tuple[ir.Value]:
    """gx = max(gy, 0) where y > 0, else 0. Source: Springenberg et al., Striving for Simplicity, 2014, section 3.4."""
    return (gate(c, c.op.Relu(gy), c.op.Greater(c.output, 0.0)),)
