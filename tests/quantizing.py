"""Quantised and optimised files of a model, as ONNX Runtime's own tools write them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

__all__ = ["FORMS", "optimised", "quantised"]

STATIC: dict[str, tuple[QuantFormat, QuantType, QuantType, bool]] = {
    "QDQ": (QuantFormat.QDQ, QuantType.QUInt8, QuantType.QInt8, False),
    "QDQ by channel": (QuantFormat.QDQ, QuantType.QInt8, QuantType.QInt8, True),
    "QDQ of 16 bits": (QuantFormat.QDQ, QuantType.QUInt16, QuantType.QInt8, False),
    "QOperator": (QuantFormat.QOperator, QuantType.QUInt8, QuantType.QInt8, False),
    "QOperator of bytes": (QuantFormat.QOperator, QuantType.QUInt8, QuantType.QUInt8, False),
}
FORMS = (*STATIC, "dynamic", "weights of 4 bits", "weights of 8 bits")

Arrays = Mapping[str, np.ndarray]


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Every sample, and at half its size: the activations that a path visits."""

    def __init__(self, feeds: Arrays):
        rows = [{n: a[i : i + 1] for n, a in feeds.items()} for i in range(len(next(iter(feeds.values()))))]
        half = [{n: a * np.asarray(0.5, a.dtype) if a.dtype.kind == "f" else a for n, a in r.items()} for r in rows]
        self._rows = iter([*rows, *half])

    def get_next(self) -> Arrays | None:
        return next(self._rows, None)


@contextmanager
def _quietly() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def quantised(path: Path, form: str, feeds: Arrays, folder: Path) -> Path:
    """The file of a model in one of FORMS, calibrated with `feeds`."""
    ready, out = folder / "ready.onnx", folder / "quantised.onnx"
    with _quietly():
        quant_pre_process(path, ready, skip_symbolic_shape=True)
        if form == "dynamic":
            quantize_dynamic(ready, out)
        elif form.startswith("weights"):
            bits = int(form.split()[2])
            quantizer = MatMulNBitsQuantizer(onnx.load(ready), bits=bits, block_size=16, is_symmetric=False)
            quantizer.process()
            quantizer.model.save_model_to_file(str(out))
        else:
            style, activations, weights, by_channel = STATIC[form]
            quantize_static(
                ready, out, _Reader(feeds), quant_format=style, activation_type=activations, weight_type=weights,
                per_channel=by_channel, reduce_range=weights is QuantType.QInt8,
            )  # fmt: skip
    return out


def optimised(path: Path, level: str, folder: Path) -> Path:
    """The file of a model as ONNX Runtime saves it after optimisation at a level (BASIC, EXTENDED, ALL)."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return folder / "optimised.onnx"
