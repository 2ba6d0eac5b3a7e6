"""Small networks in Keras, channels last, with seeded weights and rows to explain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers
from numpy.typing import NDArray


@dataclass(frozen=True)
class Case:
    """A model and rows for each input; `smooth`: no ReLU and no maximum inside."""

    model: keras.Model
    feeds: dict[str, NDArray[Any]]
    smooth: bool = True


def gelu(x: Any) -> Any:
    """The tanh form: tf2onnx 1.17 writes the exact one as a node Erfc, which ONNX does not have."""
    return keras.activations.gelu(x, approximate=True)


def _image(*shape: int) -> dict[str, NDArray[Any]]:
    return {"image": np.random.default_rng(5).standard_normal((3, *shape)).astype(np.float32)}


def cnn(activation: str, pool: type[layers.Layer], smooth: bool) -> Case:
    """image [N, 16, 16, 3] -> logits [N, 4]; padding "same" at stride 2 is uneven."""
    x = image = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    x = layers.Activation(activation)(layers.BatchNormalization()(x))
    x = pool(3, 2, padding="same")(x)
    x = layers.Conv2D(8, 3, 2, padding="same")(x)
    x = layers.Activation(activation)(layers.BatchNormalization()(x))
    x = layers.Dense(4, name="logits")(layers.GlobalAveragePooling2D()(x))
    return Case(_settled(keras.Model(image, x)), _image(16, 16, 3), smooth)


def residual() -> Case:
    """image [N, H, W, 3] -> logits [N, 4]: a block with a projected shortcut, any size of image."""
    x = image = keras.Input((None, None, 3), name="image")
    x = layers.Conv2D(6, 3, padding="same", activation="silu")(x)
    y = layers.Activation("softplus")(layers.BatchNormalization()(layers.Conv2D(8, 3, 2, padding="same")(x)))
    y = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(y))
    x = layers.Activation(gelu)(layers.Add()([y, layers.Conv2D(8, 1, 2)(x)]))
    x = layers.Dense(4, name="logits")(layers.GlobalAveragePooling2D()(x))
    return Case(_settled(keras.Model(image, x)), _image(11, 14, 3))


def mobilenet() -> Case:
    """image [N, 16, 16, 3] -> logits [N, 4]: depthwise and separable convolutions, ReLU6."""
    x = image = keras.Input((16, 16, 3), name="image")
    x = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(8, 3, 2, padding="same")(x)))
    x = layers.ReLU(6.0)(layers.BatchNormalization()(layers.DepthwiseConv2D(3, 2, padding="same")(x)))
    x = layers.SeparableConv2D(8, 3, padding="same", depth_multiplier=2, activation="hard_silu")(x)
    weight = layers.Dense(8, "hard_sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Flatten()(layers.Multiply()([x, weight]))
    return Case(_settled(keras.Model(image, layers.Dense(4, name="logits")(x))), _image(16, 16, 3), smooth=False)


def mlp() -> Case:
    """x [N, 10] -> logits [N, 4]."""
    y = x = keras.Input((10,), name="x")
    y = layers.LayerNormalization()(layers.Dense(16, gelu)(y))
    y = layers.Dense(12, "selu")(layers.Dropout(0.3)(y))
    y = layers.Dense(4, name="logits")(layers.LeakyReLU(0.2)(layers.Dense(12, "tanh")(y)))
    return Case(keras.Model(x, y), {"x": np.random.default_rng(6).standard_normal((3, 10)).astype(np.float32)})


def transformer() -> Case:
    """x [N, 7, 8] -> logits [N, 3]: an encoder layer on Keras's attention."""
    y = x = keras.Input((7, 8), name="x")
    y = layers.LayerNormalization()(layers.Add()([y, layers.MultiHeadAttention(2, 4)(y, y)]))
    y = layers.LayerNormalization()(layers.Add()([y, layers.Dense(8)(layers.Dense(16, gelu)(y))]))
    y = layers.Dense(3, name="logits")(layers.GlobalAveragePooling1D()(y))
    return Case(keras.Model(x, y), {"x": np.random.default_rng(7).standard_normal((3, 7, 8)).astype(np.float32)})


def recurrent(kind: Callable[..., layers.Layer]) -> Case:
    """x [N, 6, 5] -> logits [N, 3]: two layers, the first in both directions."""
    y = x = keras.Input((6, 5), name="x")
    y = layers.Bidirectional(kind(6, return_sequences=True))(y)
    y = layers.Dense(3, name="logits")(kind(5)(y))
    return Case(keras.Model(x, y), {"x": np.random.default_rng(8).standard_normal((3, 6, 5)).astype(np.float32)})


def text_cnn() -> Case:
    """ids [N, T] -> logits [N, 2]: embedding, convolutions over 2 and 3 tokens, the maximum over time."""
    ids = keras.Input((None,), name="ids", dtype="int32")
    embedded = layers.Embedding(20, 8, embeddings_initializer=keras.initializers.RandomNormal(seed=9))(ids)
    pooled = [layers.GlobalMaxPooling1D()(layers.Conv1D(6, width, activation="relu")(embedded)) for width in (2, 3)]
    y = layers.Dense(2, name="logits")(layers.Concatenate()(pooled))
    # No token twice in a row: TensorFlow splits the gradient of equal maxima, GlobalMaxPool in ONNX has the first.
    rows = [np.random.default_rng(seed).permutation(np.arange(1, 20, dtype=np.int32))[:9] for seed in range(3)]
    return Case(keras.Model(ids, y), {"ids": np.stack(rows)}, smooth=False)


def tabular() -> Case:
    """dense [N, 6], sparse [N, 4] -> logits [N, 2]."""
    dense, sparse = keras.Input((6,), name="dense"), keras.Input((4,), name="sparse")
    a, b = layers.Dense(8, "tanh")(dense), layers.Dense(8, "softplus")(sparse)
    y = layers.Dense(2, name="logits")(layers.Concatenate()([layers.Multiply()([a, b]), layers.Subtract()([a, b])]))
    rng = np.random.default_rng(10)
    feeds = {n: rng.standard_normal((3, k)).astype(np.float32) for n, k in (("dense", 6), ("sparse", 4))}
    return Case(keras.Model([dense, sparse], y), feeds)


def signal() -> Case:
    """x [N, L, 2] -> logits [N, 3]: causal, dilated and strided convolutions along time."""
    y = x = keras.Input((None, 2), name="x")
    y = layers.BatchNormalization()(layers.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="softsign")(y))
    y = layers.AveragePooling1D(2)(layers.Conv1D(6, 5, 2, padding="same", activation="elu")(y))
    y = layers.Softmax(name="logits")(layers.Dense(3)(layers.GlobalAveragePooling1D()(y)))
    feeds = {"x": np.random.default_rng(11).standard_normal((3, 21, 2)).astype(np.float32)}
    return Case(_settled(keras.Model(x, y)), feeds)


def unet() -> Case:
    """image [N, 8, 12, 1] -> logits [N, 8, 12, 2]: up by a transposed convolution and by bilinear resizing."""
    image = keras.Input((8, 12, 1), name="image")
    a = layers.Conv2D(4, 3, padding="same", activation="silu")(image)
    b = layers.GroupNormalization(2)(layers.Conv2D(8, 3, 2, padding="same", activation="silu")(a))
    c = layers.Conv2D(8, 3, 2, padding="same", activation="tanh")(b)
    c = layers.Conv2DTranspose(8, 3, 2, padding="same", activation=gelu)(c)
    d = layers.Conv2D(4, 3, padding="same", activation="silu")(layers.Concatenate()([b, c]))
    d = layers.UpSampling2D(2, interpolation="bilinear")(d)
    y = layers.Conv2D(2, 1, name="logits")(layers.Concatenate()([a, d]))
    return Case(_settled(keras.Model(image, y)), _image(8, 12, 1))


def _settled(model: keras.Model) -> keras.Model:
    """The model with running statistics away from 0 and 1."""
    rng = np.random.default_rng(12)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            (n,) = layer.gamma.shape
            layer.set_weights(
                [rng.uniform(low, high, n) for low, high in ((0.5, 2), (-0.3, 0.3), (-0.3, 0.3), (0.5, 2))]
            )
    return model


CASES: dict[str, Callable[[], Case]] = {
    "cnn": lambda: cnn("silu", layers.AveragePooling2D, True),
    "cnn_relu": lambda: cnn("relu", layers.MaxPooling2D, False),
    "residual": residual,
    "mobilenet": mobilenet,
    "mlp": mlp,
    "transformer": transformer,
    "lstm": lambda: recurrent(layers.LSTM),
    "gru": lambda: recurrent(layers.GRU),
    "text_cnn": text_cnn,
    "tabular": tabular,
    "signal": signal,
    "unet": unet,
}


def case(name: str) -> Case:
    """One of `CASES`, its weights from a fixed seed."""
    keras.utils.set_random_seed(sum(map(ord, name)))
    return CASES[name]()
