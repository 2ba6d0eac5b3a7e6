"""Whether samples influence each other, found out by running them: what `rewrite(batchable=)` wants to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx_ig.explain.examples import example_feeds
from onnx_ig.explain.explainer import Explainer
from onnx_ig.graph.load import ModelLike
from onnx_ig.rewriter.batching import by_dataflow
from onnx_ig.rewriter.opening import opened
from onnx_ig.rewriter.subject import subject_of
from onnx_ig.runtime.session import Providers

__all__ = ["probe_independence"]


def probe_independence(
    model: ModelLike,
    feeds: Mapping[str, Any] | None = None,
    *,
    inputs: str | Sequence[str] | None = None,
    output: str | None = None,
    batch_axes: Mapping[str, int | None] | None = None,
    providers: Providers = None,
) -> bool | None:
    """Whether two rows together give what each gives alone; None where the graph settles it without running anything.

    `feeds` None: an example made up from the declared shapes. Raises what `Explainer` raises.
    """
    subject = subject_of(model, inputs, output)
    values = {v.name or "": s.name for s in subject.moved for v in s.values}
    batching = by_dataflow(subject.graph, values, subject.output, batch_axes)
    if not batching.candidate and opened(subject, batching) is None:
        return None
    explainer = Explainer(
        model, "gradient", inputs=inputs, output=output, batch_axes=batch_axes, providers=providers
    )  # fmt: skip
    explainer.attribute(example_feeds(subject) if feeds is None else feeds)
    return explainer.batching.mode == "free"
