"""Conditions that are known before the model runs."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["settle_branches"]


def settle_branches(model: ir.Model) -> bool:
    """Put the branch that is always taken in place of every If whose condition is a constant.

    Exporters leave such a question where a shape decides (a squeeze that depends on a length); the branches often differ
    in rank, so that nothing behind would have a shape. Names must be unique in the model. Returns whether there was one.
    """
    found = False
    for graph in list(model.graphs()):
        for node in list(graph):
            if node.graph is not graph or node.domain != "" or node.op_type != "If":
                continue
            condition = node.inputs[0]
            if condition is None or condition.const_value is None or condition.is_graph_input():
                continue
            taken = bool(condition.const_value.numpy().all())
            _put_in_place(node, node.attributes["then_branch" if taken else "else_branch"].as_graph())
            found = True
    return found


def _put_in_place(node: ir.Node, branch: ir.Graph) -> None:
    outer = node.graph
    assert outer is not None
    results = list(branch.outputs)
    branch.outputs.clear()
    for name, value in list(branch.initializers.items()):
        del branch.initializers[name]
        outer.register_initializer(value)
    nodes = list(branch)
    branch.remove(nodes)
    outer.insert_before(node, nodes)
    own = {value for inner in nodes for value in inner.outputs}
    for output, result in zip(node.outputs, results, strict=True):
        if result in own:
            own.remove(result)
        else:  # an outer value, a constant, or one that stands for two outputs: a name of its own
            identity = ir.Node("", "Identity", [result], name=f"{node.name}_{output.name}")
            outer.insert_before(node, identity)
            result = identity.outputs[0]
            result.type, result.shape = output.type, output.shape
        called, output.name = output.name, None
        result.name = called
        output.replace_all_uses_with(result, replace_graph_outputs=True)
    outer.remove(node, safe=True)
