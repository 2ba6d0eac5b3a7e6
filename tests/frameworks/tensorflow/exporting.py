"""tf2onnx on a Keras model, and tf.GradientTape on the same weights."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import keras
import onnx
import tensorflow as tf
import tf2onnx

from tests.frameworks.compare import STEPS, Array, Target, cotangent, integrated, largest
from tests.frameworks.tensorflow.networks import Case


def export(model: keras.Model, opset: int = 17) -> onnx.ModelProto:
    """The model as ONNX, its inputs under their own names, its output called `logits`, the batch symbolic."""
    signature = [tf.TensorSpec(x.shape, x.dtype, name=x.name) for x in model.inputs]

    def function(*given: Any) -> Any:
        return tf.identity(model(_arguments(model, given), training=False), "logits")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        traced = tf.function(function, input_signature=signature)
        proto, _ = tf2onnx.convert.from_function(traced, signature, opset=opset)
    (output,) = proto.graph.output
    for node in proto.graph.node:
        for place, name in enumerate(node.output):
            node.output[place] = "logits" if name == output.name else name
        for place, name in enumerate(node.input):
            node.input[place] = "logits" if name == output.name else name
    output.name = "logits"
    return proto


def _arguments(model: keras.Model, given: Sequence[Any]) -> Any:
    """Inputs in the structure that a functional model takes without a warning."""
    names = [x.name for x in model.inputs]
    return dict(zip(names, given, strict=True)) if len(names) > 1 else given[0]


def predicted(case: Case) -> list[tuple[int, ...]]:
    """The largest entry of each sample's output."""
    return largest(case.model(_arguments(case.model, list(case.feeds.values())), training=False).numpy())


def by_tape(case: Case, target: Target) -> dict[str, dict[str, Array]]:
    """{method: {input: attribution}} by tf.GradientTape; of a token input, by embedding dimension."""
    model, points = case.model, list(case.feeds.values())
    embedding = next((x for x in model.layers if isinstance(x, keras.layers.Embedding)), None)
    if embedding is not None:
        points, model = [embedding(points[0]).numpy()], keras.Model(embedding.output, model.output)

    def gradient(arrays: Sequence[Array]) -> list[Array]:
        given = [tf.constant(a) for a in arrays]
        with tf.GradientTape() as tape:
            for x in given:
                tape.watch(x)
            output = model(_arguments(model, given), training=False)
            score = tf.reduce_sum(output * cotangent(output.numpy(), target))
        return [x.numpy() for x in tape.gradient(score, given)]

    return {
        "integrated_gradients": dict(zip(case.feeds, integrated(gradient, points, STEPS), strict=True)),
        "gradient": dict(zip(case.feeds, gradient(points), strict=True)),
    }
