"""What is brought up around the nodes: imports, functions, subgraphs, other domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, parser

from onnx_ig.errors import ModelError
from onnx_ig.graph.inline import inline
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.upgrade import upgrade
from tests.graph.compare import assert_same, node_model, operators
from tests.graph.old_nodes import X, one

RNG = np.random.default_rng(3)


def test_an_opset_from_the_future_is_refused() -> None:
    model, _ = one("Relu", onnx.defs.onnx_opset_version() + 1)
    with pytest.raises(ModelError, match="install a newer onnx"):
        prepare(load(model))


@pytest.mark.parametrize(("opset", "expected"), [(7, 20), (13, 20), (20, 20), (21, 21), (22, 22)])
def test_which_opset_comes_out(opset: int, expected: int) -> None:
    assert assert_same(*one("Relu", opset)).opset_imports == {"": expected}


def test_the_standard_domain_spelled_out() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1, domain="ai.onnx")
    model = node_model(node, {"x": X}, 0, imports=[helper.make_opsetid("ai.onnx", 11)])
    prepared = assert_same(model, {"x": X})
    assert prepared.opset_imports == {"": 20}
    assert "Flatten" in operators(prepared)


def test_without_an_import_of_the_standard_domain_the_latest_is_meant() -> None:
    model = node_model(
        helper.make_node("Softmax", ["x"], ["y"]), {"x": X}, 0, imports=[helper.make_opsetid("ai.onnx.ml", 2)]
    )
    prepared = assert_same(model, {"x": X})
    assert operators(prepared) == ["Softmax"]
    assert prepared.opset_imports[""] == 20


def test_without_any_import_an_ancient_file_is_of_opset_1() -> None:
    model, feeds = one("Concat", 1, {"a": X, "b": X})
    del model.opset_import[:]
    model.ir_version = 2
    assert_same(model, feeds, [np.concatenate([X, X], 1)])


def test_subgraphs_come_up_too() -> None:
    model = parser.parse_model("""
        <ir_version: 7, opset_import: ["" : 11]>
        g (float[N,3,4] x, bool c) => (float[N,3,4] y)
        { y = If (c) <then_branch = t () => (float[N,3,4] a) { a = Softmax<axis = 1>(x) },
                      else_branch = e () => (float[N,3,4] b) { k = Constant<value = float {2.0}>() b = Mul(x, k) }> }
    """)
    for c in (True, False):
        prepared = assert_same(model, {"x": X[0, :, :3, :4], "c": np.array(c)})
    assert "Flatten" in operators(prepared)


def test_functions_of_another_opset_come_up_as_what_they_were_written_for() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[N,3,4] x) => (float[N,3,4] y, float[N,3,4] z) { y = mine.soft<k = 2>(x) z = Softmax<axis = 1>(x) }
        <domain: "mine", opset_import: ["" : 11, "mine" : 3]>
        soft <k> (a) => (b) { h = Softmax<axis = 1>(a) b = mine.inner<k: int = @k>(h) }
        <domain: "mine", opset_import: ["" : 12]>
        inner <k> (a) => (b) { b = LogSoftmax<axis: int = @k>(a) }
    """)
    x = X[0]
    feeds = {"x": np.stack([x, x])[:, :, :4].reshape(2, 3, -1)[:, :, :4].copy()}

    def softmax(v: np.ndarray, axes: Any) -> np.ndarray:
        e = np.exp(v - v.max(axes, keepdims=True))
        return e / e.sum(axes, keepdims=True)

    expected = [np.log(softmax(softmax(feeds["x"], (1, 2)), 2)), softmax(feeds["x"], 1)]
    prepared = assert_same(model, feeds, expected, tolerance=1e-5)
    assert not prepared.functions
    assert prepared.opset_imports == {"": 20}


def test_nodes_of_other_domains_stay() -> None:
    nodes = [
        helper.make_node("Gelu", ["x"], ["h"], domain="com.microsoft"),
        helper.make_node("Clip", ["h"], ["y"], min=0.0),
    ]
    imports = [helper.make_opsetid("", 9), helper.make_opsetid("com.microsoft", 1)]
    model = load(node_model(nodes, {"x": X}, 9, imports=imports))
    inline(model)
    upgrade(model)
    assert [(n.domain, n.op_type) for n in model.graph] == [("com.microsoft", "Gelu"), ("", "Clip")]
    assert model.graph[1].inputs[1].dtype == ir.DataType.FLOAT  # type: ignore[union-attr]


def test_layer_normalization_that_the_runtime_wrote_below_opset_17() -> None:
    stored = {k: np.ones(5, np.float32) for k in "sb"}
    assert_same(*one("LayerNormalization", 12, stored=stored, epsilon=1e-3), tolerance=1e-5)


def test_new_nodes_are_named_after_the_old_one() -> None:
    prepared = assert_same(*one("Softmax", 9, axis=1))
    assert [n.name for n in prepared.graph] == ["node_Flatten", "node_Softmax", "node_Shape", "node_Reshape"]
    assert prepared.graph.outputs[0].name == "y"


def test_types_of_constants_are_int64() -> None:
    prepared = assert_same(*one("Slice", 7, starts=[0], ends=[1], axes=[1]))
    assert {v.dtype for v in prepared.graph.initializers.values()} == {ir.DataType(TensorProto.INT64)}
