"""Which nodes have derivatives that jump."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_ig.graph.subgraphs import captured_values, subgraphs

__all__ = ["kinks"]

_KINKED = frozenset({
    "Abs", "Clip", "CumProd", "DequantizeLinear", "DynamicQuantizeLinear", "GlobalMaxPool", "GridSample", "HardSigmoid",
    "HardSwish", "Hardmax", "If", "LeakyRelu", "Max", "MaxPool", "MaxRoiPool", "Min", "Mod", "PRelu", "QuantizeLinear",
    "ReduceL1", "ReduceMax", "ReduceMin", "Relu", "Selu", "Shrink", "ThresholdedRelu", "TopK", "Where",
})  # fmt: skip
_SMOOTH_CELLS = frozenset({"Affine", "Elu", "Sigmoid", "Softplus", "Softsign", "Tanh"})
_CELLS = frozenset({"RNN", "GRU", "LSTM"})
_CONDITIONS = frozenset({"Where", "If"})


def kinks(graph: ir.Graph, path: Iterable[ir.Node], moved: Iterable[ir.Value]) -> list[str]:
    """Operators among the nodes of `path`, and in their bodies, whose derivative is not continuous; each once.

    `Where` and `If` have a kink where their condition depends on `moved`: a mask that stays has none. What is not listed
    counts as smooth: this chooses a rule of integration, and each of them converges for either kind.
    """
    depends = set(moved)
    for node in graph:
        if any(v in depends for v in (*node.inputs, *captured_values(node)) if v is not None):
            depends.update(node.outputs)
    found: dict[str, None] = {}
    for node in path:
        if _kinked(node) and (node.op_type not in _CONDITIONS or node.inputs[0] in depends):
            found[node.op_type] = None
        for body in subgraphs(node):
            found.update(dict.fromkeys(n.op_type for n in body.all_nodes() if _kinked(n)))
    return list(found)


def _kinked(node: ir.Node) -> bool:
    return node.op_type in _KINKED or (node.op_type in _CELLS and _kinked_cell(node))


def _kinked_cell(node: ir.Node) -> bool:
    names = node.attributes.get("activations")
    return "clip" in node.attributes or (names is not None and not set(names.as_strings()) <= _SMOOTH_CELLS)
