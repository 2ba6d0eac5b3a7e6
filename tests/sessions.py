"""Sessions of ONNX Runtime for tests: one thread, and models as its optimiser leaves them."""

from __future__ import annotations

import os
from pathlib import Path

import onnxruntime as ort

__all__ = ["optimised", "single_threaded"]


def single_threaded() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def optimised(model: str | os.PathLike[str] | bytes, level: str, folder: Path) -> Path:
    """The file that ONNX Runtime saves after its graph optimisations ("BASIC", "EXTENDED"), fused operators and all."""
    options = single_threaded()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    ort.InferenceSession(
        model if isinstance(model, bytes) else os.fspath(model), options, providers=["CPUExecutionProvider"]
    )
    return folder / "optimised.onnx"
