"""Padding, reshaping and global pooling where `onnx.reference` is narrower than the standard."""

from __future__ import annotations

import numpy as np
from onnx.reference.op_run import OpRun

__all__ = ["SHAPES"]


class Flatten(OpRun):
    """`onnx.reference` fails on tensors without elements."""

    def _run(self, x: np.ndarray, axis: int = 1) -> tuple[np.ndarray]:
        axis = axis + x.ndim if axis < 0 else axis
        return (x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))),)


class Reshape(OpRun):
    """`onnx.reference` has no -1 beside zero dimensions."""

    def _run(self, x: np.ndarray, shape: np.ndarray, allowzero: int = 0) -> tuple[np.ndarray]:
        dims = [x.shape[i] if d == 0 and not allowzero else int(d) for i, d in enumerate(shape)]
        if -1 in dims:
            known = int(np.prod([d for d in dims if d != -1]))
            dims[dims.index(-1)] = x.size // known
        return (x.reshape(dims),)


class Pad(OpRun):
    """`onnx.reference` has no negative pads. Here the crop comes first, as in ONNX Runtime."""

    def _run(
        self, x: np.ndarray, pads: np.ndarray, value: np.ndarray | None = None, axes: np.ndarray | None = None,
        mode: str = "constant",
    ) -> tuple[np.ndarray]:  # fmt: skip
        width = [(0, 0)] * x.ndim
        axes = np.arange(x.ndim) if axes is None else axes
        for i, axis in enumerate(axes):
            width[axis] = (int(pads[i]), int(pads[i + len(axes)]))
        crop = tuple(slice(max(-b, 0), n - max(-e, 0)) for (b, e), n in zip(width, x.shape, strict=True))
        width = [(max(b, 0), max(e, 0)) for b, e in width]
        if mode == "constant":
            fill = 0 if value is None else np.asarray(value).item()
            return (np.pad(x[crop], width, mode="constant", constant_values=fill).astype(x.dtype),)
        return (np.pad(x[crop], width, mode=mode),)  # type: ignore[call-overload]


class GlobalMaxPool(OpRun):
    """`onnx.reference` drops axes of three-dimensional operands."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (x.max(tuple(range(2, x.ndim)), keepdims=True),)


class GlobalAveragePool(OpRun):
    """`onnx.reference` fails on an empty batch."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        axes = tuple(range(2, x.ndim))
        return (x.sum(axes, keepdims=True) / max(1, int(np.prod(x.shape[2:]))),)


SHAPES: list[type[OpRun]] = [Flatten, GlobalAveragePool, GlobalMaxPool, Pad, Reshape]
