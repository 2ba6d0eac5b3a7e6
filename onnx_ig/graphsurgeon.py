"""onnx_ig inside onnx-graphsurgeon pipelines: `graph.gradients(of=..., wrt=...)`.

Importing this module registers `gradients` on every `onnx_graphsurgeon.Graph`:

    import onnx_graphsurgeon as gs
    import onnx_ig.graphsurgeon

    graph = gs.import_onnx(model)
    (dx,) = graph.gradients(of="logits", wrt="x")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_graphsurgeon as gs

from onnx_ig.errors import OptionError
from onnx_ig.gradients import add_gradients

__all__ = ["gradients"]


@gs.Graph.register()  # type: ignore[untyped-decorator]
def gradients(
    self: gs.Graph,
    of: Any = None,
    wrt: Any = None,
    rules: str = "gradient",
    runtime: str = "generic",
    quantized: str = "straight-through",
) -> list[gs.Variable]:
    """Add the reverse-mode gradient to the graph, in place.

    `of` and `wrt` are tensors of the graph, their names, or lists of either; the defaults are those of
    `onnx_ig.add_gradients`. The graph's nodes are replaced by prepared ones (functions inlined, old operators brought
    up), its opset is raised to 20 where it is older, inputs `grad_<of>` and outputs `grad_<wrt>` are added.

    Returns the gradient variables, one for each `wrt`, in order.
    Raises what `onnx_ig.add_gradients` raises; the graph is then unchanged.
    """
    present = len(self.outputs)
    model = add_gradients(
        gs.export_onnx(self),
        of=_names(of, "of"),
        wrt=_names(wrt, "wrt"),
        rules=rules,
        quantized=quantized,
        runtime=runtime,
    )
    added = gs.import_onnx(model)
    for field in ("nodes", "inputs", "outputs", "opset", "import_domains", "functions"):
        setattr(self, field, getattr(added, field))
    return list(self.outputs[present:])


def _names(tensors: Any, argument: str) -> list[str] | None:
    if tensors is None:
        return None
    several: Sequence[Any] = tensors if isinstance(tensors, list | tuple) else [tensors]
    for one in several:
        if not isinstance(one, str | gs.Tensor):
            raise OptionError(f"{argument}: {one!r} is neither a tensor of the graph nor the name of one")
    return [t if isinstance(t, str) else t.name for t in several]
