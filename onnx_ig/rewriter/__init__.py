"""From a model and options to an augmented model: the graph that computes attributions."""

from __future__ import annotations

from onnx_ig.rewriter.served import rewrite

__all__ = ["rewrite"]
