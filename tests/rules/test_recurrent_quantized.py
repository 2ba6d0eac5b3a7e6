from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_ig
from tests.gradcheck import Runner
from tests.rules.recurrent_oracle import run

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 6, 5


def quantised(weights: np.ndarray, per_column: bool) -> dict[str, np.ndarray]:
    """int8 weights [D, K, 4H] with their scales and zero points."""
    scale = np.abs(weights).max(axis=1 if per_column else (1, 2)) / 127
    wide = scale[:, None] if per_column else scale[:, None, None]
    rounded = np.clip(np.round(weights / wide), -127, 127).astype(np.int8)
    return {"q": rounded, "scale": scale.astype(np.float32), "zero": np.zeros(scale.shape, np.int8)}


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_gradient_is_that_of_the_lstm_with_the_rounded_weights(direction: str, per_column: bool) -> None:
    rng = np.random.default_rng(0)
    count = 2 if direction == "bidirectional" else 1
    w = quantised(rng.standard_normal((count, INPUTS, 4 * HIDDEN)) * 0.4, per_column)
    r = quantised(rng.standard_normal((count, HIDDEN, 4 * HIDDEN)) * 0.4, per_column)
    stored = {"W": w["q"], "R": r["q"], "B": (rng.standard_normal((count, 8 * HIDDEN)) * 0.3).astype(np.float32)}
    stored |= {"WZ": w["zero"], "RZ": r["zero"]}
    feeds = {"X": rng.standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32), "WS": w["scale"], "RS": r["scale"]}
    attributes = {"hidden_size": HIDDEN, "direction": direction}
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["X", "W", "R", "B", "", "", "", "", "WS", "WZ", "RS", "RZ"], ["Y"],
        domain="com.microsoft", **attributes,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [STEPS, count, BATCH, HIDDEN])],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    cotangent = rng.standard_normal((STEPS, count, BATCH, HIDDEN))
    augmented = onnx_ig.add_gradients(model, of="Y", wrt=list(feeds))
    assert isinstance(augmented, onnx.ModelProto)
    found = dict(zip(feeds, Runner(augmented)({**feeds, "grad_Y": cotangent.astype(np.float32)})[1:], strict=True))

    def score(**moved: Any) -> float:
        values = {**feeds, **moved}
        floats = [
            (part["q"] * (values[s][:, None] if per_column else values[s][:, None, None])).swapaxes(1, 2)
            for part, s in ((w, "WS"), (r, "RS"))
        ]
        inputs = {"X": values["X"], "W": floats[0], "R": floats[1], "B": stored["B"].astype(np.float64)}
        return float((run("LSTM", inputs, attributes)[0] * cotangent).sum())

    for name, gradient in found.items():
        assert gradient.shape == feeds[name].shape
        for _ in range(3):
            size = 1e-5 if name == "X" else 1e-5 * feeds[name].max()
            step = rng.standard_normal(gradient.shape) * size
            exact = feeds[name].astype(np.float64)
            expected = (score(**{name: exact + step}) - score(**{name: exact - step})) / 2
            scale = np.linalg.norm(gradient) * np.linalg.norm(step)
            assert abs(float((gradient * step).sum()) - expected) < 0.05 * scale  # the products are rounded to 8 bits
