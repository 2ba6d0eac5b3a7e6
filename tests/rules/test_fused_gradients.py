"""Gradients of fused nodes against central differences of ONNX Runtime running the nodes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import onnx_ig
from tests.graph.compare import run
from tests.graph.test_fused import model_of, x
from tests.graph.test_fused_attention import CACHES, GROUPED, HEADS, MASKS, B, N, S, W, grouped
from tests.graph.test_fused_quantized import packed

rng = np.random.default_rng(8)
ML = {"domain": "ai.onnx.ml"}
_, BITS = packed((5, 2, 16), 4)
Case = tuple[str, Mapping[str, Any], dict[str, Any], dict[str, Any]]

CASES: dict[str, Case] = {
    "BiasGelu": ("BiasGelu", {"x": x(2, 3, 4), "b": x(4)}, {}, {}),
    "FastGelu": ("FastGelu", {"x": x(2, 3, 4), "b": x(4)}, {}, {}),
    "QuickGelu": ("QuickGelu", {"x": x(2, 3, 4)}, {}, {}),
    "FusedConv": ("FusedConv", {"x": x(1, 3, 5, 5), "w": x(4, 3, 3, 3), "b": x(4)}, {"activation": "Tanh"}, {}),
    "FusedGemm": ("FusedGemm", {"a": x(4, 5), "b": x(5, 6), "c": x(6)}, {"activation": "Sigmoid"}, {}),
    "FusedMatMul": ("FusedMatMul", {"a": x(2, 5, 4), "b": x(2, 6, 5)}, {"transA": 1, "transB": 1, "alpha": 0.5}, {}),
    "SkipLayerNormalization": (
        "SkipLayerNormalization",
        {"x": x(2, 3, 8), "s": x(2, 3, 8), "g": x(8), "b": x(8), "c": x(8)},
        {"epsilon": 1e-5},
        {},
    ),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization",
        {"x": x(2, 3, 8), "s": x(2, 3, 8), "g": x(8)},
        {"epsilon": 1e-5},
        {},
    ),
    "SimplifiedLayerNormalization": (
        "SimplifiedLayerNormalization", {"x": x(2, 3, 8), "g": x(8)}, {"epsilon": 1e-5}, {"domain": ""},
    ),
    "RotaryEmbedding": ("RotaryEmbedding", {"x": x(B, S, W), "p": np.array([1]), **CACHES}, {"num_heads": N}, {}),
    "Attention": (
        "Attention", {"x": x(B, S, 6), "w": x(6, 3 * W), "b": x(3 * W), "m": MASKS["keys"]}, HEADS, {},
    ),
    "Attention with lengths": (
        "Attention", {"x": x(B, S, 6), "w": x(6, 3 * W), "b": x(3 * W), "m": MASKS["lengths"]},
        {**HEADS, "unidirectional": 1}, {},
    ),
    "MultiHeadAttention": (
        "MultiHeadAttention", {"q": x(B, S, W), "k": x(B, S, W), "v": x(B, S, W), "b": x(3 * W)}, HEADS, {},
    ),
    "GroupQueryAttention": (
        "GroupQueryAttention", grouped(**CACHES), {**GROUPED, "do_rotary": 1, "local_window_size": 3},
        {"outputs": ("y", "k2", "v2")},
    ),
    "GroupQueryAttention with a cache": (
        "GroupQueryAttention", grouped(1, 5, (6, 4), **CACHES), {**GROUPED, "do_rotary": 1},
        {"outputs": ("y", "k2", "v2")},
    ),
    "MatMulNBits": (
        "MatMulNBits", {"a": x(3, 32), "b": BITS, "s": np.abs(x(5, 2))},
        {"N": 5, "K": 32, "block_size": 16, "bits": 4}, {},
    ),
    "Normalizer": ("Normalizer", {"x": np.abs(x(3, 4))}, {"norm": "L2"}, ML),
    "Scaler": ("Scaler", {"x": x(3, 2)}, {"offset": [1.0, 2.0], "scale": [0.5, -3.0]}, ML),
    "LinearClassifier of one row": (
        "LinearClassifier", {"x": x(3, 2)},
        {"coefficients": [1.0, -2.0], "intercepts": [0.3], "classlabels_ints": [0, 1], "post_transform": "LOGISTIC"},
        {**ML, "outputs": ("label", "y"), "types": {"label": 7}},
    ),
    "SVMClassifier": (
        "SVMClassifier", {"x": x(3, 2)},
        {"coefficients": [1.0, -2.0, 0.5], "rho": [0.3], "classlabels_ints": [0, 1], "vectors_per_class": [2, 1],
         "support_vectors": [1.0, 0.0, -1.0, 2.0, 0.3, 0.3], "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 0.0]},
        {**ML, "outputs": ("label", "y"), "types": {"label": 7}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    operator, inputs, attributes, options = CASES[name]
    floats = [n for n, a in inputs.items() if a is not None and a.dtype.kind == "f"]
    fed = len([n for n, a in inputs.items() if a is not None])
    if operator in ("MatMulNBits", "Attention", "RotaryEmbedding"):  # of the data; the rest is stored
        floats, fed = floats[:1], 1
    model, feeds = model_of(operator, inputs, attributes, fed=fed, **options)
    names = [o.name for o in model.graph.output]
    place = names.index("y")
    cotangent = rng.standard_normal(run(model, feeds)[place].shape).astype(np.float32)
    augmented = onnx_ig.add_gradients(model, of="y", wrt=floats)
    on_path = {n.domain for n in augmented.graph.node if not set(n.output) & set(names)}
    assert on_path == {""}
    found = dict(
        zip([o.name for o in augmented.graph.output], run(augmented, {**feeds, "grad_y": cotangent}), strict=True)
    )
    for wrt in floats:
        gradient = found[f"grad_{wrt}"]
        direction = gradient / max(float(np.linalg.norm(gradient)), 1e-12) + 0.1 * x(*gradient.shape)
        best = np.inf
        for step in (1e-1, 3e-2, 1e-2):
            ahead, behind = (
                run(model, {**feeds, wrt: feeds[wrt] + np.float32(s * step) * direction})[place].astype(np.float64)
                for s in (1, -1)
            )
            expected = float(((ahead - behind) * cotangent).sum() / (2 * step))
            got = float((gradient * direction).sum())
            best = min(best, abs(got - expected) / max(abs(expected), 1e-3))
        assert best < 5e-3, (wrt, best)
