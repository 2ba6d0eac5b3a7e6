from __future__ import annotations

import numpy as np
from onnx import parser

import onnx_ig
from tests.gradcheck import Runner


def test_negative_cotangents_stop_at_relu() -> None:
    """y = -relu(x1) + relu(x2): guided backpropagation gives (0, 1), the gradient (-1, 1)."""
    m = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> g (float[N,2] x) => (float[N,1] y) <float[2,1] w = {-1.0, 1.0}>'
        "{ a = Relu(x) y = MatMul(a, w) }"
    )
    feeds = {"x": np.array([[1, 1], [-1, 2]], np.float32), "grad_y": np.ones((2, 1), np.float32)}
    guided = Runner(onnx_ig.add_gradients(m, rules="guided_backprop"))(feeds)[-1]
    plain = Runner(onnx_ig.add_gradients(m))(feeds)[-1]
    assert guided.tolist() == [[0, 1], [0, 1]]
    assert plain.tolist() == [[-1, 1], [0, 1]]
