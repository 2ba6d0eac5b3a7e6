from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx_ig
from tests.gradcheck import Runner, check, node_model

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((2, 3), (3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (2, 5, 3, 4)),
        ((2, 5, 4, 3), (3,)),
        ((2, 4, 3), (3, 5)),
        ((4, 3), (2, 3, 5)),
        ((2, 4, 3), (2, 3, 5)),
        ((1, 4, 3), (2, 3, 5)),
        ((5, 1, 4, 3), (2, 3, 1)),
        ((1, 1), (1, 1)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
        ((0, 2, 3), (3, 4)),
        ((0, 2, 3), (1, 3, 4)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check("MatMul", {"a": rng.standard_normal(a), "b": rng.standard_normal(b)})


def test_matmul_with_stored_weights() -> None:
    weight = rng.standard_normal((3, 4))
    check("MatMul", {"a": rng.standard_normal((2, 5, 3)), "b": weight}, constants=["b"])
    check("MatMul", {"a": weight, "b": rng.standard_normal((2, 4, 5))}, constants=["a"])


@pytest.mark.parametrize(("a", "b"), [((2, 4, 3), (2, 3, 5)), ((2, 3), (3, 4)), ((3,), (2, 3, 4)), ((2, 4, 3), (3,))])
def test_ranks_that_only_the_runtime_infers(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """The runtime works out the shapes of what was emitted for any rank, and must come to the right ones."""
    feeds = {
        "a": rng.standard_normal(a),
        "b": rng.standard_normal(b),
        "grad_y": np.ones(np.matmul(np.ones(a), np.ones(b)).shape),
    }
    blind = onnx_ig.add_gradients(node_model("MatMul", {n: feeds[n] for n in "ab"}, shapes="unranked"), wrt=["a", "b"])
    del blind.graph.value_info[:]
    for given in blind.graph.input:
        for length in feeds[given.name].shape:
            given.type.tensor_type.shape.dim.add().dim_value = length
    known = onnx_ig.add_gradients(node_model("MatMul", {n: feeds[n] for n in "ab"}), wrt=["a", "b"])
    for got, expected in zip(Runner(blind)(feeds), Runner(known)(feeds), strict=True):
        np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("across_a", [0, 1])
@pytest.mark.parametrize("across_b", [0, 1])
@pytest.mark.parametrize("bias", [None, (), (1,), (4,), (2, 1), (1, 4), (2, 4)])
def test_gemm(across_a: int, across_b: int, bias: tuple[int, ...] | None) -> None:
    inputs: dict[str, Any] = {
        "a": rng.standard_normal((3, 2) if across_a else (2, 3)),
        "b": rng.standard_normal((4, 3) if across_b else (3, 4)),
    }
    if bias is not None:
        inputs["c"] = rng.standard_normal(bias)
    check("Gemm", inputs, {"transA": across_a, "transB": across_b, "alpha": 0.5, "beta": -1.5})


def test_gemm_without_attributes() -> None:
    check("Gemm", {"a": rng.standard_normal((2, 3)), "b": rng.standard_normal((3, 1)), "c": rng.standard_normal(1)})
