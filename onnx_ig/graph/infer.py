"""Types and shapes of emitted values."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

__all__ = ["infer_added"]


def infer_added(model: ir.Model) -> None:
    """Infer types and shapes where they are missing, from what is known; a failure leaves the model as it is.

    Runs on a copy without weights.
    """
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
