"""Constants and branches of the prepared model: what is known beforehand is computed beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ig.graph.save import to_proto
from tests.graph.compare import assert_same, assert_unique, node_model, operators, parse

RNG = np.random.default_rng(11)
X = RNG.standard_normal((2, 3)).astype(np.float32)


# Constants -------------------------------------------------------------------------------------------------------


def test_weights_that_are_listed_as_inputs() -> None:
    model = node_model(helper.make_node("Mul", ["x", "w"], ["y"]), {"x": X}, 9, stored={"w": X[:1]}, ir_version=3)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1, 3]))
    prepared = assert_same(model, {"x": X})
    assert [v.name for v in prepared.graph.inputs] == ["x"]
    assert prepared.ir_version >= 10


CONSTANTS: dict[str, Any] = {
    "value": numpy_helper.from_array(np.array([1, 2, 3], np.float32)),
    "value_float": 2.5,
    "value_floats": [1.0, 2.0, 3.0],
    "value_int": 2,
    "value_ints": [1, 2, 3],
}


@pytest.mark.parametrize("form", CONSTANTS)
def test_constant_nodes_become_initializers(form: str) -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], **{form: CONSTANTS[form]}),
        helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    prepared = assert_same(node_model(nodes, {"x": X}, 20), {"x": X})
    assert "Constant" not in operators(prepared)
    factor = prepared.graph[-1].inputs[1]
    assert factor is not None
    assert factor.const_value is not None


def test_strings() -> None:
    nodes = [
        helper.make_node("Constant", [], ["s"], value_strings=["a", "b"]),
        helper.make_node("Equal", ["s", "t"], ["y"]),
    ]
    feeds = {"t": np.array(["a", "c"], object)}
    model = node_model(nodes, {}, 20, outputs=["y"])
    model.graph.input.append(helper.make_tensor_value_info("t", TensorProto.STRING, [2]))
    prepared = assert_same(model, feeds, [np.array([True, False])])
    assert operators(prepared) == ["Equal"]


def test_a_constant_that_is_an_output() -> None:
    model = parse("""g (float[N,3] x) => (float[3] c, float[N,3] y)
        { c = Constant<value = float[3] {1, 2, 3}>() y = Mul(x, c) }""")
    prepared = assert_same(model, {"x": X})
    assert [v.name for v in prepared.graph.outputs] == ["c", "y"]
    factor = prepared.graph.node("Mul").inputs[1]
    assert factor is not None
    assert factor.const_value is not None


def test_constants_in_subgraphs() -> None:
    model = parse("""g (float[N,3] x, bool k) => (float[N,3] y)
        { y = If(k) <then_branch = t () => (float[N,3] a) { c = Constant<value_float = 2.0>() a = Mul(x, c) },
                     else_branch = e () => (float[3] b) { b = Constant<value_floats = [1.0, 2.0, 3.0]>() }> }""")
    for k in (True, False):
        prepared = assert_same(model, {"x": X, "k": np.array(k)})
    assert "Constant" not in operators(prepared)[:2]


def test_shared_weights_behind_an_identity_are_read_directly() -> None:
    nodes = [helper.make_node("Identity", ["w"], ["v"]), helper.make_node("Gather", ["v", "x"], ["y"])]
    ids = np.array([[1, 0]])
    prepared = assert_same(node_model(nodes, {"x": ids}, 17, stored={"w": X}), {"x": ids})
    table = prepared.graph.node("Gather").inputs[0]
    assert table is prepared.graph.initializers["w"]


def test_half_precision_weights_behind_a_cast_are_seen_and_stored_once() -> None:
    w = RNG.standard_normal((100, 200)).astype(np.float16)
    nodes = [
        helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    x = RNG.standard_normal((2, 100)).astype(np.float32)
    model = node_model(nodes, {"x": x}, 20, stored={"w": w})
    prepared = assert_same(model, {"x": x})
    weight = prepared.graph.node("MatMul").inputs[1]
    assert weight is not None
    assert weight.const_value is not None
    np.testing.assert_array_equal(weight.const_value.numpy(), w.astype(np.float32))
    assert len(to_proto(prepared).SerializeToString()) < 1.05 * w.nbytes + 2000


def test_pads_computed_as_pytorch_exports_them() -> None:
    model = parse("""g (float[N,1,3,4] x) => (float[N,1,A,B] y)
        { k = Constant<value = int64[4] {1, 2, 0, 1}>() n = Constant<value = int64[1] {4}>()
          z = ConstantOfShape<value = int64[1] {0}>(n) c = Concat<axis = 0>(k, z)
          two = Constant<value = int64[2] {-1, 2}>() r = Reshape(c, two) s = Constant<value = int64[1] {-1}>()
          e = Constant<value = int64[1] {-9223372036854775807}>() o = Constant<value = int64[1] {0}>()
          f = Slice(r, s, e, o, s) t = Transpose<perm = [1, 0]>(f) p = Reshape(t, s) q = Cast<to = 7>(p) y = Pad(x, q) }""")
    x = RNG.standard_normal((2, 1, 3, 4)).astype(np.float32)
    prepared = assert_same(model, {"x": x})
    pads = prepared.graph.node("Pad").inputs[1]
    assert pads is not None
    assert pads.const_value is not None
    assert pads.const_value.numpy().tolist() == [0, 0, 0, 1, 0, 0, 1, 2]
    assert str(prepared.graph.outputs[0].shape) == "[N,1,4,7]"


def test_one_known_dimension_of_an_open_shape_is_a_constant() -> None:
    model = parse("""g (float[N,6] x) => (float[N,A] y)
        { s = Shape(x) o = Constant<value = int64[1] {1}>() d = Gather(s, o) two = Constant<value = int64[1] {2}>()
          h = Div(d, two) z = Constant<value = int64[1] {0}>() y = Slice(x, z, h, o) }""")
    prepared = assert_same(model, {"x": np.tile(X, 2)})
    assert prepared.graph.outputs[0].shape == ir.Shape(["N", 3])


def test_what_could_draw_or_overflow_is_not_computed_ahead() -> None:
    model = parse("""g (float[N,3] x) => (float[N,3] y)
        { n = Constant<value = int64[2] {100, 1000}>() big = ConstantOfShape(n) m = Constant<value = int64[1] {-7}>()
          two = Constant<value = int64[1] {2}>() d = Div(m, two) f = Cast<to = 1>(d) t = ReduceSum(big)
          a = Add(x, f) y = Add(a, t) }""")
    prepared = assert_same(model, {"x": X}, [X - 3])
    assert prepared.graph.node("ConstantOfShape").outputs[0].const_value is None
    assert prepared.graph.node("Div").outputs[0].const_value is None


# Branches --------------------------------------------------------------------------------------------------------


def test_a_branch_chosen_beforehand() -> None:
    text = """g (float[N,3] x) => (float[N,A] y, float[N,3] z)
        {{ s = Shape<start = 1>(x) k = Constant<value = int64[1] {{{width}}}>() c = Equal(s, k)
          y, z = If(c) <then_branch = t () => (float[N,3] a, float[N,3] b) {{ w = Constant<value_float = 2.0>()
                                                                              a = Mul(x, w) b = Identity(x) }},
                        else_branch = e () => (float[N,1] a2, float[N,3] a3)
                          {{ o = Constant<value = int64[1] {{1}}>() a3 = Neg(x) a2 = ReduceSum(a3, o) }}> }}"""
    for width in (3, 4):
        prepared = assert_same(parse(text.format(width=width)), {"x": X})
        assert "If" not in operators(prepared)
        assert [v.name for v in prepared.graph.outputs] == ["y", "z"]
        assert prepared.graph.outputs[0].shape == ir.Shape(["N", 3 if width == 3 else 1])
        assert_unique(prepared)


def test_a_branch_that_gives_an_outer_value_or_one_twice() -> None:
    model = parse("""g (float[N,3] x) => (float[N,3] y, float[N,3] z, float[N,3] w)
        { c = Constant<value = bool {1}>() h = Exp(x)
          y, z, w = If(c) <then_branch = t () => (float[N,3] h, float[N,3] b, float[N,3] b) { b = Neg(h) },
                           else_branch = e () => (float[N,3] p, float[N,3] q, float[N,3] r)
                             { p = Abs(x) q = Abs(x) r = Abs(x) }> }""")
    prepared = assert_same(model, {"x": X}, [np.exp(X), -np.exp(X), -np.exp(X)])
    assert "If" not in operators(prepared)
