"""Rewriting meets the runtime: `Explainer`, `inspect`, `check`."""

from __future__ import annotations

from onnx_ig.explain.checking import CheckReport, check
from onnx_ig.explain.explainer import Explainer
from onnx_ig.explain.inspection import Inspection, inspect

__all__ = ["CheckReport", "Explainer", "Inspection", "check", "inspect"]
