"""Bytes alive at once, against counts by hand."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_ig.graph.liveness import Liveness
from onnx_ig.graph.types import infer_missing


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
