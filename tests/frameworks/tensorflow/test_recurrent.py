"""Recurrent layers of Keras and loops of TensorFlow as tf2onnx writes them, against GradientTape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import onnx_ig
from tests.gradcheck import Runner

tf = pytest.importorskip("tensorflow")
tf2onnx = pytest.importorskip("tf2onnx")
pytestmark = [
    pytest.mark.framework,
    pytest.mark.filterwarnings("ignore"),  # of the exporter
]
keras = tf.keras
layers = keras.layers
WEIGHTS = (np.random.default_rng(0).standard_normal((4, 4)) * 0.5).astype(np.float32)

NETWORKS: dict[str, Callable[[], list[Any]]] = {
    "lstm": lambda: [layers.LSTM(5, return_sequences=True), layers.Dense(3)],
    "masked lstm": lambda: [layers.Masking(0.0), layers.LSTM(5, return_sequences=True), layers.Dense(3)],
    "masked bidirectional lstm": lambda: [layers.Masking(0.0), layers.Bidirectional(layers.LSTM(5))],
    "bidirectional gru": lambda: [layers.Bidirectional(layers.GRU(5, return_sequences=True)), layers.GRU(4)],
    "gru, reset first": lambda: [layers.GRU(5, reset_after=False), layers.Dense(3)],
    "simple rnn": lambda: [layers.SimpleRNN(5, return_sequences=True), layers.SimpleRNN(4)],
    "stacked cells": lambda: [layers.RNN([layers.LSTMCell(5), layers.GRUCell(4)])],
}


def compare(function: Callable[[Any], Any], x: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    signature = [tf.TensorSpec([None, *x.shape[1:]], tf.float32, name="x")]
    model, _ = tf2onnx.convert.from_function(tf.function(function, input_signature=signature), signature, opset=17)
    given = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(given)
        y = function(given)
        cotangent = rng.standard_normal(tuple(y.shape)).astype(np.float32)
        score = tf.reduce_sum(y * cotangent)
    expected = tape.gradient(score, given).numpy()
    of = model.graph.output[0].name
    value, gradient = Runner(onnx_ig.add_gradients(model, of=of, wrt="x"))({"x": x, f"grad_{of}": cotangent})
    np.testing.assert_allclose(value, y.numpy(), atol=1e-5)
    np.testing.assert_allclose(gradient, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_layers(name: str) -> None:
    keras.utils.set_random_seed(0)
    entry = keras.Input((7, 4))
    h = entry
    for layer in NETWORKS[name]():
        h = layer(h)
    network = keras.Model(entry, h)
    x = np.random.default_rng(0).standard_normal((3, 7, 4)).astype(np.float32)
    x[1, 4:] = 0
    x[2, 2:] = 0
    compare(lambda v: network(v, training=False), x)


def looped(x: Any) -> Any:
    state = tf.zeros_like(x[:, 0])
    for step in tf.range(tf.shape(x)[1]):
        state = tf.tanh(tf.matmul(state, WEIGHTS) + x[:, step])
    return state


def until(x: Any) -> Any:
    return tf.while_loop(lambda s: tf.reduce_sum(tf.abs(s)) < 400.0, lambda s: (s * 1.5 + tf.sin(s),), [x])[0]


def conditional(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x * tf.sin(x), lambda: tf.exp(x))


def mapped(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.tanh(tf.matmul(row, WEIGHTS)), x)


@pytest.mark.parametrize("function", [looped, until, conditional, mapped])
def test_control_flow(function: Callable[[Any], Any]) -> None:
    compare(tf.autograph.to_graph(function), np.random.default_rng(2).standard_normal((3, 7, 4)).astype(np.float32))
