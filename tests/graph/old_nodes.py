"""Models of one node of an old opset, for the tests of its adapters."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.graph.compare import node_model

__all__ = ["PARAMETERS", "X", "one"]

_RNG = np.random.default_rng(3)
X = _RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
PARAMETERS = {k: (_RNG.random(3) + 0.5).astype(np.float32) for k in ("scale", "bias", "mean", "var")}


def one(op: str, opset: int, feeds: dict[str, np.ndarray] | None = None, outputs: Any = ("y",), **kwargs: Any) -> Any:
    """A model of one node; what is not of `node_model` is an attribute."""
    options = {k: kwargs.pop(k) for k in ("stored", "ranked") if k in kwargs}
    feeds = {"x": X} if feeds is None else feeds
    node = helper.make_node(op, [*feeds, *options.get("stored", {})], list(outputs), name="node", **kwargs)
    return node_model(node, feeds, opset, **options), feeds
