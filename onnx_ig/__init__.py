"""onnx_ig: attributions for any ONNX model, as plain ONNX models.

Names are imported when first used, so that a serving image with onnxruntime and numpy alone can use `onnx_ig.runtime`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_ig import runtime
    from onnx_ig.errors import (
        FeedError,
        MissingDependencyError,
        ModelError,
        NoGradientPathError,
        OnnxIgError,
        OnnxIgWarning,
        OptionError,
        RunError,
        UnsupportedOperatorError,
    )
    from onnx_ig.explain import Explainer, check, inspect
    from onnx_ig.gradients import add_gradients
    from onnx_ig.rewriter import rewrite
    from onnx_ig.runtime.result import Attribution, load_result

_MODULES = {
    "Attribution": "onnx_ig.runtime.result",
    "Explainer": "onnx_ig.explain",
    "FeedError": "onnx_ig.errors",
    "MissingDependencyError": "onnx_ig.errors",
    "ModelError": "onnx_ig.errors",
    "NoGradientPathError": "onnx_ig.errors",
    "OnnxIgError": "onnx_ig.errors",
    "OnnxIgWarning": "onnx_ig.errors",
    "OptionError": "onnx_ig.errors",
    "RunError": "onnx_ig.errors",
    "UnsupportedOperatorError": "onnx_ig.errors",
    "add_gradients": "onnx_ig.gradients",
    "check": "onnx_ig.explain",
    "inspect": "onnx_ig.explain",
    "load_result": "onnx_ig.runtime.result",
    "rewrite": "onnx_ig.rewriter",
}

__all__ = [
    "Attribution",
    "Explainer",
    "FeedError",
    "MissingDependencyError",
    "ModelError",
    "NoGradientPathError",
    "OnnxIgError",
    "OnnxIgWarning",
    "OptionError",
    "RunError",
    "UnsupportedOperatorError",
    "add_gradients",
    "check",
    "inspect",
    "load_result",
    "rewrite",
    "runtime",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("onnx_ig")
    if name == "runtime":
        return importlib.import_module("onnx_ig.runtime")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'onnx_ig' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
