"""Attention of ONNX Runtime and what `prepare` writes it out as, side by side in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.graph.fused import REASON
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.compare import assert_same, run
from tests.graph.test_fused import check, model_of, x

B, S, N, H = 2, 4, 2, 16
W = N * H
HEADS = {"num_heads": N}
INT = np.int32

MASKS = {
    "none": None,
    "lengths": np.array([3, 4], INT),
    "ends and starts": np.array([3, 4, 1, 0], INT),
    "keys": np.array([[1, 1, 0, 0], [1, 1, 1, 1]], INT),
    "queries and keys": np.tril(np.ones((B, S, S), INT)),
    "a whole row": np.array([[0, 0, 0, 0], [1, 0, 1, 1]], INT),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_attention(mask: str, causal: int, bias: bool) -> None:
    inputs = {"x": x(B, S, 6), "w": x(6, 3 * W), "b": x(3 * W) if bias else None, "m": MASKS[mask]}
    check("Attention", inputs, {**HEADS, "unidirectional": causal}, fed=1, tolerance=1e-5)
    if mask in ("none", "keys") and bias:
        check("Attention", inputs, {**HEADS, "unidirectional": causal}, fed=4, tolerance=1e-5)


def test_attention_of_wider_values() -> None:
    inputs = {"x": x(B, S, 6), "w": x(6, 2 * W + 6), "b": x(2 * W + 6)}
    check("Attention", inputs, {**HEADS, "qkv_hidden_sizes": [W, W, 6], "scale": 0.3}, tolerance=1e-5)


def test_attention_with_a_bias_of_scores() -> None:
    inputs = {"x": x(B, S, 6), "w": x(6, 3 * W), "b": x(3 * W), "m": None, "p": None, "a": x(1, N, S, S)}
    check("Attention", inputs, HEADS, tolerance=1e-5)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_a_past(causal: int) -> None:
    inputs = {"x": x(B, S, 6), "w": x(6, 3 * W), "b": x(3 * W), "m": None, "past": x(2, B, N, 3, H)}
    attributes = {**HEADS, "unidirectional": causal}
    check("Attention", inputs, attributes, outputs=("y", "present"), tolerance=1e-5)
    mask = np.array([[1, 1, 1, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1, 1]], INT)
    check("Attention", {**inputs, "m": mask}, attributes, outputs=("y", "present"), tolerance=1e-5)


@pytest.mark.parametrize("mask", ["none", "lengths", "keys", "queries and keys"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention(mask: str, bias: bool, causal: int) -> None:
    inputs = {
        "q": x(B, S, W), "k": x(B, S, W), "v": x(B, S, W + 4),
        "b": x(3 * W + 4) if bias else None, "m": MASKS[mask], "a": x(B, 1, S, S),
    }  # fmt: skip
    check("MultiHeadAttention", inputs, {**HEADS, "unidirectional": causal}, fed=3, tolerance=1e-5)


def test_packed() -> None:
    """No CPU kernel for packed queries, keys and values: the same ones apart are the reference."""
    q, k, v = x(B, S, W), x(B, S, W), x(B, S, W)
    expected = run(*model_of("MultiHeadAttention", {"q": q, "k": k, "v": v}, HEADS, fed=3))
    apart = [a.reshape(B, S, N, H) for a in (q, k, v)]
    model, feeds = model_of("MultiHeadAttention", {"q": np.stack(apart, 3)}, HEADS)
    assert_same(model, feeds, expected, 1e-5)
    model, feeds = model_of("MultiHeadAttention", {"q": q, "k": np.stack(apart[1:], 3)}, HEADS, fed=2)
    assert_same(model, feeds, expected, 1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_keys_by_head(bias: bool) -> None:
    heads = {"q": x(B, S, W), "k": x(B, N, 3, H), "v": x(B, N, 3, H)}
    check("MultiHeadAttention", {**heads, "b": x(3 * W) if bias else None}, HEADS, fed=3, tolerance=1e-5)


def test_multi_head_attention_with_a_past() -> None:
    inputs = {
        "q": x(B, S, W), "k": x(B, S, W), "v": x(B, S, W), "b": x(3 * W), "m": None, "a": None,
        "pk": x(B, N, 3, H), "pv": x(B, N, 3, H),
    }  # fmt: skip
    attributes = {**HEADS, "unidirectional": 1, "scale": 0.2}
    check("MultiHeadAttention", inputs, attributes, fed=8, outputs=("y", "k2", "v2"), tolerance=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [np.array([2]), np.array([[1, 0, 5, 2], [0, 1, 2, 3]])])
def test_rotary_embedding(interleaved: int, positions: np.ndarray) -> None:
    caches = {"c": x(9, H // 2), "s": x(9, H // 2)}
    for shape in ((B, S, W), (B, N, S, H)):
        inputs = {"x": x(*shape), "p": positions, **caches}
        check("RotaryEmbedding", inputs, {"interleaved": interleaved})
    partial = {"c": x(9, 2), "s": x(9, 2)}
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": 4, "num_heads": N}
    check("RotaryEmbedding", {"x": x(B, S, W), "p": positions, **partial}, attributes)


def grouped(
    new: int = S, before: int = 0, lengths: tuple[int, ...] = (S, S), capacity: int | None = None, **extra: Any
) -> dict[str, np.ndarray | None]:
    """Operands of 4 heads of queries that share 2 of keys."""
    past = before if capacity is None else capacity
    return {
        "q": x(B, new, 2 * W), "k": x(B, new, W), "v": x(B, new, W),
        "pk": x(B, N, past, H), "pv": x(B, N, past, H),
        "l": np.array(lengths, INT) - 1, "t": np.array(max(lengths), INT),
        "c": extra.get("c"), "s": extra.get("s"), "p": None, "a": extra.get("a"), "sink": extra.get("sink"),
    }  # fmt: skip


GROUPED = {"num_heads": 2 * N, "kv_num_heads": N}
CACHES = {"c": x(16, H // 2), "s": x(16, H // 2)}


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scale": 0.3},
        {"softcap": 2.0},
        {"local_window_size": 2},
        {"smooth_softmax": 1},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1},
    ],
)
@pytest.mark.parametrize(
    "sizes", [(S, 0, (S, S)), (1, 5, (6, 6)), (1, 5, (6, 4))], ids=["prompt", "next token", "ragged"]
)
def test_group_query_attention(attributes: dict[str, Any], sizes: tuple[int, int, tuple[int, int]]) -> None:
    """The kernel reads its cache only where it gives one out too, so the expected values come from such a node."""
    inputs = grouped(*sizes, **(CACHES if attributes.get("do_rotary") else {}))
    caching, feeds = model_of(
        "GroupQueryAttention", inputs, {**GROUPED, **attributes}, fed=7, outputs=("y", "k2", "v2")
    )
    alone, _ = model_of("GroupQueryAttention", inputs, {**GROUPED, **attributes}, fed=7)
    prepared = assert_same(alone, feeds, run(caching, feeds)[:1], 1e-5)
    assert {n.domain for n in prepared.graph} == {""}


def test_group_query_attention_with_a_bias_and_sinks() -> None:
    check("GroupQueryAttention", grouped(a=x(1, 1, S, S)), GROUPED, fed=7, tolerance=1e-5)
    check("GroupQueryAttention", grouped(sink=x(2 * N)), GROUPED, fed=7, tolerance=1e-5)


def test_packed_group_query_attention() -> None:
    inputs = grouped(**CACHES)
    inputs["q"] = x(B, S, 4 * W)
    inputs["k"] = inputs["v"] = None
    check("GroupQueryAttention", inputs, {**GROUPED, "do_rotary": 1}, fed=5, tolerance=1e-5)


def test_the_cache_stays_with_the_node() -> None:
    """The first output is written out; the node itself stays for what it gives to the next run."""
    model, feeds = model_of("GroupQueryAttention", grouped(1, 5, (6, 6)), GROUPED, fed=7, outputs=("y", "pk2", "pv2"))
    prepared = prepare(load(model))
    kept = [n for n in prepared.graph if n.domain]
    assert [n.op_type for n in kept] == ["GroupQueryAttention"]
    assert not kept[0].outputs[0].uses()
    assert_same(model, feeds, tolerance=1e-5)


def test_what_stays_and_why() -> None:
    inputs = {"x": x(B, S, 6), "w": x(6, 3 * W), "b": x(3 * W)}
    model, _ = model_of("Attention", inputs, {**HEADS, "do_rotary": 1})
    (node,) = prepare(load(model)).graph
    assert "do_rotary" in node.meta[REASON][0]
    model, _ = model_of("GroupQueryAttention", grouped(), {**GROUPED, "sliding_window_cache": 1}, fed=7)
    (node,) = prepare(load(model)).graph
    assert "sliding_window_cache" in node.meta[REASON][0]
