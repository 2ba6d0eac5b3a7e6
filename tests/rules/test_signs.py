from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from onnx_ig import add_gradients
from tests.gradcheck import check_model, graph_model

rng = np.random.default_rng(12)


def node(op: str, inputs: str, output: str, **attributes: object) -> NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def guarded_divisions(model: ModelProto) -> int:
    """Divisions of a cotangent by what a Where made."""
    nodes = add_gradients(model, of="y", wrt="x").graph.node
    chosen = {n.output[0] for n in nodes if n.op_type == "Where"}
    return sum(n.op_type == "Div" and n.input[1] in chosen and n.input[0] != "x" for n in nodes)


PROVED = {
    "layer normalisation": (
        [
            node("ReduceMean", "x last", "m"), node("Sub", "x m", "d"), node("Pow", "d two", "s"),
            node("ReduceMean", "s last", "v"), node("Add", "v small", "e"), node("Sqrt", "e", "n"),
            node("Div", "d n", "y"),
        ],
        {"last": np.array([-1]), "two": np.array(2.0), "small": np.array(1e-3)},
    ),
    "swish": (
        [node("Neg", "x", "a"), node("Exp", "a", "e"), node("Add", "e one", "n"), node("Div", "x n", "y")],
        {"one": np.array(1.0)},
    ),
    "unit vectors": (
        [node("ReduceL2", "x last", "l"), node("Clip", "l small", "n"), node("Expand", "n shape", "w"),
         node("Div", "x w", "y")],
        {"last": np.array([-1]), "small": np.array(1e-3), "shape": np.array([2, 3])},
    ),
    "softsign": (
        [node("Abs", "x", "a"), node("Mul", "x x", "b"), node("Sum", "a b one", "n"), node("Div", "x n", "y")],
        {"one": np.array(1.0)},
    ),
    "floor of the norm": (
        [node("ReduceSumSquare", "x last", "l"), node("Max", "l small", "n"), node("Pow", "n half", "r"),
         node("Div", "x r", "y")],
        {"last": np.array([-1]), "small": np.array(1e-3), "half": np.array(0.5)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROVED)
def test_divisors_that_cannot_be_zero_are_not_guarded(case: str) -> None:
    nodes, constants = PROVED[case]
    feeds = {"x": rng.standard_normal((2, 3))}
    models = {
        dtype: graph_model(nodes, {**feeds, **constants}, ["y"], constants=list(constants), dtype=dtype)
        for dtype in (np.float64, np.float32)
    }
    check_model(models, feeds, of="y")
    assert guarded_divisions(models[np.float32]) == 0


NOT_PROVED = {
    "exp underflows": [node("Exp", "x", "n"), node("Div", "x n", "y")],
    "a norm": [node("ReduceL2", "x last", "n"), node("Div", "x n", "y")],
    "a sum of both signs": [node("Add", "x one", "n"), node("Div", "x n", "y")],
    "an odd power": [node("Pow", "x three", "p"), node("Add", "p one", "n"), node("Div", "x n", "y")],
    "a clip to zero": [node("Clip", "x zero", "n"), node("Div", "x n", "y")],
    "a fed value": [node("Div", "x z", "y")],
}


@pytest.mark.parametrize("case", NOT_PROVED)
def test_divisors_that_may_be_zero_are_guarded(case: str) -> None:
    constants = {
        "last": np.array([-1]), "one": np.array(1.0), "three": np.array(3.0), "zero": np.array(0.0),
    }  # fmt: skip
    inputs = {"x": np.ones((2, 3)), "z": np.ones((2, 3)), **constants}
    model = graph_model(NOT_PROVED[case], inputs, ["y"], constants=list(constants), dtype=np.float32)
    assert guarded_divisions(model) > 0
