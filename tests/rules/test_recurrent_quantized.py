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


def quantised(weights: np.ndarray) -> dict[str, np.ndarray]:
    """int8 weights [D, K, 4H] with one scale and zero point a direction."""
    scale = np.abs(weights).max(axis=(1, 2)) / 127
    rounded = np.clip(np.round(weights / scale[:, None, None]), -127, 127).astype(np.int8)
    return {"q": rounded, "scale": scale.astype(np.float32), "zero": np.zeros(scale.shape, np.int8)}


def by_column(stored: dict[str, np.ndarray], feeds: dict[str, np.ndarray]) -> None:
    """The same weights with a scale for each column. (Equal ones: with others ONNX Runtime 1.32 is off by itself.)"""
    for name in ("WS", "RS"):
        feeds[name] = np.repeat(feeds[name][:, None], 4 * HIDDEN, axis=1)
        stored[name.replace("S", "Z")] = np.zeros(feeds[name].shape, np.int8)


def lstm(stored: dict[str, np.ndarray], feeds: dict[str, np.ndarray], direction: str) -> onnx.ModelProto:
    count = len(stored["W"])
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["X", "W", "R", "B", "", "", "", "", "WS", "WZ", "RS", "RZ"], ["Y"],
        domain="com.microsoft", hidden_size=HIDDEN, direction=direction,
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [STEPS, count, BATCH, HIDDEN])],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def gradients(model: onnx.ModelProto, feeds: dict[str, np.ndarray], cotangent: np.ndarray) -> dict[str, np.ndarray]:
    augmented = onnx_ig.add_gradients(model, of="Y", wrt=list(feeds))
    found = Runner(augmented)({**feeds, "grad_Y": cotangent.astype(np.float32)})[1:]
    return dict(zip(feeds, found, strict=True))


def case(direction: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """What is stored, what is fed, a cotangent of Y."""
    rng = np.random.default_rng(0)
    count = 2 if direction == "bidirectional" else 1
    w = quantised(rng.standard_normal((count, INPUTS, 4 * HIDDEN)) * 0.4)
    r = quantised(rng.standard_normal((count, HIDDEN, 4 * HIDDEN)) * 0.4)
    stored = {"W": w["q"], "R": r["q"], "B": (rng.standard_normal((count, 8 * HIDDEN)) * 0.3).astype(np.float32)}
    stored |= {"WZ": w["zero"], "RZ": r["zero"]}
    feeds = {"X": rng.standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32), "WS": w["scale"], "RS": r["scale"]}
    return stored, feeds, rng.standard_normal((STEPS, count, BATCH, HIDDEN))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_gradient_is_that_of_the_lstm_with_the_rounded_weights(direction: str) -> None:
    stored, feeds, cotangent = case(direction)
    by_column(stored, feeds)
    rng = np.random.default_rng(1)

    def score(**moved: Any) -> float:
        values = {**feeds, **moved}
        w, r = ((stored[n] * values[f"{n}S"][:, None]).swapaxes(1, 2) for n in "WR")
        inputs = {"X": values["X"], "W": w, "R": r, "B": stored["B"].astype(np.float64)}
        return float((run("LSTM", inputs, {"direction": direction})[0] * cotangent).sum())

    for name, gradient in gradients(lstm(stored, feeds, direction), feeds, cotangent).items():
        assert gradient.shape == feeds[name].shape
        for _ in range(3):
            step = rng.standard_normal(gradient.shape) * 1e-5 * (1 if name == "X" else feeds[name].max())
            exact = feeds[name].astype(np.float64)
            expected = (score(**{name: exact + step}) - score(**{name: exact - step})) / 2
            scale = np.linalg.norm(gradient) * np.linalg.norm(step)
            assert abs(float((gradient * step).sum()) - expected) < 0.05 * scale  # the products are rounded to 8 bits


def test_one_scale_for_all_columns_gets_the_sum_of_theirs() -> None:
    stored, feeds, cotangent = case("bidirectional")
    whole = gradients(lstm(stored, feeds, "bidirectional"), feeds, cotangent)
    by_column(stored, feeds)
    columns = gradients(lstm(stored, feeds, "bidirectional"), feeds, cotangent)
    np.testing.assert_allclose(whole["X"], columns["X"], rtol=1e-4, atol=1e-5)
    for name in ("WS", "RS"):
        scale = np.abs(columns[name]).sum()
        np.testing.assert_allclose(whole[name], columns[name].sum(axis=1), atol=1e-4 * scale)
