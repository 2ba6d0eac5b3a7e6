"""What cannot be differentiated is refused by operator and node, with the reason and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_ig
from onnx_ig.errors import BlockedNode, RunError, UnsupportedOperatorError

IMPORTS = {"": 17, "com.microsoft": 1, "com.microsoft.nchwc": 1, "ai.onnx.ml": 3, "example.org": 1}


def model_of(operator: str, domain: str, stored: dict[str, np.ndarray], attributes: dict[str, Any]) -> onnx.ModelProto:
    """`x` through the operator, and Identity behind it."""
    nodes = [
        helper.make_node(operator, ["x", *stored], ["h"], name="the node", domain=domain, **attributes),
        helper.make_node("Identity", ["h"], ["y"], name="after"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
        value_info=[helper.make_tensor_value_info("h", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in IMPORTS.items()], ir_version=8)


WEIGHT = {"w": np.ones((8, 8, 1, 1), np.float32)}
MATRIX = {"w": np.ones((4, 4), np.float32)}


@pytest.mark.parametrize(
    ("operator", "domain", "stored", "attributes", "reason", "remedy"),
    [
        ("TreeEnsembleRegressor", "ai.onnx.ml", {}, {}, "piecewise constant", "perturbation"),
        ("TreeEnsembleClassifier", "ai.onnx.ml", {}, {}, "piecewise constant", "perturbation"),
        ("Conv", "com.microsoft.nchwc", WEIGHT, {}, "blocked layout", "EXTENDED or lower"),
        ("FusedGemm", "com.microsoft", MATRIX, {"activation": "Sinus"}, "'Sinus'", "BASIC"),
        ("QMoE", "com.microsoft", {}, {}, "no derivative", "BASIC"),
        ("Relu", "example.org", {}, {}, "domain 'example.org'", "model-local function"),
        ("SVMRegressor", "ai.onnx.ml", {}, {"one_class": 1}, "one-class", "perturbation"),
    ],
)
def test_what_the_message_says(
    operator: str, domain: str, stored: dict[str, np.ndarray], attributes: dict[str, Any], reason: str, remedy: str
) -> None:
    model = model_of(operator, domain, stored, attributes)
    with pytest.raises(UnsupportedOperatorError) as raised:
        onnx_ig.add_gradients(model)
    (node,) = raised.value.nodes
    assert (node.name, node.op_type, node.domain) == ("the node", operator, domain)
    assert reason in node.reason
    assert remedy in node.remedy
    message = str(raised.value)
    for part in (f"{domain}.{operator}", "'the node'", node.reason, node.remedy):
        assert part in message
    report = onnx_ig.inspect(model)
    assert not report.ok
    assert reason in str(report)


def test_a_copy_of_the_node_gives_the_same_reason() -> None:
    """An Explainer walks copies of the model's nodes."""
    with pytest.raises(UnsupportedOperatorError, match="blocked layout") as raised:
        onnx_ig.rewrite(model_of("Conv", "com.microsoft.nchwc", WEIGHT, {}))
    assert "'the node'" in str(raised.value)


def test_nodes_of_one_operator_and_reason_are_named_together() -> None:
    blocked = [
        BlockedNode("a", "Conv", "example.org", "it is not known", "Write it out."),
        BlockedNode("b", "Relu", "example.org", "it is not known", "Write it out."),
        BlockedNode("c", "Conv", "example.org", "it is not known", "Write it out."),
    ]
    lines = str(UnsupportedOperatorError(blocked)).splitlines()
    assert lines == [
        "3 nodes on the path cannot be differentiated:",
        "  example.org.Conv (2 nodes: 'a', 'c'): it is not known. Write it out.",
        "  example.org.Relu (node 'b'): it is not known. Write it out.",
    ]


@pytest.mark.parametrize("made", [onnx_ig.Explainer, onnx_ig.rewrite])
@pytest.mark.parametrize("nodes", ["y = Sign(h)", "b = Greater(h, w) y = Cast<to = 1>(b)"])
def test_the_values_before_a_derivative_of_zero_are_the_users_own(nodes: str, made: Any) -> None:
    text = f"g (float[N,3] x) => (float[N,3] y) <float[3] w = {{1,2,3}}> {{ t = Tanh(x) h = Mul(t, w) {nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    with pytest.raises(onnx_ig.NoGradientPathError, match="output=, for example 'h'") as raised:
        made(model)
    assert raised.value.before == ("h",)
    made(model, output="h")


def test_where_nothing_before_it_has_a_derivative_another_method_is_named() -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[N,3] x) => (float[N,3] y) { y = Sign(x) }'
    with pytest.raises(onnx_ig.NoGradientPathError, match="perturbation"):
        onnx_ig.Explainer(onnx.parser.parse_model(text))


def test_an_operator_that_no_runtime_knows_is_refused_by_the_explainer_too() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"example.org.Relu .node 'the node'.*model-local function"):
        onnx_ig.Explainer(model_of("Relu", "example.org", {}, {}))


def test_an_operator_off_the_path_that_the_runtime_lacks() -> None:
    model = model_of("Identity", "", {}, {})
    model.graph.node.append(helper.make_node("Relu", ["x"], ["z"], domain="example.org"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    with pytest.raises(RunError, match=r"example.org:Relu.*register_custom_ops_library"):
        onnx_ig.Explainer(model, output="y")
