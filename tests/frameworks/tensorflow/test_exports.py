"""Keras models by tf2onnx: attributions as tf.GradientTape computes them on the same weights."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import pytest

from tests.frameworks.compare import METHODS, Array, agree, alone, explained

alone("tensorflow", "tf2onnx")

import keras
import tensorflow as tf
from keras import layers

from tests.frameworks.tensorflow import exporting, networks

pytestmark = pytest.mark.framework


@functools.cache
def case(name: str) -> networks.Case:
    return networks.case(name)


@functools.cache
def exported(name: str) -> onnx.ModelProto:
    return exporting.export(case(name).model)


@functools.cache
def by_tape(name: str) -> dict[str, dict[str, Array]]:
    return exporting.by_tape(case(name), exporting.predicted(case(name)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", networks.CASES)
def test_as_gradient_tape(name: str, method: str) -> None:
    found = explained(exported(name), case(name).feeds, exporting.predicted(case(name)), method)
    agree(found, by_tape(name)[method], smooth=case(name).smooth)


def test_an_image_of_bytes() -> None:
    """uint8 NHWC behind a Cast: the pixels are attributed as the floats that they become."""
    keras.utils.set_random_seed(1)
    x = pixels = keras.Input((8, 8, 3), name="pixels")
    x = layers.Conv2D(6, 3, 2, padding="same", activation="tanh")(layers.Rescaling(1 / 127.5, -1.0)(x))
    body = keras.Model(pixels, layers.Dense(4)(layers.Flatten()(x)))
    image = keras.Input((8, 8, 3), name="image", dtype="uint8")
    model = keras.Model(image, body(layers.Lambda(lambda v: tf.cast(v, tf.float32), (8, 8, 3))(image)))
    feeds = {"image": np.random.default_rng(2).integers(0, 256, (3, 8, 8, 3), np.uint8)}
    given = networks.Case(body, {"pixels": feeds["image"].astype(np.float32)})
    target = exporting.predicted(given)
    file = exporting.export(model)

    for method, expected in exporting.by_tape(given, target).items():
        found = explained(file, feeds, target, method)
        assert found["image"].dtype == np.float32
        agree(found, {"image": expected["pixels"]})


def test_two_opsets_of_one_model() -> None:
    network = case("cnn")
    target = exporting.predicted(network)
    old, new = (explained(exporting.export(network.model, opset), network.feeds, target) for opset in (11, 18))
    agree(old, new)
