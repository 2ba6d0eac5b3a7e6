"""Names that are new in every scope of a model."""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

__all__ = ["Names"]


class Names:
    """Hands out value and node names that no graph, subgraph or function of `model` uses.

    ONNX scopes nest, and runtimes refuse a name that shadows one of an outer scope, so uniqueness is kept over the
    whole model rather than one graph.
    """

    def __init__(self, model: ir.Model):
        self._used: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(int)
        for graph in [*model.graphs(), *(f.graph for f in model.functions.values())]:
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
