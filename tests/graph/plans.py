"""Plans of the batch and what the runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import parser

from onnx_ig.graph.batch import BatchPlan, batch_axes
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare

__all__ = ["assert_proven", "assert_refused", "assert_rows_apart", "floats", "plan_of"]

RNG = np.random.default_rng(5)


def plan_of(text: str, given: Mapping[str, int | None] | None = None, opset: int = 20) -> tuple[Any, BatchPlan]:
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3]>\n{text}'
    )
    prepared = prepare(load(model))
    return model, batch_axes(prepared.graph, given)


def assert_proven(
    text: str, feeds: Mapping[str, np.ndarray], given: Mapping[str, int | None] | None = None
) -> BatchPlan:
    """The plan says batchable, and the runtime agrees on `feeds`, which hold several rows."""
    model, plan = plan_of(text, given)
    assert plan.batchable, plan.reason
    assert plan.reason == ""
    assert_rows_apart(model.SerializeToString(), feeds, plan)
    return plan


def assert_rows_apart(model: bytes, feeds: Mapping[str, np.ndarray], plan: BatchPlan, tolerance: float = 1e-5) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    together = session.run(None, dict(feeds))
    axes = {n: plan.axis(n) for n in feeds}
    count = next(feeds[n].shape[axis] for n, axis in axes.items() if axis is not None)
    assert count > 1
    for row in range(count):
        one = {n: a if axes[n] is None else np.take(a, [row], axes[n]) for n, a in feeds.items()}
        for name, whole, alone in zip(names, together, session.run(None, one), strict=True):
            axis = plan.axis(name)
            part = whole if axis is None else np.take(whole, [row], axis)
            assert part.shape == alone.shape, name
            np.testing.assert_allclose(part, alone, rtol=tolerance, atol=tolerance, err_msg=name)


def assert_refused(text: str, *words: str, given: Mapping[str, int | None] | None = None) -> None:
    """The plan says not batchable, in words that name the culprit."""
    _, plan = plan_of(text, given)
    assert not plan.batchable
    for word in words:
        assert word in plan.reason, plan.reason


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)
