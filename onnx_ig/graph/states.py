"""Shapes of loop-carried values: the one thing that inference does not find out about a Loop.

ONNX lets a carried value change shape from one iteration to the next, so shape inference leaves its shape open. Where
the body keeps the shape it is given, which is nearly always, induction says that it is the shape of the initial value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from onnx_ig.graph.subgraphs import subgraphs

__all__ = ["CHANGES", "declare_states"]

CHANGES = "onnx_ig.changes_shape"
"""Key in the `meta` of a carried value of a body: its shapes before and after one iteration where they differ."""

_ROUNDS = 12


@dataclass
class _State:
    initial: ir.Value
    carried: ir.Value
    following: ir.Value
    final: ir.Value
    declared: ir.Shape | None  # what the file says of the carried value

    def settle(self) -> bool:
        """Give the carried value the most precise shape that the last inference does not contradict.

        Returns whether that is another one than before.
        """
        before, after = self.initial.shape, self.following.shape
        if before is not None and after is not None and _differ(before, after):
            self.carried.meta.setdefault(CHANGES, (str(before), str(after)))
        shape = _filled(_common(before, after), self.declared, (before, after))
        changed = self.carried.shape != shape
        self.carried.shape = shape
        if not self.final.is_graph_output():
            self.final.shape = _common(before, after)
        return changed


def declare_states(model: ir.Model) -> None:
    """Give every carried value of every Loop, and its final value, the shape that all iterations keep, in place.

    What the file declares fills what this leaves open. A value that changes shape keeps the dimensions that do not
    change, and is marked (`CHANGES`) where that shows. Runs shape inference until nothing changes.
    """
    states = [s for graph in model.graphs() for s in _states(graph)]
    if not states:
        return
    for state in states:
        state.carried.shape = _filled(state.initial.shape, state.declared, (state.initial.shape,))
    for _ in range(_ROUNDS):
        _infer_bodies(model, states)
        changed = [s.settle() for s in states]
        if not any(changed):
            return
    for state in states:
        state.carried.shape = None
        if not state.final.is_graph_output():
            state.final.shape = None
    _infer_bodies(model, states)


def _states(graph: ir.Graph) -> Iterator[_State]:
    for node in graph:
        if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
            continue
        body = node.attributes["body"].as_graph()
        carried = body.inputs[2:]
        for parts in zip(node.inputs[2:], carried, body.outputs[1:], node.outputs, strict=False):
            initial, inside = parts[0], parts[1]
            if initial is not None and isinstance(inside.type, ir.TensorType):
                yield _State(initial, *parts[1:], inside.shape)


def _infer_bodies(model: ir.Model, states: list[_State]) -> None:
    """Infer again what may rest on a shape of a carried value that did not hold."""
    for node in model.graph.all_nodes():
        if node.op_type == "Loop":
            for graph in subgraphs(node):
                for child in graph.all_nodes():
                    for value in child.outputs:
                        if not value.is_graph_output():
                            value.shape = None
    for state in states:
        if state.following.producer() is not None:  # and not an input of the body, handed on as it is
            state.following.shape = None
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)


def _differ(a: ir.Shape, b: ir.Shape) -> bool:
    """Whether the shapes are provably different."""
    if len(a) != len(b):
        return True
    return any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a, b, strict=True))


def _common(a: ir.Shape | None, b: ir.Shape | None) -> ir.Shape | None:
    """What holds for both: dimensions that are the same number or the same symbol."""
    if a is None or b is None or len(a) != len(b):
        return None
    return ir.Shape([m if m == n and getattr(m, "value", m) is not None else None for m, n in zip(a, b, strict=True)])


def _filled(shape: ir.Shape | None, declared: ir.Shape | None, known: tuple[ir.Shape | None, ...]) -> ir.Shape | None:
    """`shape` with its open dimensions as declared, unless one of the shapes `known` contradicts the declaration."""
    if declared is None or any(k is not None and _differ(declared, k) for k in known):
        return shape
    if shape is None:
        return declared.copy()
    return ir.Shape([d if getattr(m, "value", m) is None else m for m, d in zip(shape, declared, strict=True)])
