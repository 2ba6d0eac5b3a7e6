"""Graphs of operators that move, join, cut and mix axes, drawn at random; the runtime has accepted every node of them.

Lengths other than the batch's are often as long as it is, so that a mistaken axis runs and shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.graph.compare import run

__all__ = ["ROWS", "Growing"]

ROWS = 3


class Growing:
    """A graph that grows by nodes which the runtime accepts.

    `fixed` is the number of rows that the file fixes; then nodes may hold it in their constants.
    """

    def __init__(self, seed: int, fixed: int | None = None):
        self.draw = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.choices = CHOICES if fixed is None else [*CHOICES, *BAKED]
        self.rows = fixed or "N"
        self.feeds = self.samples(fixed or ROWS)
        self.values: dict[str, np.ndarray] = dict(self.feeds)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, np.ndarray] = {}

    def floats(self, *shape: int) -> np.ndarray:
        return self.numbers.standard_normal(shape).astype(np.float32)

    def samples(self, rows: int) -> dict[str, np.ndarray]:
        return {"x": self.floats(rows, 4), "z": self.floats(rows, 2, 3), "i": self.numbers.integers(0, 2, (rows, 2))}

    def const(self, value: Any) -> str:
        name = f"c{len(self.stored)}"
        self.stored[name] = np.asarray(value)
        return name

    def any(self, kind: str = "fi") -> str:
        return self.draw.choice([n for n, v in self.values.items() if v.dtype.kind in kind])

    def model(self, nodes: list[onnx.NodeProto], outputs: list[str]) -> onnx.ModelProto:
        graph = helper.make_graph(
            nodes,
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, [self.rows, 4]),
                helper.make_tensor_value_info("z", TensorProto.FLOAT, [self.rows, 2, 3]),
                helper.make_tensor_value_info("i", TensorProto.INT64, [self.rows, 2]),
            ],
            [helper.make_empty_tensor_value_info(o) for o in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.stored.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def grow(self, out: str) -> None:
        choice = self.draw.choice(self.choices)
        a = self.any("f")
        axis = self.draw.randrange(max(1, self.values[a].ndim))
        nodes = choice(self, a, axis, out)
        outputs = [o for n in nodes for o in n.output]
        try:
            results = run(self.model([*self.nodes, *nodes], outputs), self.feeds)
        except Exception:  # shapes that do not fit: not a graph
            return
        if all(r.size < 3000 for r in results):
            self.nodes += nodes
            self.values.update(zip(outputs, results, strict=True))

    def ending_at(self, output: str) -> onnx.ModelProto:
        needed, kept = {output}, []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.insert(0, node)
                needed |= set(node.input)
        return self.model(kept, [output])


Choice = Callable[[Growing, str, int, str], list[onnx.NodeProto]]
N = helper.make_node


def _length(g: Growing, out: str) -> list[onnx.NodeProto]:
    value = g.any()
    place = g.draw.randrange(max(1, g.values[value].ndim))
    return [N("Shape", [value], [f"{out}s"]), N("Gather", [f"{out}s", g.const([place])], [f"{out}n"])]


def _reshape(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    target = [g.draw.choice([-1, 0, 1, 2, 3, 4, 6, 8]) for _ in range(g.draw.randint(1, 4))]
    return [N("Reshape", [a, g.const(target)], [out])]


def _reshape_by_shape(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    parts = g.draw.choice(
        [[f"{out}n", g.const([-1])], [g.const([-1]), f"{out}n"], [f"{out}n", g.const([2]), g.const([-1])]]
    )
    return [*_length(g, out), N("Concat", parts, [f"{out}t"], axis=0), N("Reshape", [a, f"{out}t"], [out])]


def _transpose(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    perm = list(range(g.values[a].ndim))
    g.draw.shuffle(perm)
    return [N("Transpose", [a], [out], perm=perm)]


def _pair(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    shape = g.draw.choice([(4,), (3,), (4, 2), (3, 3), (3, 1), (1, 3), (2, 3)])
    operands = [a, g.draw.choice([g.any("f"), g.const(g.floats(*shape))])]
    g.draw.shuffle(operands)
    return [N(g.draw.choice(["Add", "Mul", "MatMul", "Gemm"]), operands, [out])]


def _places(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    return [
        *_length(g, out),
        N("Squeeze", [f"{out}n"], [f"{out}l"]),
        N("Range", [g.const(0), f"{out}l", g.const(1)], [f"{out}r"]),
        N("Unsqueeze", [f"{out}r", g.const([g.draw.choice([0, 1])])], [out]),
    ]


CHOICES: list[Choice] = [
    _reshape,
    _reshape_by_shape,
    _transpose,
    _pair,
    _places,
    lambda g, a, axis, out: [N("Softmax", [a], [out], axis=axis)],
    lambda g, a, axis, out: [N("ReduceSum", [a, g.const([axis])], [out], keepdims=g.draw.randint(0, 1))],
    lambda g, a, axis, out: [N("ArgMax", [a], [out], axis=axis, keepdims=g.draw.randint(0, 1))],
    lambda g, a, axis, out: [N("Concat", [a, g.any("f")], [out], axis=axis)],
    lambda g, a, axis, out: [
        N("Slice", [a, g.const([0]), g.const([g.draw.choice([1, 3, -1])]), g.const([axis])], [out])
    ],
    lambda g, a, axis, out: [N("Split", [a], [out, f"{out}b"], axis=axis, num_outputs=2)],
    lambda g, a, axis, out: [N("Gather", [a, g.const(g.draw.choice([0, [1, 0], [0, 1, 2]]))], [out], axis=axis)],
    lambda g, a, axis, out: [N("Gather", [a, g.any("i")], [out], axis=axis)],
    lambda g, a, axis, out: [N("GatherND", [a, g.any("i")], [out], batch_dims=g.draw.choice([0, 1]))],
    lambda g, a, axis, out: [N("GatherElements", [a, g.any("i")], [out], axis=axis)],
    lambda g, a, axis, out: [N("Flatten", [a], [out], axis=axis)],
    lambda g, a, axis, out: [N("Unsqueeze", [a, g.const([axis])], [out])],
    lambda g, a, axis, out: [N("Squeeze", [a, g.const([axis])], [out])],
    lambda g, a, axis, out: [N("Tile", [a, g.const([2 if k == axis else 1 for k in range(g.values[a].ndim)])], [out])],
    lambda g, a, axis, out: [N("CumSum", [a, g.const(axis)], [out])],
    lambda g, a, axis, out: [N("Shape", [g.any()], [f"{out}s"]), N("Expand", [a, f"{out}s"], [out])],
    lambda g, a, axis, out: [N("Shape", [g.any()], [f"{out}s"]), N("ConstantOfShape", [f"{out}s"], [out])],
    lambda g, a, axis, out: [
        N(g.draw.choice(["Add", "Mul"]), [g.any("i"), g.draw.choice([g.any("i"), g.const(2)])], [out])
    ],
]


def _regroup(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    """The lengths as they are, split, joined, in another order, or one left open."""
    target = list(g.values[a].shape)
    for _ in range(g.draw.randint(0, 2)):
        kind, place = g.draw.choice("sjox"), g.draw.randrange(max(1, len(target)))
        if kind == "s" and target and target[place] % 2 == 0 and len(target) < 5:
            target[place : place + 1] = g.draw.choice([[2, target[place] // 2], [target[place] // 2, 2]])
        elif kind == "j" and place + 1 < len(target):
            target[place : place + 2] = [target[place] * target[place + 1]]
        elif kind == "o" and len(target) < 5:
            target.insert(place, 1)
        elif kind == "x":
            g.draw.shuffle(target)
    if target and g.draw.random() < 0.3:
        target[g.draw.randrange(len(target))] = -1
    return [N("Reshape", [a, g.const(np.asarray(target, np.int64))], [out])]


def _filled(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    """A constant of a value's own shape, or of one row of it repeated, beside the value."""
    shape = list(g.values[a].shape)
    start = N("ConstantOfShape", [g.const(np.asarray(shape, np.int64))], [f"{out}z"])
    if g.draw.random() < 0.5:
        one = [1, *shape[1:]]
        start = N("Expand", [g.const(g.floats(*one)), g.const(np.asarray(shape, np.int64))], [f"{out}z"])
    beside = N(g.draw.choice(["Add", "Mul"]), [a, f"{out}z"], [out])
    return [start, g.draw.choice([beside, N("Concat", [f"{out}z", a], [out], axis=axis)])]


def _stored(g: Growing, a: str, axis: int, out: str) -> list[onnx.NodeProto]:
    """Weights as long as the value, alike for all of the first axis or not."""
    shape = g.values[a].shape
    weights = (
        g.floats(*shape) if g.draw.random() < 0.3 or not shape else np.repeat(g.floats(1, *shape[1:]), shape[0], 0)
    )
    return [
        g.draw.choice([N("Add", [a, g.const(weights)], [out]), N("Concat", [a, g.const(weights)], [out], axis=axis)])
    ]


BAKED: list[Choice] = [
    _regroup,
    _regroup,
    _regroup,
    _filled,
    _stored,
    lambda g, a, axis, out: [
        N(
            "Slice",
            [a, g.const([0]), g.const([g.values[a].shape[axis] if g.values[a].ndim else 1]), g.const([axis])],
            [out],
        )
    ],
    lambda g, a, axis, out: [N("Expand", [a, g.const(np.asarray(g.values[a].shape, np.int64))], [out])],
    lambda g, a, axis, out: [N("Squeeze", [a], [out])],
    lambda g, a, axis, out: [
        N(
            "ScatterElements",
            [g.const(np.zeros((*g.values[a].shape[:-1], 8), np.float32)), g.any("i"), a],
            [out],
            axis=-1,
        )
    ],
]
"""Nodes that hold lengths of values in their constants, as files of a fixed batch do."""
