"""Pooling in float64: `onnx.reference` differs from ONNX Runtime under ceil_mode, auto_pad and for p-norms."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from onnx.reference.op_run import OpRun

__all__ = ["POOLS"]

Ints = Sequence[int]


def geometry(
    lengths: Ints,
    kernel: Ints,
    strides: Ints | None,
    dilations: Ints | None,
    pads: Ints | None,
    auto_pad: str,
    ceil: int,
) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """For each axis the positions that each window reads [windows, taps], the length, and the pads."""
    rank = len(kernel)
    pads = pads if pads and auto_pad == "NOTSET" else [0] * (2 * rank)
    for i, (length, k) in enumerate(zip(lengths, kernel, strict=True)):
        s, d = (strides or [1] * rank)[i], (dilations or [1] * rank)[i]
        begin, end, extent = pads[i], pads[i + rank], (k - 1) * d + 1
        if auto_pad.startswith("SAME"):
            count = -(-length // s)
            total = max((count - 1) * s + extent - length, 0)
            begin = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            end = total - begin
        else:
            room = length + begin + end - extent
            count = (-(-room // s) if ceil else room // s) + 1
            if ceil and (count - 1) * s >= length + begin:
                count -= 1
        yield np.arange(count)[:, None] * s + np.arange(k) * d - begin, length, begin, end


def inside_of(x: np.ndarray, inside: Sequence[Sequence[int]]) -> np.ndarray:
    """The elements of x at the positions `inside` of each axis, as [N, C, elements]."""
    values = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)]
    return values.reshape(*x.shape[:2], int(np.prod(values.shape[2:])))


def pooled(
    x: np.ndarray, axes: Sequence[tuple[np.ndarray, int, int, int]], fold: Callable[[np.ndarray, np.ndarray], float]
) -> np.ndarray:
    """y[N, C, n...] where `fold` sees the values of a window inside x [N, C, values] and the number in the padded x."""
    y = np.zeros((*x.shape[:2], *(len(at) for at, *_ in axes)), x.dtype)
    for window in itertools.product(*(range(len(at)) for at, *_ in axes)):
        inside, padded = [], 1
        for (at, length, begin, end), w in zip(axes, window, strict=True):
            inside.append([p for p in at[w] if 0 <= p < length])
            padded *= int(((at[w] >= -begin) & (at[w] < length + end)).sum())
        values = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)].reshape(
            *x.shape[:2], int(np.prod([len(i) for i in inside]))
        )
        y[(..., *window)] = fold(values, np.asarray(padded))
    return y


class MaxPool(OpRun):
    def _run(
        self, x, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape=None, pads=None, storage_order=0,
        strides=None,
    ):  # fmt: skip
        axes = list(geometry(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode))
        at = np.arange(x.size).reshape(x.shape)
        if storage_order:
            channels = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))
            column = np.arange(np.prod(x.shape[2:], dtype=int)).reshape(x.shape[:1:-1]).T
            at = channels * column.size + column
        lowest = np.finfo(x.dtype).min

        def highest(values, _):
            return values.max(-1) if values.shape[-1] else np.full(values.shape[:2], lowest)

        def first(values, _):
            return values.argmax(-1) if values.shape[-1] else np.full(values.shape[:2], -1)

        def chosen(values, where):
            return np.take_along_axis(values, where[..., None], -1)[..., 0] if values.shape[-1] else where

        y, order = pooled(x, axes, highest), pooled(x, axes, first).astype(int)
        indices = np.zeros(y.shape, np.int64)
        for window in np.ndindex(*y.shape[2:]):
            inside = [[p for p in a[w] if 0 <= p < n] for (a, n, *_), w in zip(axes, window, strict=True)]
            values = at[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)].reshape(
                *x.shape[:2], int(np.prod([len(i) for i in inside]))
            )
            indices[(..., *window)] = chosen(values, order[(..., *window)])
        return (y, indices)[: len(self.onnx_node.output)]


class AveragePool(OpRun):
    def _run(
        self, x, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None, kernel_shape=None, pads=None,
        strides=None,
    ):  # fmt: skip
        axes = list(geometry(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode))

        def mean(values, padded):
            return values.sum(-1) / max(1, int(padded) if count_include_pad else values.shape[-1])

        return (pooled(x, axes, mean),)


class LpPool(OpRun):
    def _run(self, x, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape=None, p=2, pads=None, strides=None):
        axes = list(geometry(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode))
        return (pooled(x, axes, lambda values, _: (np.abs(values) ** p).sum(-1) ** (1 / p)),)


class GlobalLpPool(OpRun):
    def _run(self, x, p=2):
        axes = tuple(range(2, x.ndim))
        return ((np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p),)


class MaxUnpool(OpRun):
    """The indices count over the output, whatever its shape, as in ONNX Runtime; of equal ones the last is written."""

    def _run(self, x, indices, output_shape=None, kernel_shape=None, pads=None, strides=None):
        if output_shape is None:
            rank = x.ndim - 2
            strides, pads = strides or [1] * rank, pads or [0] * (2 * rank)
            lengths = [
                (n - 1) * strides[i] + kernel_shape[i] - pads[i] - pads[i + rank] for i, n in enumerate(x.shape[2:])
            ]
            output_shape = [*x.shape[:2], *lengths]
        y = np.zeros(int(np.prod(output_shape)), x.dtype)
        y[indices.reshape(-1)] = x.reshape(-1)
        return (y.reshape(output_shape),)


POOLS: list[type[OpRun]] = [AveragePool, GlobalLpPool, LpPool, MaxPool, MaxUnpool]
