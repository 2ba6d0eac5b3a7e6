"""Types and shapes of Attention: onnx's inference says 0 for lengths that are sums or products of open dimensions."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["attention_outputs"]

Dim = int | ir.SymbolicDim | None
Known = tuple["ir.TypeProtocol | None", "ir.Shape | None"]


def attention_outputs(node: ir.Node) -> list[Known]:
    """Of each output of a standard Attention node. Source: ONNX Attention-23 to 25, "Outputs"."""
    q, k, v, past = _dims(node, 0), _dims(node, 1), _dims(node, 2), _dims(node, 4)
    query_heads, heads = (node.attributes.get_int(name) for name in ("q_num_heads", "kv_num_heads"))
    shapes: list[list[Dim] | None] = [None] * 4
    if q is not None and k is not None and v is not None and len(q) == len(k) == len(v):
        packed = len(q) == 3
        if packed:
            q = [q[0], query_heads, q[1], _quotient(q[2], query_heads)]
            k, v = ([x[0], heads, x[1], _quotient(x[2], heads)] for x in (k, v))
        total = k[2] if _type(node, 4) is None else _sum(None if past is None else past[2], k[2])
        shapes = [
            [q[0], q[2], _product(query_heads, v[3])] if packed else [*q[:3], v[3]],
            [k[0], k[1], total, k[3]],
            [v[0], v[1], total, v[3]],
            [*q[:3], total],
        ]
    types = [_type(node, index) for index in (0, 1, 2, 0)]
    known = [(t, None if s is None else ir.Shape(s)) for t, s in zip(types, shapes, strict=True)]
    return known[: len(node.outputs)]


def _dims(node: ir.Node, index: int) -> list[Dim] | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None or value.shape is None else list(value.shape)


def _type(node: ir.Node, index: int) -> ir.TypeProtocol | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else value.type


def _quotient(a: Dim, b: int | None) -> int | None:
    return a // b if isinstance(a, int) and b else None


def _product(a: int | None, b: Dim) -> int | None:
    return a * b if a is not None and isinstance(b, int) else None


def _sum(a: Dim, b: Dim) -> int | None:
    return a + b if isinstance(a, int) and isinstance(b, int) else None
