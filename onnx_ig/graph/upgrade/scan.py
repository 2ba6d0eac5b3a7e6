"""Scan-8."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.upgrade.adapter import Old, adapter


@adapter("Scan", until=9)
def scan(o: Old) -> None:
    """Scan-8 has a batch axis ahead of everything: a Scan-9 over the samples, whose body is a Scan-9 over the sequence.

    The final states [batch, ...] are then scan outputs of the outer one. Raises ModelError where sequence lengths are
    given, for which later opsets have no form.
    """
    if o.operand(0) is not None:
        raise o.refuse("its operand sequence_lens has no counterpart in later opsets")
    count, directions = o.take("num_scan_inputs"), o.take("directions")
    body = o.node.attributes.pop("body").as_graph()
    outer = [v for v in o.node.inputs[1:] if v is not None]
    inner = [_sample(o, v) for v in outer]
    attributes = {"num_scan_inputs": count, "scan_input_directions": directions or None}
    step = ir.Node(
        "",
        "Scan",
        inner,
        [
            ir.AttrGraph("body", body),
            *ir.convenience.convert_attributes({k: v for k, v in attributes.items() if v is not None}),
        ],
        num_outputs=len(o.node.outputs),
        version=9,
        name=o.op.node_name("Scan"),
    )
    for output in step.outputs:
        output.name = o.op.names.numbered("ig")
    graph = ir.Graph(inner, list(step.outputs), nodes=[step], name=o.op.names.fresh("ig_sample"))
    o.node.attributes["body"] = ir.AttrGraph("body", graph)
    o.put("num_scan_inputs", len(outer))
    for index, value in enumerate(outer):
        o.put_operand(index, value)
    o.node.resize_inputs(len(outer))


def _sample(o: Old, value: ir.Value) -> ir.Value:
    shape = None if value.shape is None else ir.Shape(value.shape[1:])
    return ir.Value(name=o.op.names.numbered("ig"), type=value.type, shape=shape)
