"""Operators without a rule of their own, differentiated through the parts that the standard gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import onnx_ig
from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import Runner, graph_model, node_model

rng = np.random.default_rng(0)


def verify(
    operator: str,
    operands: dict[str, Any],
    attributes: dict[str, Any],
    opset: int,
    of: str,
    shapes: str = "static",
    wrt: list[str] | None = None,
) -> None:
    """Central differences of the reference, whose arithmetic is float32: a wide step and wide tolerances."""
    single = {n: None if a is None else np.asarray(a, np.float32) for n, a in operands.items()}
    model = node_model(
        operator, single, attributes, opset=opset, outputs=["y", "state"], shapes=shapes, dtype=np.float32
    )
    feeds = {n: a for n, a in single.items() if a is not None}
    forward = ReferenceEvaluator(model)
    position = ["y", "state"].index(of)
    shape = forward.run(None, feeds)[position].shape
    cotangent = rng.standard_normal(shape).astype(np.float32)
    wrt = wrt or [n for n in feeds if of == "y" or n != "q"]
    augmented = onnx_ig.add_gradients(model, of=of, wrt=wrt)
    got = dict(zip(wrt, Runner(augmented)({**feeds, f"grad_{of}": cotangent})[2:], strict=True))
    for name in wrt:
        direction = rng.standard_normal(feeds[name].shape).astype(np.float32)
        ahead, behind = (
            forward.run(None, {**feeds, name: feeds[name] + sign * 1e-2 * direction})[position].astype(np.float64)
            for sign in (1, -1)
        )
        expected = ((ahead - behind) * cotangent).sum() / 2e-2
        scale = np.abs(got[name] * direction).sum()
        assert got[name].shape == feeds[name].shape
        assert abs((got[name] * direction).sum() - expected) < 2e-3 * scale, (name, expected, scale)


@pytest.mark.parametrize("shapes", ["static", "batch", "dynamic", "unranked"])
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("optional", [False, True])
def test_causal_convolution(activation: str, optional: bool, shapes: str) -> None:
    operands = {
        "x": rng.standard_normal((2, 3, 4)),
        "w": rng.standard_normal((3, 1, 3)),
        "b": rng.standard_normal(3) if optional else None,
        "p": rng.standard_normal((2, 3, 2)) if optional else None,
    }
    verify("CausalConvWithState", operands, {"activation": activation}, 27, "y", shapes)
    if optional:
        verify("CausalConvWithState", operands, {"activation": activation}, 27, "state", shapes, wrt=["x"])


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("heads", [2, 4])
def test_linear_attention(rule: str, heads: int) -> None:
    operands: dict[str, Any] = {
        "q": rng.standard_normal((2, 3, heads * 2)),
        "k": rng.standard_normal((2, 3, 4)),
        "v": rng.standard_normal((2, 3, 6)),
        "past": rng.standard_normal((2, 2, 2, 3)),
        "decay": -rng.random((2, 3, 2)) if "gated" in rule else None,
        "beta": rng.random((2, 3, 2)) if "delta" in rule else None,
    }
    attributes = {"q_num_heads": heads, "kv_num_heads": 2, "update_rule": rule}
    verify("LinearAttention", operands, attributes, 27, "y")
    verify("LinearAttention", operands, attributes, 27, "state")


def test_parts_that_cannot_be_differentiated_are_refused_by_name() -> None:
    operands = dict.fromkeys("qkv", np.ones((1, 2, 4)))
    attributes = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
    model = node_model("LinearAttention", operands, attributes, opset=27, shapes="unranked", outputs=["y", "state"])
    with pytest.raises(UnsupportedOperatorError, match=r"Scan .*the number of dimensions"):
        onnx_ig.add_gradients(model, of="y", wrt="q")


@pytest.mark.parametrize("shapes", ["static", "dynamic"])
def test_flex_attention(shapes: str) -> None:
    """Scores changed by a subgraph that reads a value from outside; k and v are shared by two query heads."""
    operands = {"q": rng.standard_normal((1, 2, 3, 4)), "k": rng.standard_normal((1, 1, 5, 4)),
                "v": rng.standard_normal((1, 1, 5, 2)), "bias": rng.standard_normal((3, 5))}  # fmt: skip
    single = {n: np.asarray(a, np.float32) for n, a in operands.items()}
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None] * 4)
    changed = helper.make_tensor_value_info("changed", TensorProto.FLOAT, [None] * 4)
    nodes = [helper.make_node("Add", ["scores", "bias"], ["added"]), helper.make_node("Tanh", ["added"], ["changed"])]
    attributes = {"score_mod": helper.make_graph(nodes, "score_mod", [scores], [changed])}
    flex = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **attributes)
    opsets = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview", 1)]
    model = graph_model([flex], single, ["y"], opsets=opsets, shapes=shapes, dtype=np.float32)
    wrt = list(single)
    augmented = onnx_ig.add_gradients(model, of="y", wrt=wrt)
    cotangent = rng.standard_normal((1, 2, 3, 2)).astype(np.float32)
    got = dict(zip(wrt, Runner(augmented)({**single, "grad_y": cotangent})[1:], strict=True))
    for name in wrt:
        direction = rng.standard_normal(operands[name].shape)
        ahead, behind = (_flex(**{**operands, name: operands[name] + s * 1e-5 * direction}) for s in (1, -1))
        expected = ((ahead - behind) * cotangent).sum() / 2e-5
        assert abs((got[name] * direction).sum() - expected) < 1e-5 * np.abs(got[name] * direction).sum(), name


def _flex(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray) -> np.ndarray:
    scores = np.tanh(q @ np.swapaxes(k, 2, 3) / 2 + bias)
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True) @ v
