"""`add_gradients`: a model and its gradients in one ONNX model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ig.errors import OnnxIgWarning
from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.load import ModelLike, load
from onnx_ig.graph.maps import NOTES, warn_of
from onnx_ig.graph.names import Names
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.save import check_place, deliver
from onnx_ig.graph.sources import default_sources, float_value, graph_values, named, only_float_output
from onnx_ig.graph.types import infer_missing
from onnx_ig.reverse import reverse
from onnx_ig.rules import lowering_named, rule_set_named
from onnx_ig.rules.view import in_type
from onnx_ig.twin import Twin

__all__ = ["add_gradients"]


def add_gradients(
    model: ModelLike,
    of: str | Sequence[str] | None = None,
    wrt: str | Sequence[str] | None = None,
    *,
    rules: str = "gradient",
    quantized: str = "straight-through",
    runtime: str = "generic",
    save_as: str | os.PathLike[str] | None = None,
) -> onnx.ModelProto:
    """The model with its reverse-mode gradient beside it.

    Every original input and output stays, in order. For each value of `of` an input `grad_<of>` is added, the cotangent,
    of its type and shape; for each value of `wrt` an output `grad_<wrt>`, of its type and shape: the vector-Jacobian
    product, summed over all of `of`.

    Args:
        model: a path, `onnx.ModelProto`, `onnx_ir.Model` or graphsurgeon `Graph`; it is not changed.
        of: float values by name, graph outputs or internal; default: the only float output.
        wrt: float values by name, graph inputs or internal; default: every attributable input.
        rules: "gradient", "guided_backprop" or "deeplift".
        quantized: "straight-through" takes the roundings of a quantised model for the identity inside their range;
            "refuse" refuses them.
        runtime: which forms to emit: "generic", "cpu", "cuda", "tensorrt", "openvino" or "web".
        save_as: also write the model to this file, its weights beside it where they were or where they exceed 2 GB (the
            message returned then names them by file).

    Raises:
        ModelError: the model cannot be read or written.
        OptionError: a name is unknown, given twice or not that of a float value, or an option is unknown.
        UnsupportedOperatorError: nodes on the path have no derivative; all are listed.

    Warns:
        OnnxIgWarning: a `wrt` has no path to `of` except through zero derivatives; its gradient is zero. Or an output that
            holds dictionaries is left out.
    """
    if save_as is not None:
        check_place(save_as)
    rule_set, lowering = rule_set_named(rules, quantized), lowering_named(runtime)
    prepared = prepare(load(model), rule_set.knows)
    graph = prepared.graph
    warn_of(graph.meta.get(NOTES, ()))
    values = graph_values(graph)
    outputs = [float_value(values, name, "of") for name in named(of, "of") or [only_float_output(graph)]]
    sources = [float_value(values, name, "wrt") for name in named(wrt, "wrt") or default_sources(graph)]
    op = Emitter(graph, Names(prepared), prepared.opset_imports[""])
    cotangents = [_cotangent_input(op, value) for value in outputs]
    references: dict[ir.Value, ir.Value] = {}
    if rule_set.compares:
        references = {value: _reference_input(op, value) for value in sources}
    nodes = list(graph)
    twin = Twin(nodes, references, op) if references else None
    walk = reverse(
        nodes, outputs, cotangents, sources, op=op, rules=rule_set, lowering=lowering,
        reference=twin.value if twin else None,
    )  # fmt: skip
    for value, cotangent in zip(sources, walk.cotangents, strict=True):
        if cotangent is None:
            _warn_no_path(value, walk.zeros)
            zero = ir.tensor(np.zeros(1, value.dtype.numpy()))  # type: ignore[union-attr]
            cotangent = op.ConstantOfShape(op.Shape(value), value=zero)
        result = op.Identity(in_type(op, cotangent, value.dtype))
        result.name = op.names.fresh(f"grad_{value.name}")
        result.type, result.shape = value.type, value.shape
        graph.outputs.append(result)
    infer_missing(prepared)
    return deliver(prepared, save_as)


def _cotangent_input(op: Emitter, value: ir.Value) -> ir.Value:
    given = ir.Value(name=op.names.fresh(f"grad_{value.name}"), type=value.type, shape=value.shape)
    op.graph.inputs.append(given)
    return given


def _reference_input(op: Emitter, value: ir.Value) -> ir.Value:
    given = ir.Value(name=op.names.fresh(f"{value.name}_reference"), type=value.type, shape=value.shape)
    op.graph.inputs.append(given)
    return given


def _warn_no_path(value: ir.Value, zeros: Sequence[ir.Node]) -> None:
    where = ", ".join(f"{n.op_type} ({n.name})" for n in zeros[:5])
    reason = f"every path runs through operators of zero derivative: {where}" if where else "no path connects them"
    warnings.warn(f"the gradient of {value.name!r} is zero: {reason}", OnnxIgWarning, stacklevel=3)
