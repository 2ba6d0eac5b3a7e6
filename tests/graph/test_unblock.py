"""Files that ONNX Runtime saved at its highest level compute the same when their channels are put back in a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_ig
from onnx_ig.graph.unblock import block_size
from tests.gradcheck import Runner

rng = np.random.default_rng(5)
BLOCK = block_size()
pytestmark = pytest.mark.skipif(BLOCK is None, reason="this build of ONNX Runtime has no blocked layout")


def conv(x: str, y: str, channels: tuple[int, int], size: int = 3, **attributes: Any) -> list[onnx.NodeProto]:
    """A convolution with a bias that keeps the height and width, weights [out, in / group, size, size]."""
    out, into = channels
    w = rng.standard_normal((out, into // attributes.get("group", 1), size, size)).astype(np.float32) / 4
    b = rng.standard_normal(out).astype(np.float32)
    weights = [
        helper.make_node("Constant", [], [f"{y}_{n}"], value=numpy_helper.from_array(a))
        for n, a in (("w", w), ("b", b))
    ]
    given = {k: v for k, v in {"pads": [size // 2] * 4, **attributes}.items() if v != []}
    return [*weights, helper.make_node("Conv", [x, f"{y}_w", f"{y}_b"], [y], **given)]


def node(op: str, *names: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, names[:-1], names[-1:], **attributes)


PARTS: dict[str, list[onnx.NodeProto]] = {
    "first layer": [*conv("x", "c", (16, 3)), node("Relu", "c", "y")],
    "channels to fill up": [*conv("x", "c", (12, 3)), *conv("c", "d", (20, 12)), node("Tanh", "d", "y")],
    "sums": [
        *conv("x", "a", (16, 3)), *conv("a", "b", (16, 16)), node("Add", "a", "b", "s"), node("Relu", "s", "r"),
        *conv("r", "y", (8, 16), 1),
    ],
    "depthwise": [*conv("x", "a", (16, 3)), *conv("a", "b", (16, 16), group=16, strides=[2, 2], auto_pad="SAME_LOWER", pads=[]),
        node("HardSigmoid", "b", "y")],
    "groups": [*conv("x", "a", (32, 3)), *conv("a", "y", (32, 32), group=2, dilations=[2, 2], pads=[2] * 4)],
    "pools": [
        *conv("x", "a", (16, 3)), node("MaxPool", "a", "m", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("AveragePool", "m", "v", kernel_shape=[2, 2], pads=[0, 0, 1, 1], count_include_pad=1),
        *conv("v", "c", (16, 16)), node("GlobalAveragePool", "c", "y"),
    ],
    "joined": [
        *conv("x", "a", (16, 3)), *conv("x", "b", (32, 3), 1), node("Concat", "a", "b", "j", axis=1),
        *conv("j", "c", (16, 48), 1), node("GlobalMaxPool", "c", "y"),
    ],
    "back and forth": [
        *conv("x", "a", (20, 3)), node("Softmax", "a", "s", axis=1), *conv("s", "b", (20, 20)), node("Sigmoid", "b", "y"),
    ],
    "upsampled": [
        *conv("x", "a", (16, 3)),
        node("Constant", "k", value=numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32))),
        node("Resize", "a", "", "k", "u", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("Resize", "u", "", "k", "l", mode="linear"), *conv("l", "y", (8, 16)),
    ],
}  # fmt: skip


def saved(nodes: list[onnx.NodeProto], path: Path) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """(the model, as ONNX Runtime saves it when it has optimised all it can)."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 9, 9])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(path)
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return model, onnx.load(path)


@pytest.mark.parametrize("name", PARTS)
def test_gradients_are_those_of_the_model_before_optimisation(name: str, tmp_path: Path) -> None:
    model, blocked = saved(PARTS[name], tmp_path / "blocked.onnx")
    assert any(n.domain == "com.microsoft.nchwc" for n in blocked.graph.node)
    x = rng.standard_normal((2, 3, 9, 9)).astype(np.float32)
    plain, restored = onnx_ig.add_gradients(model), onnx_ig.add_gradients(blocked)
    assert {n.domain for n in restored.graph.node} <= {"", "ai.onnx"}
    y = Runner(model)({"x": x})[0]
    cotangent = rng.standard_normal(y.shape).astype(np.float32)
    expected, found = (Runner(m)({"x": x, "grad_y": cotangent}) for m in (plain, restored))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


def test_blocks_of_another_machine_are_refused(tmp_path: Path) -> None:
    """Where it shows: 8 channels, where this machine has blocks of 16, say; here 4."""
    _, blocked = saved(PARTS["first layer"], tmp_path / "blocked.onnx")
    next(n for n in blocked.graph.node if n.op_type == "Conv").input[1] = "w"
    blocked.graph.initializer.append(numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w"))
    with pytest.raises(onnx_ig.UnsupportedOperatorError, match="blocked layout"):
        onnx_ig.add_gradients(blocked)
