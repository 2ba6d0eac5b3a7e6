"""Putting a step model into another graph: inline, or as the body of a Loop over the steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.sources import graph_values

__all__ = ["inline_steps", "loop_over_steps"]


def inline_steps(op: Emitter, step: ir.Model, given: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
    """Move the nodes of `step` into the emitter's graph; `given` stands for its inputs.

    Nodes and weights that the graph has already, under the same name, are used from there. Returns {output: value}.
    """
    outputs = {v.name or "": v for v in step.graph.outputs}
    _keep_sizes_apart(op, step)
    _move(op.graph, graph_values(op.graph), step, given)
    return outputs


def loop_over_steps(
    op: Emitter,
    step: ir.Model,
    given: Mapping[str, ir.Value],
    alphas: ir.Value,
    weights: ir.Value,
    totals: Mapping[str, ir.Value],
) -> dict[str, ir.Value]:
    """A Loop whose iteration i runs `step` on column block i of `alphas` and `weights` ([K, n, s], any n by broadcasting).

    `totals` maps the outputs of `step` that are summed to their start (zeros of their shape and type).
    Weights are read from the outer graph, so that the file holds them once. Returns {output: sum}.
    """
    iteration = _value(op, "ig_iteration", ir.DataType.INT64, [])
    condition = _value(op, "ig_condition", ir.DataType.BOOL, [])
    carried = {name: _value(op, "ig_total", v.dtype, v.shape) for name, v in totals.items()}
    body = ir.Graph([iteration, condition, *carried.values()], [], nodes=[], name=op.names.numbered("ig_steps"))
    inner = op.scope(body)
    block = {
        "ig:alphas": inner.Gather(alphas, iteration, axis=0),
        "ig:weights": inner.Gather(weights, iteration, axis=0),
    }
    found = {v.name or "": v for v in step.graph.outputs}
    _keep_sizes_apart(op, step)
    _move(body, graph_values(op.graph), step, {**given, **block})
    body.outputs.append(inner.Identity(condition))
    for name, total in carried.items():
        body.outputs.append(inner.Add(total, found[name]))
    going = op.constant(np.asarray(True))  # onnx.reference runs a Loop without a condition no times
    sums = op.node(
        "Loop", (op.Gather(op.Shape(alphas), 0), going, *totals.values()), {"body": body}, outputs=max(1, len(totals))
    )
    results = sums if isinstance(sums, tuple) else (sums,)
    for name, result in zip(totals, results, strict=True):
        result.type, result.shape = totals[name].type, totals[name].shape
    return dict(zip(totals, results, strict=True))


def _value(op: Emitter, stem: str, dtype: ir.DataType | None, shape: ir.Shape | list[int] | None) -> ir.Value:
    value = ir.Value(name=op.names.numbered(stem), shape=ir.Shape(shape) if isinstance(shape, list) else shape)
    if dtype is not None:
        value.dtype = dtype
    return value


def _keep_sizes_apart(op: Emitter, step: ir.Model) -> None:
    """Give dimensions that inference numbered in `step` names that the emitter's graph does not have.

    The two graphs were inferred apart, so the same number stands for different sizes, and a runtime that takes them for
    one lets values share memory that does not fit.
    """
    new: dict[str, str] = {}

    def renamed(dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim | str:
        name = None if isinstance(dim, int) else dim.value
        if name is None or not name.startswith("unk__"):
            return dim
        if name not in new:
            new[name] = op.names.numbered("ig_size")
        return new[name]

    for graph in step.graphs():
        for value in (v for node in graph for v in node.outputs):
            if value.shape is not None:
                value.shape = ir.Shape([renamed(d) for d in value.shape])


def _move(graph: ir.Graph, present: Mapping[str, ir.Value], step: ir.Model, given: Mapping[str, ir.Value]) -> None:
    source = step.graph
    inputs = {v.name or "": v for v in source.inputs}
    source.inputs.clear()
    source.outputs.clear()
    for name, value in inputs.items():
        value.replace_all_uses_with(given[name])
    for value in list(source.initializers.values()):
        name = value.name or ""
        if name in present:
            value.replace_all_uses_with(present[name])
            continue
        source.initializers.pop(name)
        graph.register_initializer(value)
    for node in list(source):
        names = [v.name or "" for v in node.outputs]
        if names and all(n in present for n in names if n):
            for value in node.outputs:
                if value.name:
                    value.replace_all_uses_with(present[value.name])
            continue
        source.remove(node)
        graph.append(node)
