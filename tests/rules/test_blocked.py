"""Gates in the blocked layout are the same gates: bit for bit what the comparison gives, behind whole blocks of channels only."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnx_ig
from tests.gradcheck import Runner

rng = np.random.default_rng(5)


def network(channels: int, activation: str, width: type = np.float32) -> onnx.ModelProto:
    weights = rng.standard_normal((channels, 3, 3, 3)).astype(width)
    stored = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.zeros((), width), "low"),
              numpy_helper.from_array(np.array(2, width), "high")]  # fmt: skip
    operands = ["c"] if activation == "Relu" else ["c", "low", "high"]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node(activation, operands, ["y"])]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(width))
    x = helper.make_tensor_value_info("x", kind, ["N", 3, 8, 8])
    y = helper.make_tensor_value_info("y", kind, ["N", channels, 6, 6])
    return helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], stored), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )


def operators(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_the_same_gradient_bit_for_bit(activation: str) -> None:
    model = network(32, activation)
    plain, blocked = (onnx_ig.add_gradients(model, runtime=r) for r in ("generic", "cpu"))
    assert "Greater" in operators(plain)
    assert not {"Greater", "Less", "And"} & set(operators(blocked))
    x = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    x[0] *= 1e-20  # activations far below one still open the gate
    x[1, :, :3] = 0  # and those of exactly zero do not
    feeds = {"x": x, "grad_y": rng.standard_normal((2, 32, 6, 6)).astype(np.float32)}
    np.testing.assert_array_equal(Runner(blocked)(feeds)[-1], Runner(plain)(feeds)[-1])


@pytest.mark.parametrize(("channels", "width"), [(24, np.float32), (32, np.float64)])
def test_elsewhere_masks_stay_comparisons(channels: int, width: type) -> None:
    assert "Greater" in operators(onnx_ig.add_gradients(network(channels, "Relu", width), runtime="cpu"))
