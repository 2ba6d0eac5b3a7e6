"""Bytes alive at once, against counts by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from onnx_ig import Explainer
from onnx_ig.graph.liveness import Liveness
from onnx_ig.graph.types import infer_missing
from onnx_ig.rewriter.step import step_model
from tests.sessions import single_threaded

SAMPLES = Path(__file__).parents[2] / "sample_models"
_DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


def model(nodes: list[object], shape: list[object], **weights: np.ndarray) -> ir.Model:
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor(k, TensorProto.FLOAT, v.shape, v.ravel()) for k, v in weights.items()],
    )
    made = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
    infer_missing(made)
    return made


CHAIN = [helper.make_node("Relu", [a], [b]) for a, b in (("x", "p"), ("p", "q"), ("q", "y"))]


def test_a_chain_holds_two_values_at_a_time() -> None:
    feeds = {"x": np.zeros((3, 5), np.float32)}
    assert Liveness(model(CHAIN, ["N", 5])).peak(feeds, {}, 1) == 2 * 2 * 3 * 5 * 4


def test_a_value_read_later_stays() -> None:
    nodes = [*CHAIN[:2], helper.make_node("Relu", ["q"], ["r"]), helper.make_node("Add", ["r", "p"], ["y"])]
    feeds = {"x": np.zeros((3, 5), np.float32)}
    assert Liveness(model(nodes, ["N", 5])).peak(feeds, {}, 1) == 2 * 3 * 3 * 5 * 4


def test_symbols_by_hand_come_before_those_of_the_feeds() -> None:
    feeds = {"x": np.zeros((3, 5), np.float32)}
    assert Liveness(model(CHAIN, ["N", 5])).peak(feeds, {"N": 7}, 1) == 2 * 2 * 7 * 5 * 4


def test_weights_and_what_depends_on_them_alone_do_not_count() -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    feeds = {"x": np.zeros((2, 100), np.float32)}
    assert Liveness(model(nodes, ["N", 100], w=np.zeros((10, 100)))).peak(feeds, {}, 1) == 2 * 2 * 10 * 4


def test_bodies_count() -> None:
    square, flag = [TensorProto.FLOAT, [20, 20]], [TensorProto.BOOL, []]
    inner = helper.make_graph(
        [
            helper.make_node("MatMul", ["c", "c"], ["d"]),
            helper.make_node("Relu", ["d"], ["e"]),
            helper.make_node("Identity", ["cond"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("cond", *flag),
            helper.make_tensor_value_info("c", *square),
        ],
        [helper.make_tensor_value_info("go", *flag), helper.make_tensor_value_info("e", *square)],
    )
    nodes = [
        helper.make_node("Constant", [], ["n"], value=helper.make_tensor("n", TensorProto.INT64, [], [3])),
        helper.make_node("Loop", ["n", "", "x"], ["y"], body=inner),
    ]
    made = model(nodes, [20, 20])
    made.graph.outputs[0].shape = ir.Shape([20, 20])
    assert Liveness(made).peak({"x": np.zeros((20, 20), np.float32)}, {}, 1) == pytest.approx(2 * 3 * 1600, rel=0.01)


def test_shapes_that_are_computed_from_others_follow_the_feeds() -> None:
    """Heads of an attention: [N, T, 8] to [N, T, 2, 4] by Shape and Concat, then every position times every other one."""
    nodes = [
        helper.make_node("Constant", [], ["heads"], value_ints=[2, 4]),
        helper.make_node("Shape", ["x"], ["s"], start=0, end=2),
        helper.make_node("Concat", ["s", "heads"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["h"]),
        helper.make_node("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["q"], ["k"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "k"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    live = Liveness(model(nodes, ["N", "T", 8]))
    for n, t in ((1, 50), (3, 40)):
        assert live.peak({"x": np.zeros((n, t, 8), np.float32)}, {}, 1) == 2 * 2 * n * 2 * t * t * 4


def test_what_stays_open_counts_as_the_largest_operand() -> None:
    """Axes that are found while the model runs: nobody knows the shape of the sum, nor of what is made of it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Equal", ["s", "z"], ["e"]),
        helper.make_node("NonZero", ["e"], ["i"]),
        helper.make_node("Flatten", ["i"], ["f"]),
        helper.make_node("Squeeze", ["f", "first"], ["axes"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["r"], keepdims=0),
        helper.make_node("Relu", ["r"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    made = model([helper.make_node("Constant", [], ["first"], value_ints=[0]), *nodes], ["N", 50])
    made.graph.inputs.append(ir.Value(name="z", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.INT64)))
    z = next(iter(n for n in made.graph if n.op_type == "Equal"))
    z.replace_input_with(1, made.graph.inputs[-1])
    peak = Liveness(made).peak({"x": np.zeros((3, 50), np.float32), "z": np.zeros(2, np.int64)}, {}, 1)
    assert peak == pytest.approx(2 * 2 * 3 * 50 * 4, rel=0.15)


def test_half_precision_may_take_more_than_it_says() -> None:
    made = model(CHAIN, ["N", 5])
    for value in [*made.graph.inputs, *(v for n in made.graph for v in n.outputs)]:
        value.dtype = ir.DataType.FLOAT16
    feeds = {"x": np.zeros((3, 5), np.float16)}
    assert Liveness(made).peak(feeds, {}, 1) == 2 * 2 * 3 * 5 * 2
    assert Liveness(made, half_bytes=4).peak(feeds, {}, 1) == 2 * 2 * 3 * 5 * 4


@pytest.mark.parametrize(
    "name", ["sentiment", "frameworks/lstm_torch_dynamo", "frameworks/attention_torch_dynamo", "digits"]
)
def test_step_models_against_the_shapes_that_their_values_have(name: str) -> None:
    """The same count over the shapes that ONNX Runtime gives every single value."""
    session = ort.InferenceSession(SAMPLES / f"{name}.onnx", single_threaded())
    feeds = {
        v.name: np.ones([d if isinstance(d, int) else (1, 12)[i > 0] for i, d in enumerate(v.shape)], _DTYPES[v.type])
        for v in session.get_inputs()
    }
    tool = Explainer(SAMPLES / f"{name}.onnx", session_options=single_threaded())
    plan = tool._models.plan(tool.batching, {s.name: None for s in tool.subject.moved}, {}, False)
    step = step_model(tool.subject.model, plan)
    feeds["ig:alphas"] = feeds["ig:weights"] = np.full((1, 1), 0.5)
    feeds["ig:cotangent"] = tool._models.forward(feeds)[tool.subject.output]
    made, told = step.clone(), Liveness(step).peak(feeds, {"ig_n": 1, "ig_s": 1, "ig_rows": 1}, 1)
    made.graph.outputs[:] = [v for n in made.graph for v in n.outputs if v.name and isinstance(v.type, ir.TensorType)]
    options = single_threaded()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    every = ort.InferenceSession(ir.to_proto(made).SerializeToString(), options)
    real = dict(zip((o.name for o in every.get_outputs()), every.run(None, feeds), strict=True))
    for value in (v for n in step.graph for v in n.outputs if v.name in real):
        value.shape = ir.Shape(real[value.name].shape)
    for value in step.graph.inputs:
        value.shape = ir.Shape(feeds[value.name].shape)
    assert told == pytest.approx(Liveness(step).peak(feeds, {}, 1), rel=0.05)
