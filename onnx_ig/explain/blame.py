"""Where a NaN or infinity comes from: the first value of a step that is not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_ig.errors import OnnxIgError
from onnx_ig.graph.emit import is_float
from onnx_ig.graph.subgraphs import ORIGIN
from onnx_ig.rewriter.batching import Batching
from onnx_ig.rewriter.step import step_model
from onnx_ig.runtime.steps import take

if TYPE_CHECKING:
    from onnx_ig.explain.models import Models
    from onnx_ig.explain.run import Job

__all__ = ["first_non_finite"]


def first_non_finite(models: Models, batching: Batching, job: Job, sample: int) -> str | None:
    """Run one sample with every float value of the step model as an output; the node whose value is first not finite.

    Returns "Operator (node name)", for a node of the derivative "the derivative, at Operator"; None where none is found.
    """
    start = job.starts[0]
    plan = models.plan(batching, start, job.held, False)
    model = step_model(models.subject.model, plan)
    nodes = [n for n in model.graph if any(is_float(v.dtype) and v.name for v in n.outputs)]
    present = set(model.graph.outputs)
    model.graph.outputs.extend(v for n in nodes for v in n.outputs if is_float(v.dtype) and v.name and v not in present)
    try:
        session = models.open(model)
        axes = batching.axes if batching.batched else {}
        feeds = {k: take(a, axes.get(k), sample, sample + 1) for k, a in job.feeds.items()}
        feeds.update(
            {f"ig:baseline:{k}": take(v, axes.get(k), sample, sample + 1) for k, v in start.items() if v is not None}
        )
        feeds.update({f"ig:hold:{k}": take(v, axes.get(k), sample, sample + 1) for k, v in job.held.items()})
        if job.cotangent is not None:
            feeds["ig:cotangent"] = take(job.cotangent, plan.output_axis, sample, sample + 1)
        steps = len(job.alphas)
        for step in range(steps):
            feeds["ig:alphas"] = np.full((1, 1), job.alphas[step])
            feeds["ig:weights"] = np.full((1, 1), job.weights[step])
            values = session.run(feeds)
            for node in nodes:
                for value in node.outputs:
                    array = values.get(value.name or "")
                    if array is not None and array.size and not np.isfinite(array.astype(np.float64)).all():
                        origin = node.meta.get(ORIGIN)
                        return (
                            f"{node.op_type} ({origin})"
                            if origin
                            else f"the derivative, at {node.op_type} ({node.name})"
                        )
    except OnnxIgError:
        return None
    return None
