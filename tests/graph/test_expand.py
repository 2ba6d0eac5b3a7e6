from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.gradcheck import node_model

rng = np.random.default_rng(0)


def prepared(model: onnx.ModelProto, *keep: str) -> onnx.ModelProto:
    return ir.to_proto(prepare(load(model), lambda domain, operator: domain == "" and operator in keep))


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "opset"),
    [
        ("SwiGLU", {"a": (2, 3), "b": (2, 3)}, {"alpha": 0.5}, 28),
        ("SwiGLU", {"a": (2, 3), "b": (2, 3)}, {}, 28),
        ("Celu", {"x": (2, 3)}, {}, 20),
        (
            "CausalConvWithState",
            {"x": (2, 3, 4), "w": (3, 1, 2), "b": None, "p": (2, 3, 1)},
            {"activation": "silu"},
            27,
        ),
        (
            "LinearAttention",
            dict.fromkeys("qkv", (2, 3, 4)),
            {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"},
            27,
        ),
        ("MeanVarianceNormalization", {"x": (2, 3, 2, 2)}, {}, 20),
        ("CenterCropPad", {"x": (4, 5), "shape": np.array([2, 7])}, {}, 20),
    ],
)
def test_the_same_values(operator: str, inputs: dict[str, Any], attributes: dict[str, Any], opset: int) -> None:
    feeds = {n: rng.standard_normal(s).astype(np.float32) if isinstance(s, tuple) else s for n, s in inputs.items()}
    model = node_model(operator, {n: None if inputs[n] is None else a for n, a in feeds.items()}, attributes,
                       opset=opset, dtype=np.float32, outputs=["y", "state"][: 1 + (opset == 27)])  # fmt: skip
    feeds = {n: a for n, a in feeds.items() if inputs[n] is not None}
    expanded = prepared(model)
    assert operator not in {n.op_type for n in expanded.graph.node}
    assert not expanded.functions
    onnx.checker.check_model(expanded)
    for got, expected in zip(
        ReferenceEvaluator(expanded).run(None, feeds), ReferenceEvaluator(model).run(None, feeds), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_what_is_kept_stays() -> None:
    model = node_model("Celu", {"x": np.ones((2, 3))}, dtype=np.float32)
    assert [n.op_type for n in prepared(model, "Celu").graph.node] == ["Celu"]


def test_operators_without_floats_stay() -> None:
    model = node_model("HannWindow", {"size": np.array(4)}, dtype=np.float32)
    assert [n.op_type for n in prepared(model).graph.node] == ["HannWindow"]


def test_inside_a_branch() -> None:
    x = np.array([-1.0, 2.0], np.float32)
    model = node_model("Identity", {"x": x}, dtype=np.float32)
    branch = helper.make_graph(
        [helper.make_node("Celu", ["x"], ["z"])], "b", [], [helper.make_empty_tensor_value_info("z")]
    )
    del model.graph.node[:]
    model.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))
    expanded = prepared(model, "If")
    assert b"Celu" not in b"".join(n.op_type.encode() for g in expanded.graph.node[0].attribute for n in g.g.node)
    (got,) = ReferenceEvaluator(expanded).run(None, {"x": x, "c": np.array(True)})
    np.testing.assert_allclose(got, [np.exp(-1) - 1, 2], rtol=1e-6)


@pytest.mark.parametrize("optional", [(), ("b",), ("past",), ("b", "past")])
@pytest.mark.parametrize("activation", ["none", "swish"])
@pytest.mark.parametrize("taps", [1, 3])
def test_causal_convolution_of_open_shape(taps: int, activation: str, optional: tuple[str, ...]) -> None:
    """The standard's body needs the number of channels; ours does not."""
    shapes = {"x": (2, 3, 4), "w": (3, 1, taps), "b": (3,), "past": (2, 3, taps - 1)}
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items() if n in ("x", "w", *optional)}
    model = node_model("CausalConvWithState", {n: feeds.get(n) for n in shapes}, {"activation": activation}, opset=27,
                       shapes="unranked", dtype=np.float32, outputs=["y", "state"])  # fmt: skip
    expanded = prepared(model)
    assert "CausalConvWithState" not in {n.op_type for n in expanded.graph.node}
    for got, expected in zip(
        ReferenceEvaluator(expanded).run(None, feeds), ReferenceEvaluator(model).run(None, feeds), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
