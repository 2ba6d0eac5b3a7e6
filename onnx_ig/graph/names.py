"""Names that are new in every scope of a model."""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

__all__ = ["Names", "make_unique"]

_INLINED = "_inlfunc_"


class Names:
    """Hands out value and node names that no graph, subgraph or function of `models` uses.

    ONNX scopes nest, and runtimes refuse a name that shadows one of an outer scope, so uniqueness is kept over the
    whole model rather than one graph.
    """

    def __init__(self, *models: ir.Model):
        self._used: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(int)
        for graph in [g for m in models for g in (*m.graphs(), *(f.graph for f in m.functions.values()))]:
            self._used.update(v.name for v in (*graph.inputs, *graph.initializers.values()) if v.name)
            for node in graph:
                self._used.update(v.name for v in node.outputs if v.name)
                if node.name:
                    self._used.add(node.name)

    def fresh(self, stem: str) -> str:
        """`stem` itself where it is free, else `stem_1`, `stem_2` ..."""
        name = stem
        while name in self._used:
            self._next[stem] += 1
            name = f"{stem}_{self._next[stem]}"
        self._used.add(name)
        return name

    def numbered(self, stem: str) -> str:
        """`stem_0`, `stem_1` ...: for values that nobody asks for by name."""
        while True:
            name = f"{stem}_{self._next[stem]}"
            self._next[stem] += 1
            if name not in self._used:
                self._used.add(name)
                return name


def make_unique(model: ir.Model) -> None:
    """Give every node a name, and every value and every node one that no other has, in whichever graph.

    Inputs and outputs of the main graph keep theirs before its other values, and those before values of inner graphs.
    Outputs that a node leaves out (an empty name) stay left out. Names that ONNX Runtime made when it wrote out the bodies
    of functions are given up: in a file that it saved it would make the same ones again, and refuse the model for it.
    """
    names = Names(model)
    values: set[str | None] = set()
    nodes: set[str | None] = set()
    settled: set[ir.Value] = set()
    outer = (*model.graph.inputs, *model.graph.outputs)
    for graph in model.graphs():
        for value in (*outer, *graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)):
            left_out = not value.name and not value.uses() and not value.is_graph_output()
            if value in settled or left_out:
                continue
            settled.add(value)
            if not value.name or value.name in values or (value.name.startswith(_INLINED) and value not in outer):
                value.name = names.fresh((value.name or "value").removeprefix("_"))
            values.add(value.name)
        for node in graph:
            if not node.name or node.name in nodes:
                node.name = names.fresh(node.name or node.op_type)
            nodes.add(node.name)
