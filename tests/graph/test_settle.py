"""Nodes that runtimes run and do not load once their shapes are known."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import onnx_ig


def test_range_from_vectors_of_one() -> None:
    """ONNX Runtime takes [1] operands of Range when they come from a branch and refuses them as constants."""
    stored = [numpy_helper.from_array(np.array([3]), "limit"), numpy_helper.from_array(np.array(True), "yes")]
    stored += [numpy_helper.from_array(np.array(0), "zero"), numpy_helper.from_array(np.array(1), "one")]
    branch = helper.make_graph(
        [helper.make_node("Identity", ["limit"], ["chosen"])], "b", [], [helper.make_empty_tensor_value_info("chosen")]
    )
    nodes = [
        helper.make_node("If", ["yes"], ["end"], then_branch=branch, else_branch=branch),
        helper.make_node("Range", ["zero", "end", "one"], ["counted"]),
        helper.make_node("Cast", ["counted"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "floats"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    augmented = onnx_ig.add_gradients(model)
    onnx.checker.check_model(augmented)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(augmented.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ones = np.ones((2, 3), np.float32)
    gradient = session.run(["grad_x"], {"x": ones, "grad_y": ones})[0]
    np.testing.assert_array_equal(gradient, ones * np.arange(3, dtype=np.float32))
