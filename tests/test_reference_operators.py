"""The float64 operators of the oracle compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.gradcheck import Runner, node_model
from tests.reference_operators import OPERATORS
from tests.rules.configurations import pool_configuration

rng = np.random.default_rng(0)


def agree(
    op: str, inputs: dict[str, np.ndarray | None], attributes: dict[str, Any], atol: float = 1e-4, outputs: int = 1
) -> None:
    names = [f"y{i}" for i in range(outputs)]
    model = node_model(op, inputs, attributes, dtype=np.float32, outputs=names)
    feeds = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in inputs.items() if a is not None}
    for got, expected in zip(
        ReferenceEvaluator(model, new_ops=OPERATORS).run(None, feeds), Runner(model)(feeds), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=atol)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 4, 5), (4, 3, 3), {}),
        ((2, 4, 5), (4, 3, 3), {"group": 2, "strides": [2], "pads": [1, 0], "output_padding": [1]}),
        ((2, 4, 5), (4, 1, 3), {"group": 4, "dilations": [2]}),
        ((2, 4, 5, 3), (4, 2, 3, 2), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
        ((2, 4, 5, 3), (4, 2, 3, 4), {"strides": [2, 3], "auto_pad": "SAME_LOWER"}),
        ((2, 4, 5, 3), (4, 2, 1, 2), {"strides": [2, 3], "auto_pad": "SAME_LOWER"}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [5]}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [8]}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [6], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [7], "output_padding": [1]}),
    ],
)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    bias = rng.standard_normal(w[1] * attributes.get("group", 1))
    agree("ConvTranspose", {"x": rng.standard_normal(x), "w": rng.standard_normal(w), "b": bias}, attributes)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("op", ["AveragePool", "LpPool"])
def test_pools(op: str, seed: int) -> None:
    attributes, lengths = pool_configuration(seed)
    if op == "AveragePool":
        attributes["count_include_pad"] = seed % 2
    else:
        attributes["p"] = 1 + seed % 4
    agree(op, {"x": rng.uniform(0.5, 2, (2, 2, *lengths))}, attributes)


@pytest.mark.parametrize("seed", range(15))
def test_max_pool(seed: int) -> None:
    attributes, lengths = pool_configuration(seed)
    inputs = {"x": rng.integers(0, 9, (2, 2, *lengths)).astype(float)}
    agree("MaxPool", inputs, {**attributes, "storage_order": seed % 2}, outputs=2)


def test_max_pool_of_padding_alone() -> None:
    agree("MaxPool", {"x": np.ones((1, 1, 1))}, {"kernel_shape": [2], "dilations": [2], "pads": [1, 1]}, outputs=2)


@pytest.mark.parametrize("output_shape", [None, [1, 1, 5, 5]])
def test_max_unpool(output_shape: list[int] | None) -> None:
    indices = np.asarray([[[[5, 7], [13, 7]]]], np.int64)
    inputs = {"x": rng.standard_normal((1, 1, 2, 2)), "i": indices}
    if output_shape is not None:
        inputs["shape"] = np.asarray(output_shape, np.int64)
    agree("MaxUnpool", inputs, {"kernel_shape": [2, 2], "strides": [2, 2]})


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p: int) -> None:
    agree("GlobalLpPool", {"x": rng.standard_normal((2, 3, 4, 5))}, {"p": p})
