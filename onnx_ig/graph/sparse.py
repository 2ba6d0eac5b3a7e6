"""Sparse weights, which onnx_ir does not read, as the dense ones that they stand for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["proto_graphs", "without_sparse"]


def without_sparse(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with sparse initializers and sparse constants written out; `proto` itself where it has none.

    `proto` is not changed. Source: ONNX SparseTensorProto, IR specification.
    """
    if not any(_is_sparse(graph) for graph in proto_graphs(proto.graph)):
        return proto
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    for graph in proto_graphs(changed.graph):
        for tensor in graph.sparse_initializer:
            graph.initializer.append(_dense(tensor, tensor.values.name))
        graph.ClearField("sparse_initializer")
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name == "sparse_value" and node.op_type == "Constant":
                    dense = _dense(attribute.sparse_tensor, "")
                    attribute.CopyFrom(onnx.helper.make_attribute("value", dense))
    return changed


def _is_sparse(graph: onnx.GraphProto) -> bool:
    return bool(graph.sparse_initializer) or any(a.name == "sparse_value" for n in graph.node for a in n.attribute)


def proto_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all graphs inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from proto_graphs(inner)


def _dense(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    """Indices are [count], into the flattened tensor, or [count, rank]."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return numpy_helper.from_array(dense, name)
