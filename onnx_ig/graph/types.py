"""Element types and shapes of all values of a model, as far as they can be told before it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx
import onnx_ir as ir

from onnx_ig.graph.fill import Known, fill, known
from onnx_ig.graph.resize_shapes import rounds
from onnx_ig.graph.sparse import proto_graphs

__all__ = ["bare_copy", "infer", "infer_missing"]

_log = logging.getLogger(__name__)
_KEPT_BYTES = 1024  # constants up to here stay in the copy that inference sees: shapes, axes, sizes
_UNKNOWN = "onnx_ig.unknown"
_ROUNDS = 6  # each fills what the one before could not know; few models need a third


def infer(model: ir.Model) -> None:
    """Infer types and shapes of all values from those of the graph inputs, without looking at weights.

    What the file declares for computed values is dropped first: exporters and optimisers leave stale types and shapes,
    and a wrong one is worse than none. It comes back only where nothing could be inferred: the type of any value, the
    shape of a graph output. What onnx's inference does not know (operators of ONNX Runtime's own domain, shapes of
    tables, ranks and axes that it gives up on) is filled in, and inference goes on from there.

    Never fails: where inference does, values stay without types or shapes. Value names must be unique in the model.
    """
    graphs = list(model.graphs())
    declared = {v: (v.type, v.shape) for graph in graphs for node in graph for v in node.outputs}
    filled: dict[ir.Value, Known] = {}
    for _ in range(_ROUNDS):
        for value in declared:
            value.type, value.shape = filled.get(value, (None, None))
        _run(model, graphs)
        found = fill(graphs, model.opset_imports, {v: known for v, known in declared.items() if v not in filled})
        if not found:
            break
        filled.update(found)
    outputs = set(model.graph.outputs)
    for value, (value_type, shape) in declared.items():
        if value.type is None:
            value.type = value_type
        if value in outputs and shape is not None:
            value.shape = _merged(value.shape, shape)


def infer_missing(model: ir.Model) -> None:
    """Infer types and shapes of emitted values, which have none yet; what is known stays. Never fails."""
    _run(model, list(model.graphs()))


def bare_copy(model: ir.Model) -> onnx.ModelProto:
    """The model as onnx's inference is to see it: large weights are inputs, small constants are spelled out.

    Operators whose inference is wrong are of a domain that it does not know.
    """
    graphs = list(model.graphs())
    with _weights_as_inputs(model.graph, graphs):
        proto = ir.to_proto(model)
        _spell_out_constants(model.graph, proto.graph)
    proto.ir_version = max(proto.ir_version, 10)
    rounded = {n.outputs[0].name for graph in graphs for n in graph if rounds(n)}
    for node in (n for copied in proto_graphs(proto.graph) for n in copied.node):
        if node.domain:
            continue
        if node.op_type == "Attention" or (node.op_type == "Resize" and node.output[0] in rounded):
            node.domain = _UNKNOWN  # its inference is wrong: see attention_shapes and resize_shapes
    return proto


def _run(model: ir.Model, graphs: Sequence[ir.Graph]) -> None:
    """One pass of onnx's inference; fills what is missing and changes nothing else."""
    proto = bare_copy(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
    except Exception as error:  # inference is a help, and what it raises on malformed graphs is of many kinds
        _log.info("shape inference failed: %s", error)
        return
    found = {info.name: info for graph in proto_graphs(inferred.graph) for info in (*graph.value_info, *graph.output)}
    for graph in graphs:
        for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
            info = found.get(value.name or "")
            if info is not None and (value.type is None or value.shape is None):
                value_type, shape = known(info)
                value.type = value.type or value_type
                value.shape = shape if value.shape is None else value.shape


def _spell_out_constants(graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Small constants that nodes compute, as Constant nodes of the copy: inference looks through few operators."""
    for node, written in zip(graph, proto.node, strict=True):
        value = node.outputs[0]
        tensor = value.const_value
        if len(node.outputs) == 1 and tensor is not None and tensor.nbytes <= _KEPT_BYTES:
            constant = onnx.helper.make_node("Constant", [], [value.name or ""], value=ir.to_proto(tensor))
            written.CopyFrom(constant)


@contextmanager
def _weights_as_inputs(main: ir.Graph, graphs: Sequence[ir.Graph]) -> Iterator[None]:
    """Large initializers of all graphs are inputs of the main graph for a while; inner graphs see them there too."""
    inputs = len(main.inputs)
    initializers = [(graph, dict(graph.initializers)) for graph in graphs]
    try:
        for graph, values in initializers:
            for name, value in values.items():
                tensor = value.const_value
                if tensor is None or tensor.nbytes <= _KEPT_BYTES:
                    continue
                value.type = ir.TensorType(tensor.dtype)
                value.shape = ir.Shape(tensor.shape.numpy())
                del graph.initializers[name]
                if not value.is_graph_input():
                    main.inputs.append(value)
        yield
    finally:
        while len(main.inputs) > inputs:
            main.inputs.pop()
        for graph, values in initializers:
            graph.initializers.clear()
            graph.initializers.update(values)


def _merged(inferred: ir.Shape | None, declared: ir.Shape) -> ir.Shape | None:
    """Names of dimensions that inference left open, as the file declares them for a graph output.

    Numbers are not taken over: files declare a batch of 1, or the sides of one picture, for outputs that follow the input;
    nor is a scalar, which is what is left of a batch of 1 after Squeeze.
    """
    if inferred is None and not len(declared):
        return None
    if inferred is not None and len(inferred) != len(declared):
        return inferred
    known = list(inferred) if inferred is not None else [ir.SymbolicDim(None)] * len(declared)
    return ir.Shape([b if _open(a) and not isinstance(b, int) else a for a, b in zip(known, declared, strict=True)])


def _open(dim: int | ir.SymbolicDim) -> bool:
    return not isinstance(dim, int) and (dim.value is None or str(dim.value).startswith("unk__"))
