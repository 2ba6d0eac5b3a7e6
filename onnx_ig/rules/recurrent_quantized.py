"""LSTM with 8-bit weights, as ONNX Runtime's dynamic quantisation writes it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.quantization import STRAIGHT
from onnx_ig.rules.recurrent import Recurrent
from onnx_ig.rules.recurrent_lstm import lstm_directions
from onnx_ig.rules.registry import gradient

Value = ir.Value

_SCALES = {1: 8, 2: 10}
"""Operand of a weight -> operand of its scale; the zero point follows the scale."""


@gradient("DynamicQuantizeLSTM", domain="com.microsoft", estimate=STRAIGHT)
def dynamic_quantize_lstm(c: Context, *cotangents: Value | None) -> list[Value | None]:
    """LSTM with W = (q - zero) scale, straight through the rounding of its products; gscale = sum of gW (q - zero).

    q [D, I, 4H] and [D, H, 4H], scale [D] or [D, 4H]; all else as in LSTM. The hidden states that the gates are computed
    from are those that the quantised operator gave. Source: ONNX Runtime contrib operators, DynamicQuantizeLSTM-1; Bengio
    et al. 2013 (straight-through estimator).
    """
    parts = _Quantized(c, 4, ["Sigmoid", "Tanh", "Tanh"])
    found = lstm_directions(parts, cotangents)
    contributions = parts.put_together(found)
    contributions[1] = contributions[2] = None  # integers
    contributions += [None] * (len(c.inputs) - len(contributions))
    for operand, weights in ((1, [p.w for p in found]), (2, [p.r for p in found])):
        if c.wants(_SCALES[operand]):
            contributions[_SCALES[operand]] = parts.of_scale(operand, weights)
    return contributions


class _Quantized(Recurrent):
    def weight(self, operand: int, d: int) -> Value:
        scale = self.own(self.c.operand(_SCALES[operand]), d)
        return self.op.Transpose(self.op.Mul(self._centred(operand, d), scale), perm=[1, 0])

    def wants_weight(self, operand: int) -> bool:
        return self.c.wants(_SCALES[operand])

    def of_scale(self, operand: int, weights: Sequence[Value | None]) -> Value | None:
        """Cotangent of a scale from those of the weights [4H, K] of the directions."""
        found: list[Value | None] = []
        for d, g in enumerate(weights):
            scale = self.own(self.c.operand(_SCALES[operand]), d)
            product = None if g is None else self.op.Mul(self.op.Transpose(g, perm=[1, 0]), self._centred(operand, d))
            found.append(None if product is None else self.c.sum_to(product, None, scale))
        return self.stacked(found)

    def _centred(self, operand: int, d: int) -> Value:
        """q - zero as floats, [K, 4H]."""
        op, float_type = self.op, self.dtype.value
        q = op.Cast(self.own(self.c.operand(operand), d), to=float_type)
        zero = self.c.input(_SCALES[operand] + 1)
        return q if zero is None else op.Sub(q, op.Cast(self.own(zero, d), to=float_type))
