"""Elementary forward operators in float64 where `onnx.reference` computes in float32 or fails."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx.reference.op_run import OpRun

__all__ = ["FUNCTIONS"]

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Erf(OpRun):
    """`onnx.reference` gives float32 accuracy."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (_erf(x).astype(x.dtype),)


class Gelu(OpRun):
    """`onnx.reference` goes through its Erf."""

    def _run(self, x: np.ndarray, approximate: str | None = None) -> tuple[np.ndarray]:
        smooth = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        inner = np.tanh(smooth) if approximate == "tanh" else _erf(x / math.sqrt(2))
        return ((x * (1 + inner) / 2).astype(x.dtype),)


class Mean(OpRun):
    """`onnx.reference` does not broadcast the first operand."""

    def _run(self, *operands: np.ndarray) -> tuple[np.ndarray]:
        return (np.asarray(sum(operands[1:], operands[0]) / operands[0].dtype.type(len(operands))),)


class Softsign(OpRun):
    """`onnx.reference` fails on tensors without axes."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (np.asarray(x / (1 + np.abs(x))),)


class LRN(OpRun):
    """`onnx.reference` leaves out the channels beyond the batch size."""

    def _run(self, x: np.ndarray, alpha: float, beta: float, bias: float, size: int) -> tuple[np.ndarray]:
        squares = np.zeros_like(x)
        for channel in range(x.shape[1]):
            window = slice(max(0, channel - (size - 1) // 2), channel + size // 2 + 1)
            squares[:, channel] = (x[:, window] ** 2).sum(1)
        return (x / (bias + alpha / size * squares) ** beta,)


class MeanVarianceNormalization(OpRun):
    """The function body that `onnx.reference` runs holds float32 constants."""

    def _run(self, x: np.ndarray, axes: Sequence[int]) -> tuple[np.ndarray]:
        centred = x - x.mean(tuple(axes), keepdims=True)
        deviation = np.sqrt((centred**2).mean(tuple(axes), keepdims=True))
        return (centred / (deviation + x.dtype.type(1e-9)),)


FUNCTIONS: list[type[OpRun]] = [Erf, Gelu, LRN, Mean, MeanVarianceNormalization, Softsign]
