"""Functions of JAX and a Flax module by jax2onnx: attributions as jax.grad computes them on the same weights."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.frameworks.compare import METHODS, STEPS, Array, agree, alone, cotangent, explained, integrated, largest

alone("jax", "jax2onnx", "flax")

import jax
import jax.numpy as jnp

from tests.frameworks.jax import exporting, networks

pytestmark = pytest.mark.framework


@functools.cache
def case(name: str) -> networks.Case:
    return networks.CASES[name]()


@functools.cache
def exported(name: str) -> onnx.ModelProto:
    return exporting.export(case(name))


@functools.cache
def predicted(name: str) -> list[tuple[int, ...]]:
    return largest(np.asarray(case(name).function(*map(jnp.asarray, case(name).feeds.values()))))


@functools.cache
def by_jax(name: str) -> dict[str, dict[str, Array]]:
    """{method: {input: attribution}} by jax.grad; of a token input, by embedding dimension."""
    network = case(name)
    function, points = network.function, list(network.feeds.values())
    if network.tokens:
        function, table = network.tokens
        points = [np.asarray(table[points[0]])]
    output = np.asarray(function(*map(jnp.asarray, points)))
    chosen = cotangent(output, predicted(name))
    slope = jax.jit(jax.grad(lambda *x: (function(*x) * chosen).sum(), tuple(range(len(points)))))

    def gradient(arrays: Sequence[Array]) -> list[Array]:
        return [np.asarray(x) for x in slope(*map(jnp.asarray, arrays))]

    return {
        "integrated_gradients": dict(zip(network.feeds, integrated(gradient, points, STEPS), strict=True)),
        "gradient": dict(zip(network.feeds, gradient(points), strict=True)),
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", networks.CASES)
def test_as_jax_grad(name: str, method: str) -> None:
    found = explained(exported(name), case(name).feeds, predicted(name), method)
    agree(found, by_jax(name)[method], smooth=case(name).smooth)
