"""Shapes of loop-carried values: the one thing that inference does not find out about a Loop.

ONNX lets a carried value change shape from one iteration to the next, so shape inference leaves its shape open. Where
the body keeps the shape it is given, which is nearly always, induction says that it is the shape of the initial value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ig.graph.bodies import common_shape
from onnx_ig.graph.types import infer

__all__ = ["CHANGES", "declare_states"]

CHANGES = "onnx_ig.changes_shape"
"""Key in the `meta` of a carried value of a body: its shapes before and after one iteration where they differ."""

_ROUNDS = 12


@dataclass
class _State:
    initial: ir.Value
    carried: ir.Value
    following: ir.Value
    declared: ir.Shape | None  # what the file says of the carried value
    guessed_from: ir.Shape | None = None

    def guess(self) -> None:
        """The most precise shape that the carried value can have: that of its initial value."""
        self.guessed_from = self.initial.shape
        self.carried.shape = _filled(self.initial.shape, self.declared, (self.initial.shape,))

    def settle(self) -> bool:
        """Keep of the guess what the last inference does not contradict; guess anew where more has become known.

        Returns whether the shape of the carried value is another one than before.
        """
        before, after, old = self.initial.shape, self.following.shape, self.carried.shape
        if before is not None and after is not None and _differ(before, after):
            self.carried.meta.setdefault(CHANGES, (str(before), str(after)))
        if before != self.guessed_from:
            self.guess()
        else:
            self.carried.shape = _filled(common_shape(before, after), self.declared, (before, after))
        return old != self.carried.shape


def declare_states(model: ir.Model) -> None:
    """Give every carried value of every Loop the shape that all iterations keep, in place; inference goes on from it.

    What the file declares fills what this leaves open. A value that changes shape keeps the dimensions that do not
    change, and is marked (`CHANGES`) where that shows. Runs shape inference until nothing changes.
    """
    states = [s for graph in model.graphs() for s in _states(graph)]
    if not states:
        return
    for state in states:
        state.guess()
    for _ in range(_ROUNDS):
        infer(model)
        changed = [s.settle() for s in states]
        if not any(changed):
            return
    for state in states:
        state.carried.shape = None
    infer(model)


def _states(graph: ir.Graph) -> Iterator[_State]:
    for node in graph:
        if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
            continue
        body = node.attributes["body"].as_graph()
        for initial, carried, following in zip(node.inputs[2:], body.inputs[2:], body.outputs[1:], strict=False):
            if initial is not None and isinstance(carried.type, ir.TensorType):
                yield _State(initial, carried, following, carried.shape)


def _differ(a: ir.Shape, b: ir.Shape) -> bool:
    """Whether the shapes are provably different."""
    if len(a) != len(b):
        return True
    return any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a, b, strict=True))


def _filled(shape: ir.Shape | None, declared: ir.Shape | None, known: tuple[ir.Shape | None, ...]) -> ir.Shape | None:
    """`shape` with its open dimensions as declared, unless one of the shapes `known` contradicts the declaration."""
    if declared is None or any(k is not None and _differ(declared, k) for k in known):
        return shape
    if shape is None:
        return declared.copy()
    return ir.Shape([d if getattr(m, "value", m) is None else m for m, d in zip(shape, declared, strict=True)])
