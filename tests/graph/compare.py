"""A model and what `prepare` makes of it, side by side in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper, numpy_helper, parser

from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare

Arrays = Mapping[str, np.ndarray]


def node_model(
    node: onnx.NodeProto | Sequence[onnx.NodeProto],
    feeds: Arrays,
    opset: int,
    *,
    stored: Arrays | None = None,
    ranked: bool = True,
    ir_version: int = 7,
    imports: Sequence[onnx.OperatorSetIdProto] | None = None,
    outputs: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """Nodes as a model of an old opset; `stored` are initializers. Dimensions are symbols, or not even counted."""
    nodes = [node] if isinstance(node, onnx.NodeProto) else list(node)
    names = outputs or [o for o in nodes[-1].output if o]
    graph = helper.make_graph(
        nodes,
        "g",
        [_declared(name, array, ranked) for name, array in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in names],
        [numpy_helper.from_array(array, name) for name, array in (stored or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=list(imports or [helper.make_opsetid("", opset)]), ir_version=ir_version
    )


def _declared(name: str, array: np.ndarray, ranked: bool) -> onnx.ValueInfoProto:
    dims = [f"{name}_{i}" for i in range(array.ndim)] if ranked else None
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims)


def run(model: onnx.ModelProto, feeds: Arrays) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def assert_same(
    model: onnx.ModelProto, feeds: Arrays, expected: Sequence[np.ndarray] | None = None, tolerance: float = 1e-6
) -> ir.Model:
    """Prepare `model`, and compare it with the original (or with `expected`) on `feeds`; returns the prepared model."""
    if expected is None:
        expected = run(model, feeds)
    prepared = prepare(load(model))
    proto = ir.to_proto(prepared)
    if all(v.type.tensor_type.HasField("shape") for v in (*proto.graph.input, *proto.graph.output)):
        onnx.checker.check_model(proto, check_custom_domain=False)
    found = run(proto, feeds)
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        assert_close(one, other, tolerance)
    return prepared


def assert_close(one: Any, other: Any, tolerance: float) -> None:
    if not isinstance(one, np.ndarray):
        assert one == other
        return
    assert (one.shape, one.dtype) == (other.shape, other.dtype)
    if one.dtype.kind != "f":
        assert (one == other).all()
        return
    scale = max(1.0, float(np.abs(one[np.isfinite(one)]).max(initial=0.0)))
    np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


def operators(model: ir.Model) -> list[str]:
    """Operators of all graphs, in order."""
    return [node.op_type for graph in model.graphs() for node in graph]


def parse(text: str, opset: int = 20, ir_version: int = 8, imports: str = "") -> onnx.ModelProto:
    """A model from its text."""
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}{imports}]>\n{text}')


def values(model: ir.Model) -> list[ir.Value]:
    return [
        v
        for graph in model.graphs()
        for v in (*graph.inputs, *graph.initializers.values(), *(o for n in graph for o in n.outputs))
    ]


def assert_unique(model: ir.Model) -> None:
    named = [v.name for v in dict.fromkeys(values(model)) if v.name]
    assert len(named) == len(set(named))
    nodes = [n.name for graph in model.graphs() for n in graph]
    assert all(nodes)
    assert len(nodes) == len(set(nodes))
