"""What inference needs to know of Loop, Scan and If bodies, and files may keep outside them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_ig.graph.emit import is_float
from onnx_ig.graph.names import Names

__all__ = ["common_shape", "declare_bodies", "final_values", "own_constants"]

_SMALL_BYTES = 1024
_SIZED_BY_FLOATS = frozenset({"Range", "Resize", "Upsample"})

Known = tuple["ir.TypeProtocol | None", "ir.Shape | None"]


def declare_bodies(model: ir.Model) -> bool:
    """Give every body input without a type or shape those of the operand that it stands for, in place.

    Files may leave these out, and inference does not write down what it makes of them. Returns whether any was given, so
    that inference can go on from there. A Loop's carried values get no shape: one iteration may change it.
    """
    changed = False
    for graph in model.graphs():
        for node in graph:
            if node.domain != "" or node.op_type not in ("Loop", "Scan"):
                continue
            body = node.attributes["body"].as_graph()
            for value, (value_type, shape) in zip(body.inputs, _known(node), strict=False):
                if value.type is None and value_type is not None:
                    value.type, changed = value_type, True
                if value.shape is None and shape is not None:
                    value.shape, changed = shape, True
    return changed


def final_values(loop: ir.Node) -> list[Known]:
    """Types and shapes of a Loop's outputs that follow from its carried values; nothing of its scan outputs.

    After no iteration a final value is the initial one, else what the body hands on: what holds for both is known.
    """
    body = loop.attributes["body"].as_graph()
    found: list[Known] = [(None, None)] * len(loop.outputs)
    for index, (initial, following) in enumerate(zip(loop.inputs[2:], body.outputs[1:], strict=False)):
        if initial is not None:
            found[index] = (following.type or initial.type, common_shape(initial.shape, following.shape))
    return found


def common_shape(a: ir.Shape | None, b: ir.Shape | None) -> ir.Shape | None:
    """What holds for both: dimensions that are the same number or the same symbol."""
    if a is None or b is None or len(a) != len(b):
        return None
    return ir.Shape([m if m == n and getattr(m, "value", m) is not None else None for m, n in zip(a, b, strict=True)])


def own_constants(model: ir.Model) -> None:
    """Give every body its own copy of the small outer constants that it reads, in place.

    Inference reads axes and sizes only in the graph that uses them. Weights are shared: they may be differentiated.
    """
    names = Names(model)
    for graph in model.graphs():
        if graph is model.graph:
            continue
        owned: dict[ir.Value, ir.Value] = {}
        for node in graph:
            for index, value in enumerate(node.inputs):
                if value is None or not _is_small_constant(value) or value in graph.initializers.values():
                    continue
                if is_float(value.dtype) and node.op_type not in _SIZED_BY_FLOATS:
                    continue
                if value not in owned:
                    copy = ir.Value(name=names.fresh(value.name or "constant"), const_value=value.const_value)
                    copy.type, copy.shape = value.type, value.shape
                    graph.register_initializer(copy)
                    owned[value] = copy
                node.replace_input_with(index, owned[value])


def _is_small_constant(value: ir.Value) -> bool:
    tensor = value.const_value
    return (
        value.is_initializer() and not value.is_graph_input() and tensor is not None and tensor.nbytes <= _SMALL_BYTES
    )


def _known(node: ir.Node) -> Iterator[Known]:
    if node.op_type == "Loop":
        yield ir.TensorType(ir.DataType.INT64), ir.Shape([])
        yield ir.TensorType(ir.DataType.BOOL), ir.Shape([])
        for value in node.inputs[2:]:
            yield (None, None) if value is None else (value.type, None)
        return
    scanned = node.attributes["num_scan_inputs"].as_int()
    axes = node.attributes.get("scan_input_axes")
    states = len(node.inputs) - scanned
    for index, value in enumerate(node.inputs):
        if value is None:
            yield None, None
        elif index < states:
            yield value.type, None if value.shape is None else value.shape.copy()
        else:
            axis = 0 if axes is None else axes.as_ints()[index - states]
            yield value.type, _without(value.shape, axis)


def _without(shape: ir.Shape | None, axis: int) -> ir.Shape | None:
    if shape is None:
        return None
    dims = list(shape)
    del dims[axis]
    return ir.Shape(dims)
