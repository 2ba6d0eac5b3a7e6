"""What a graph computes with the sizes of its values, in symbols: the shapes that inference of the standard leaves open."""

from __future__ import annotations

from onnx_ig.graph.sizes.numbers import Numbers
from onnx_ig.graph.sizes.size import ONE, ROWS, Size, product
from onnx_ig.graph.sizes.symbols import ENTRY_BY_ENTRY, Symbols, completed

__all__ = ["ENTRY_BY_ENTRY", "ONE", "ROWS", "Numbers", "Size", "Symbols", "completed", "product"]
