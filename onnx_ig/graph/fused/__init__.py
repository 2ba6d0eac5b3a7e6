"""Fused nodes, written out in the standard operators that they stand for.

ONNX Runtime's optimiser, the transformers optimiser and the quantiser replace several standard nodes by one of the
domain com.microsoft; exporters of scikit-learn write ai.onnx.ml. The expansions here compute the same, so that the rules
of the standard operators serve, and what is attributed runs in any runtime. A node that no input of the model reaches
stays, and so does one that cannot be written out: `REASON` in its `meta` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir

from onnx_ig.graph.fused import (
    activations,
    attention,
    group_query,
    linear,
    normalization,
    products,
    quantized,
    refused,
    rotary,
    vectors,
    weights,
)
from onnx_ig.graph.fused.table import FUSED, REASON, Fused, Unexpanded
from onnx_ig.graph.names import Names
from onnx_ig.graph.subgraphs import captured_values
from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = [
    "FUSED",
    "REASON",
    "Fused",
    "activations",
    "attention",
    "group_query",
    "linear",
    "normalization",
    "products",
    "quantized",
    "refused",
    "rotary",
    "unfuse",
    "vectors",
    "weights",
]


def unfuse(model: ir.Model, keep: Callable[[str, str], bool] | None = None) -> bool:
    """Write fused nodes out, in place; `keep(domain, operator)` says which have a rule of their own and stay.

    Types and shapes must have been inferred. Returns whether anything was changed: inference is then to run again, and
    this again, as nodes that could not be written out for want of a rank may have it then.
    """
    known = [n for n in _moving(model) if (n.domain, n.op_type) in FUSED and REASON not in n.meta]
    pending = [n for n in known if keep is None or not keep(n.domain, n.op_type)]
    if not pending:
        return False
    names = Names(model)
    emitters: dict[ir.Graph, _Recorder] = {}
    changed = False
    stays: dict[ir.Node, tuple[str, str]] = {}
    for node in pending:
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        op = emitters.setdefault(graph, _Recorder(graph, names, model.opset_imports[""]))
        op.placed.clear()
        try:
            FUSED[node.domain, node.op_type](Fused(node, op, model.opset_imports))
            changed = True
        except Unexpanded as why:
            stays[node] = (why.reason, why.remedy)
            for emitted in reversed(op.placed):  # what it had begun to write
                graph.remove(emitted, safe=True)
    if not changed:
        for node, reason in stays.items():
            node.meta[REASON] = reason
    return changed


def _moving(model: ir.Model) -> Iterator[ir.Node]:
    """Nodes that depend on an input of the model, and all nodes of bodies."""
    moving = set(model.graph.inputs)
    for node in model.graph:
        if moving.isdisjoint(v for v in (*node.inputs, *captured_values(node)) if v is not None):
            continue
        moving.update(node.outputs)
        yield node
    for graph in model.graphs():
        if graph is not model.graph:
            yield from graph


class _Recorder(Inserter):
    """An emitter that keeps what it emitted for one node, to be taken back if that node turns out to stay."""

    def __init__(self, graph: ir.Graph, names: Names, opset: int):
        super().__init__(graph, names, opset)
        self.placed: list[ir.Node] = []

    def place(self, node: ir.Node) -> None:
        super().place(node)
        self.placed.append(node)
