"""Random graphs of operators that move, join, cut and mix axes: whatever is called proven must hold in the runtime.

Lengths other than the batch's are often as long as it is, so that a mistaken axis runs and shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ig.graph.batch import batch_axes
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.compare import run

ROWS = 3
INPUTS = [
    helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4]),
    helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 2, 3]),
    helper.make_tensor_value_info("i", TensorProto.INT64, ["N", 2]),
]


class Growing:
    """A graph that grows by nodes which the runtime accepts."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        numbers = np.random.default_rng(seed)
        self.floats = lambda *shape: numbers.standard_normal(shape).astype(np.float32)
        self.feeds = {"x": self.floats(ROWS, 4), "z": self.floats(ROWS, 2, 3), "i": numbers.integers(0, 2, (ROWS, 2))}
        self.values: dict[str, np.ndarray] = dict(self.feeds)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, np.ndarray] = {}

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
            INPUTS,
            [helper.make_empty_tensor_value_info(o) for o in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.stored.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def grow(self, out: str) -> None:
        choice = self.draw.choice(CHOICES)
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


@pytest.mark.parametrize("seed", range(30))
def test_what_is_proven_holds(seed: int) -> None:
    graph = Growing(seed)
    for step in range(8):
        graph.grow(f"v{step}")
    for output in [o for n in graph.nodes for o in n.output][-4:]:
        model = graph.ending_at(output)
        plan = batch_axes(prepare(load(model)).graph)
        if not plan.batchable:
            continue
        (together,) = run(model, graph.feeds)
        for row in range(ROWS):
            axes = {n: plan.axis(n) for n in graph.feeds}
            one = {n: a if axes[n] is None else np.take(a, [row], axes[n]) for n, a in graph.feeds.items()}
            (alone,) = run(model, one)
            axis = plan.axis(output)
            part = together if axis is None else np.take(together, [row], axis)
            assert part.shape == alone.shape
            np.testing.assert_allclose(part, alone, rtol=1e-4, atol=1e-4)


def test_the_random_graphs_prove_something_and_refuse_something() -> None:
    verdicts = []
    for seed in range(30):
        graph = Growing(seed)
        for step in range(8):
            graph.grow(f"v{step}")
        outputs = [o for n in graph.nodes for o in n.output][-4:]
        verdicts += [batch_axes(prepare(load(graph.ending_at(o))).graph).batchable for o in outputs]
    assert sum(verdicts) > 15
    assert len(verdicts) - sum(verdicts) > 15
