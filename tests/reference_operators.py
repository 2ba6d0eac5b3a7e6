"""Forward operators in float64 where `onnx.reference` differs from ONNX Runtime or cannot run the form.

`tests/test_reference_operators.py` holds each against ONNX Runtime in float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from onnx.reference.op_run import OpRun

from tests.reference_functions import FUNCTIONS
from tests.reference_shapes import SHAPES
from tests.reference_windows import POOLS

__all__ = ["OPERATORS"]


class ConvTranspose(OpRun):
    """`onnx.reference` has no grouped form for several output channels a group."""

    def _run(
        self,
        x: np.ndarray,
        w: np.ndarray,
        b: np.ndarray | None = None,
        auto_pad: str = "NOTSET",
        dilations: Sequence[int] | None = None,
        group: int = 1,
        kernel_shape: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[np.ndarray]:
        rank = x.ndim - 2
        ones, kernel = (1,) * rank, w.shape[2:]
        strides, dilations, extra = strides or ones, dilations or ones, output_padding or (0,) * rank
        full = [
            s * (n - 1) + p + (k - 1) * d + 1
            for s, n, p, k, d in zip(strides, x.shape[2:], extra, kernel, dilations, strict=True)
        ]
        begins, lengths = [0] * rank, list(full)
        if output_shape is not None or auto_pad.startswith("SAME"):
            for i in range(rank):
                target = x.shape[i + 2] * strides[i] if output_shape is None else output_shape[i - rank]
                total = max(full[i] - target, 0)
                begins[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
                lengths[i] = target if output_shape is not None else min(target, full[i])
        elif pads is not None and auto_pad == "NOTSET":
            begins = list(pads[:rank])
            lengths = [f - pads[i] - pads[i + rank] for i, f in enumerate(full)]
        room = [max(f, b + n) for f, b, n in zip(full, begins, lengths, strict=True)]
        y = np.zeros((x.shape[0], w.shape[1] * group, *room), x.dtype)
        grouped = x.reshape(x.shape[0], group, -1, *x.shape[2:]) if x.size else x
        for tap in itertools.product(*map(range, kernel)):
            weights = w[(..., *tap)].reshape(group, -1, w.shape[1])
            window = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, dilations, x.shape[2:], strides, strict=True)
            )
            if x.size:
                part = np.einsum("ngc...,gcm->ngm...", grouped, weights)
                y[(..., *window)] += part.reshape(x.shape[0], -1, *x.shape[2:])
        y = y[(..., *(slice(b, b + n) for b, n in zip(begins, lengths, strict=True)))]
        return (y if b is None else y + b.reshape(-1, *ones),)


OPERATORS: list[type[OpRun]] = [ConvTranspose, *POOLS, *SHAPES, *FUNCTIONS]
