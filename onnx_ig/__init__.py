"""onnx_ig: attributions for any ONNX model, as plain ONNX models."""

from __future__ import annotations

from onnx_ig.gradients import add_gradients

__all__ = ["add_gradients"]
