"""Elementary forward operators in float64 where `onnx.reference` computes in float32 or fails."""

from __future__ import annotations

import math

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
        if approximate == "tanh":
            inner = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        else:
            inner = _erf(x / math.sqrt(2))
        return ((x * (1 + inner) / 2).astype(x.dtype),)


class Mean(OpRun):
    """`onnx.reference` does not broadcast the first operand."""

    def _run(self, *operands: np.ndarray) -> tuple[np.ndarray]:
        return (np.asarray(sum(operands[1:], operands[0]) / operands[0].dtype.type(len(operands))),)


class Softsign(OpRun):
    """`onnx.reference` fails on tensors without axes."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (np.asarray(x / (1 + np.abs(x))),)


FUNCTIONS: list[type[OpRun]] = [Erf, Gelu, Mean, Softsign]
