"""How many bytes are alive at once while a graph runs, as far as shapes can be told from what is fed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ig.graph.sizes import ENTRY_BY_ENTRY, Size, Symbols
from onnx_ig.graph.sparse import proto_graphs
from onnx_ig.graph.types import bare_copy

__all__ = ["Liveness"]

_log = logging.getLogger(__name__)

_MARGIN = 2.0
"""Runtimes reorder layouts and leave gaps between blocks: measured up to 1.75 on convolutional networks."""

_NO_LARGER = frozenset({
    *ENTRY_BY_ENTRY, "Cast", "Flatten", "Identity", "LayerNormalization", "LogSoftmax", "NonZero", "ReduceL1", "ReduceL2",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reshape", "Slice", "Softmax",
    "Split", "Squeeze", "TopK", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators whose results have hardly more entries than their largest operand."""

Shapes = Mapping[str, "list[int]"]


class Liveness:
    """Sizes and lifetimes of the values of a model that depend on its inputs; keeps no weights.

    `peak` is an estimate. Shapes follow from those of the feeds, by inference. Where it leaves one open, a value counts
    as the largest operand of its node; as the largest value of all, where that may be less than it takes.

    `half_bytes`: what an entry of 16 bits takes; 4 where the runtime computes them in 32.
    """

    def __init__(self, model: ir.Model, half_bytes: int = 2):
        self._inputs = {v.name or "": _symbols(v) for v in model.graph.inputs}
        self._program = _Program(model.graph, set(model.graph.inputs), half_bytes)
        self._proto = bare_copy(model)
        _spell_out_sizes(model, self._proto)

    def peak(self, feeds: Mapping[str, np.ndarray], sizes: Mapping[str, int], default: int) -> float:
        """Bytes for feeds of these shapes. `sizes` gives symbols by hand; the other ones are read off the feeds.

        A dimension of an input that nothing says is `default`.
        """
        known = {
            symbol: size
            for name, symbols in self._inputs.items()
            if name in feeds
            for symbol, size in zip(symbols or (), feeds[name].shape, strict=False)
            if isinstance(symbol, str)
        } | dict(sizes)
        given: dict[str, list[int]] = {}
        for name, symbols in self._inputs.items():
            shape = list(feeds[name].shape) if name in feeds else None
            if symbols is None:
                given[name] = shape or []
                continue
            fed = shape if shape is not None and len(shape) == len(symbols) else [default] * len(symbols)
            given[name] = [
                d if isinstance(d, int) else known.get(d or "", f) for d, f in zip(symbols, fed, strict=True)
            ]
        return _MARGIN * self._program.peak(self._shapes(given, known))

    def _shapes(self, given: Shapes, known: Mapping[str, int]) -> dict[str, list[int]]:
        """Of all values that have one, from the shapes of the inputs and the sizes that symbols have."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self._proto)
        for graph in proto_graphs(proto.graph):
            for info in (*graph.input, *graph.value_info, *graph.output):
                if info.name in given and info.type.HasField("tensor_type"):
                    _fix(info, given[info.name])
                elif info.type.HasField("tensor_type"):
                    _put_in(info, known)
        try:
            proto = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
        except Exception as error:  # what is known without it has to do
            _log.info("shape inference failed: %s", error)
        found: dict[str, list[int]] = {}
        for graph in proto_graphs(proto.graph):
            for info in (*graph.input, *graph.value_info, *graph.output):
                tensor = info.type.tensor_type
                if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
                    found[info.name] = [d.dim_value for d in tensor.shape.dim]
        return found


def _spell_out_sizes(model: ir.Model, proto: onnx.ModelProto) -> None:
    """Dimensions that inference left open and arithmetic on sizes tells, as products of symbols of the inputs."""
    symbols = Symbols()
    for node in model.graph:
        symbols.follow(node)
    told = {v.name: symbols.sizes(v) for node in model.graph for v in node.outputs}
    for info in (*proto.graph.value_info, *proto.graph.output):
        dims = info.type.tensor_type.shape.dim
        for dim, size in zip(dims, told.get(info.name) or (), strict=False):
            if not dim.HasField("dim_value") and Size.parse(str(size)) == size:
                dim.dim_param = str(size)


def _fix(info: onnx.ValueInfoProto, shape: Iterable[int]) -> None:
    tensor = info.type.tensor_type
    tensor.ClearField("shape")
    tensor.shape.SetInParent()
    for size in shape:
        tensor.shape.dim.add().dim_value = size


def _put_in(info: onnx.ValueInfoProto, known: Mapping[str, int]) -> None:
    """Numbers for the names of dimensions; no name stays, so that inference may find what it stands for."""
    for dim in info.type.tensor_type.shape.dim:
        if dim.HasField("dim_value"):
            continue
        size = Size.parse(dim.dim_param)
        dim.ClearField("dim_param")
        if size.number > 0 and all(s in known for s in size.symbols):
            dim.dim_value = size.number * prod(known[s] for s in size.symbols)


@dataclass(frozen=True)
class _Value:
    """`bytes` of an entry, None where it is no tensor of numbers; `near`: places of the operands that it is no larger than."""

    name: str
    bytes: float | None
    near: tuple[str, ...]


class _Program:
    """A graph as a list of what comes alive and what dies at every node."""

    def __init__(self, graph: ir.Graph, given: Iterable[ir.Value], half_bytes: int):
        alive = set(given)
        self.values: list[_Value] = []
        self.steps: list[tuple[list[int], list[int], list[_Program]]] = []
        index: dict[ir.Value, int] = {}
        kept = set(graph.outputs)
        nodes: list[ir.Node] = []
        for node in graph:
            if any(v in alive for v in node.inputs if v is not None) or _depends(node, alive):
                alive.update(node.outputs)
                nodes.append(node)
        last = {v: i for i, n in enumerate(nodes) for v in (*n.inputs, *_captured(n)) if v is not None}
        dies: dict[int, list[int]] = {}
        for i, node in enumerate(nodes):
            born = []
            near = tuple(v.name or "" for v in node.inputs if v is not None) if node.op_type in _NO_LARGER else ()
            for value in node.outputs:
                index[value] = len(self.values)
                born.append(index[value])
                self.values.append(_Value(value.name or "", _entry(value, half_bytes), near))
                if value not in kept:
                    dies.setdefault(last.get(value, i), []).append(index[value])
            inner = [_Program(g, [*alive, *g.inputs], half_bytes) for g in _bodies(node)]
            self.steps.append((born, [], inner))
        for i, values in dies.items():
            self.steps[i][1].extend(values)

    def peak(self, shapes: Shapes) -> float:
        """Bytes, for values of these shapes."""
        sizes = self._sizes(shapes)
        now = most = 0.0
        for born, dead, inner in self.steps:
            now += sum(sizes[i] for i in born)
            most = max(most, now + max((p.peak(shapes) for p in inner), default=0.0))
            now -= sum(sizes[i] for i in dead)
        return most

    def _sizes(self, shapes: Shapes) -> list[float]:
        told = [prod(shapes[v.name]) * v.bytes if v.bytes and v.name in shapes else None for v in self.values]
        largest = max((t for t in told if t is not None), default=0.0)
        entries: dict[str, int] = {}
        sizes: list[float] = []
        for value, size in zip(self.values, told, strict=True):
            near = [entries[n] if n in entries else prod(shapes[n]) for n in value.near if n in entries or n in shapes]
            if size is not None:
                sizes.append(size)
            elif value.bytes and near:
                entries[value.name] = max(near)
                sizes.append(max(near) * value.bytes)
            else:
                sizes.append(largest)
        return sizes


def _symbols(value: ir.Value) -> list[int | str | None] | None:
    return None if value.shape is None else [d if isinstance(d, int) else d.value for d in value.shape]


def _entry(value: ir.Value, half_bytes: int) -> float | None:
    if value.dtype is None or value.dtype == ir.DataType.STRING or not isinstance(value.type, ir.TensorType):
        return None
    return half_bytes if value.dtype in _HALVES else value.dtype.itemsize


_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def _bodies(node: ir.Node) -> list[ir.Graph]:
    return [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]


def _captured(node: ir.Node) -> set[ir.Value]:
    """Outer values that the bodies of a node read."""
    found: set[ir.Value] = set()
    for graph in _bodies(node):
        for inner in graph:
            found.update(v for v in (*inner.inputs, *_captured(inner)) if v is not None)
    return found


def _depends(node: ir.Node, alive: set[ir.Value]) -> bool:
    return not alive.isdisjoint(_captured(node))
