"""Small networks for the tests of `explain`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["convolutional", "made_of", "perceptron", "smooth"]

FLOAT = TensorProto.FLOAT


def made_of(
    nodes: list[onnx.NodeProto], shape: list[Any], outputs: list[Any], weights: dict[str, Any], dtype: int = FLOAT
) -> onnx.ModelProto:
    """A model with the input `x` and the output `y`."""
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, outputs)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def perceptron(
    features: int = 12,
    hidden: int = 24,
    classes: int = 4,
    activation: str = "Relu",
    softmax: bool = False,
    seed: int = 0,
) -> onnx.ModelProto:
    """x [N, features] -> y [N, classes] over two hidden layers."""
    rng = np.random.default_rng(seed)
    sizes = [features, hidden, hidden, classes]
    nodes, weights, last = [], {}, "x"
    for i, (a, b) in enumerate(pairwise(sizes)):
        weights[f"w{i}"] = (rng.standard_normal((a, b)) * 1.6 / np.sqrt(a)).astype(np.float32)
        weights[f"b{i}"] = (rng.standard_normal(b) * 0.3).astype(np.float32)
        done = i == len(sizes) - 2
        nodes.append(helper.make_node("Gemm", [last, f"w{i}", f"b{i}"], ["y" if done and not softmax else f"h{i}"]))
        last = f"h{i}"
        if not done:
            nodes.append(helper.make_node(activation, [last], [f"a{i}"]))
            last = f"a{i}"
    if softmax:
        nodes.append(helper.make_node("Softmax", [last], ["y"], axis=-1))
    return made_of(nodes, ["N", features], ["N", classes], weights)


def smooth(**given: Any) -> onnx.ModelProto:
    """The same without kinks."""
    return perceptron(activation="Tanh", **given)


def convolutional(size: int = 8, channels: int = 6) -> onnx.ModelProto:
    """x [N, 3, size, size] -> y [N, 5] over two convolutions with Relu and the mean over the picture."""
    rng = np.random.default_rng(1)
    weights = {
        "w0": (rng.standard_normal((channels, 3, 3, 3)) * 0.4).astype(np.float32),
        "w1": (rng.standard_normal((channels, channels, 3, 3)) * 0.3).astype(np.float32),
        "w2": rng.standard_normal((channels, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["a0"]),
        helper.make_node("Conv", ["a0", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["a1"]),
        helper.make_node("GlobalAveragePool", ["a1"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"]),
    ]
    return made_of(nodes, ["N", 3, size, size], ["N", 5], weights)
