"""Running models: providers, sessions, micro-batches, results. Needs onnxruntime and numpy alone."""

from __future__ import annotations

from onnx_ig.runtime.result import Attribution, load_result
from onnx_ig.runtime.served import ServedModel, load

__all__ = ["Attribution", "ServedModel", "load", "load_result"]
