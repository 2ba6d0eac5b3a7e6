"""The networks in Keras, channels last, exported by tf2onnx and attributed by tf.GradientTape: run as a module."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from keras import layers

from .shared import EPSILON, HEADS, NETWORKS, UNITS, WIDTH, Array, Gradient, Weights, attributions, digits, write


def cnn(w: Weights) -> keras.Model:
    """image [N, 8, 8, 1] -> [N, 10]."""
    image = keras.Input((8, 8, 1), name="image")
    norm = layers.BatchNormalization(epsilon=EPSILON, name="norm")
    x = layers.Activation("silu")(norm(layers.Conv2D(8, 3, padding="same", name="conv1")(image)))
    x = layers.Conv2D(16, 3, padding="same", activation="silu", name="conv2")(layers.AveragePooling2D(2)(x))
    x = layers.Flatten()(layers.AveragePooling2D(2)(x))
    model = keras.Model(image, layers.Dense(10, name="head")(x))
    for name in ("conv1", "conv2"):
        _set(model, name, w[f"{name}.weight"].transpose(2, 3, 1, 0), w[f"{name}.bias"])
    _set(model, "norm", *(w[f"norm.{k}"] for k in ("weight", "bias", "running_mean", "running_var")))
    # Flattened with channels last, where PyTorch has them first.
    head = w["head.weight"].reshape(10, 16, 2, 2).transpose(2, 3, 1, 0).reshape(64, 10)
    _set(model, "head", head, w["head.bias"])
    return model


def lstm(w: Weights) -> keras.Model:
    """rows [N, 8, 8] -> [N, 10]; gates in PyTorch's order, with one bias."""
    rows = keras.Input((8, 8), name="rows")
    model = keras.Model(rows, layers.Dense(10, name="head")(layers.LSTM(UNITS, name="cell")(rows)))
    bias = w["cell.bias_ih_l0"] + w["cell.bias_hh_l0"]
    _set(model, "cell", w["cell.weight_ih_l0"].T, w["cell.weight_hh_l0"].T, bias)
    _set(model, "head", w["head.weight"].T, w["head.bias"])
    return model


def attention(w: Weights) -> keras.Model:
    """rows [N, 8, 8] -> [N, 10] on Keras's own attention layer; GELU in its tanh form."""
    rows = keras.Input((8, 8), name="rows")
    x = layers.Dense(WIDTH, name="embed")(rows)
    x = layers.Lambda(lambda v: v + keras.ops.cast(w["positions"], v.dtype), output_shape=(8, WIDTH))(x)
    y = layers.LayerNormalization(epsilon=EPSILON, name="norm1")(x)
    x = layers.Add()([x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name="attention")(y, y)])
    y = layers.Dense(32, name="up")(layers.LayerNormalization(epsilon=EPSILON, name="norm2")(x))
    y = layers.Dense(WIDTH, name="down")(layers.Activation(lambda v: keras.activations.gelu(v, approximate=True))(y))
    x = layers.GlobalAveragePooling1D()(layers.Add()([x, y]))
    model = keras.Model(rows, layers.Dense(10, name="head")(x))
    for name in ("embed", "up", "down", "head"):
        _set(model, name, w[f"{name}.weight"].T, w[f"{name}.bias"])
    for name in ("norm1", "norm2"):
        _set(model, name, w[f"{name}.weight"], w[f"{name}.bias"])
    parts: list[Array] = []
    for kernel, bias in zip(np.split(w["qkv.weight"], 3), np.split(w["qkv.bias"], 3), strict=True):
        parts += [kernel.T.reshape(WIDTH, HEADS, -1), bias.reshape(HEADS, -1)]
    _set(model, "attention", *parts, w["out.weight"].T.reshape(HEADS, -1, WIDTH), w["out.bias"])
    return model


def _set(model: keras.Model, layer: str, *weights: Array) -> None:
    model.get_layer(layer).set_weights(list(weights))


BUILDERS = {"cnn": cnn, "lstm": lstm, "attention": attention}


def export(model: keras.Model) -> onnx.ModelProto:
    """By tf2onnx, with a symbolic batch, the output called `logits`."""
    (given,) = model.inputs
    signature = [tf.TensorSpec((None, *given.shape[1:]), tf.float32, name=given.name)]
    function = tf.function(lambda x: {"logits": model(x, training=False)}, input_signature=signature)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        proto, _ = tf2onnx.convert.from_function(function, signature, opset=17)
    return proto


def slope(model: keras.Model, target: Array) -> Gradient:
    """The gradient of each row's target, by tf.GradientTape."""

    def gradient(points: Array) -> Array:
        given = tf.constant(points)
        with tf.GradientTape() as tape:
            tape.watch(given)
            score = tf.reduce_sum(tf.gather(model(given, training=False), target, batch_dims=1))
        return tape.gradient(score, given).numpy()

    return gradient


def main(folder: Path, weights: Path) -> None:
    """Write files and references of every network; prints lines."""
    images, _, _, chosen = digits()
    with np.load(weights, allow_pickle=False) as file:
        saved = dict(file)
    for name in NETWORKS:
        w = {k.removeprefix(f"{name}."): v for k, v in saved.items() if k.startswith(f"{name}.")}
        proto = export(BUILDERS[name](w))
        keras.config.set_dtype_policy("float64")
        model = BUILDERS[name](w)
        keras.config.set_dtype_policy("float32")
        x = images[chosen]
        label, x = ("image", x[..., None]) if name == "cnn" else ("rows", x)
        logits = model(tf.constant(x, tf.float64), training=False).numpy()

        references = attributions(slope(model, logits.argmax(1)), label, x)
        packages = ("keras", "tf2onnx", "onnx", "onnxruntime", "numpy")
        said = write(
            folder, name, "keras", {"keras": proto}, {label: x}, logits, references, packages,
            f"tf.GradientTape of TensorFlow {tf.__version__}, in float64",
        )  # fmt: skip
        print("\n".join(said), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
