"""Recurrent operators with the batch first, a form that ONNX Runtime does not run."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_ig.graph.names import Names
from onnx_ig.graph.upgrade.adapter import Inserter, Old

__all__ = ["put_time_first"]

_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
_SEQUENCES, _STATES = [2, 0, 1, 3], [1, 0, 2]  # [S, D, N, H] to [N, S, D, H], [D, N, H] to [N, D, H] and back


def put_time_first(model: ir.Model) -> None:
    """Rewrite RNN, GRU and LSTM with layout 1 as layout 0 between transposes, in place. Source: ONNX LSTM-14."""
    names = Names(model)
    for graph in model.graphs():
        op = Inserter(graph, names, model.opset_imports[""])
        for node in list(graph):
            if node.domain == "" and node.op_type in _RECURRENT and node.attributes.get_int("layout", 0) == 1:
                _rewrite(Old(node, op))


def _rewrite(o: Old) -> None:
    operands: list[Any] = list(o.node.inputs)
    for index in (0, 5, 6):  # X, initial_h, initial_c
        if o.operand(index) is not None:
            operands[index] = o.op.Transpose(o.operand(index), perm=[1, 0, 2])
    attributes = {a.name: a.value for a in o.node.attributes.values() if a.name != "layout"}
    count = len(o.node.outputs)
    results = o.op.node(o.node.op_type, tuple(operands), attributes, outputs=count)
    found = []
    for index, result in enumerate(results if count > 1 else (results,)):
        if o.named_output(index):
            found.append(o.op.Transpose(result, perm=_STATES if index else _SEQUENCES))
        else:
            result.name = ""
            found.append(result)
    o.replace(*found)
