"""The prepared model computes what the original does, in the one form that rules are written for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnx_ig.errors import ModelError
from onnx_ig.graph.inline import inline
from onnx_ig.graph.load import load
from onnx_ig.graph.names import make_unique
from onnx_ig.graph.prepare import infer, prepare
from onnx_ig.graph.save import to_proto
from onnx_ig.graph.upgrade import upgrade
from tests.graph.compare import assert_same, node_model, operators

RNG = np.random.default_rng(11)
X = RNG.standard_normal((2, 3)).astype(np.float32)


def parse(text: str, opset: int = 20, ir_version: int = 8, imports: str = "") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}{imports}]>\n{text}')


def values(model: ir.Model) -> list[ir.Value]:
    return [
        v
        for graph in model.graphs()
        for v in (*graph.inputs, *graph.initializers.values(), *(o for n in graph for o in n.outputs))
    ]


def assert_unique(model: ir.Model) -> None:
    named = [v.name for v in dict.fromkeys(values(model)) if v.name]
    assert len(named) == len(set(named))
    nodes = [n.name for graph in model.graphs() for n in graph]
    assert all(nodes)
    assert len(nodes) == len(set(nodes))


# Functions -------------------------------------------------------------------------------------------------------


def test_nested_functions_with_attributes_and_options() -> None:
    model = parse(
        """g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = f.outer<slope = 0.5>(x) z = f.outer(x, y) }
        <domain: "f", opset_import: ["" : 20, "f" : 1]>
        outer <slope: float = 0.1> (a, b) => (c) { h = f.inner<alpha: float = @slope>(a) c = Clip(h, b) }
        <domain: "f", opset_import: ["" : 20]>
        inner <alpha> (a) => (c) { h = LeakyRelu<alpha: float = @alpha>(a) c = Exp(h) }""",
        imports=', "f" : 1',
    )
    model.graph.node[1].input[1] = "k"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1), "k"))
    prepared = assert_same(model, {"x": X})
    assert operators(prepared) == ["LeakyRelu", "Exp", "Clip"] * 2
    assert not prepared.functions
    assert prepared.opset_imports == {"": 20}
    assert_unique(prepared)


def test_functions_whose_outputs_are_their_inputs_or_the_same_twice() -> None:
    model = parse(
        """g (float[N,3] x) => (float[N,3] a, float[N,3] b, float[N,3] c) { a, b, c = f.three(x) }
        <domain: "f", opset_import: ["" : 20]> three (p) => (p, q, q) { q = Exp(p) }""",
        imports=', "f" : 1',
    )
    prepared = assert_same(model, {"x": X}, [X, np.exp(X), np.exp(X)])
    assert [v.name for v in prepared.graph.inputs] == ["x"]
    assert [v.name for v in prepared.graph.outputs] == ["a", "b", "c"]


def test_functions_in_subgraphs_and_with_subgraphs() -> None:
    model = parse(
        """g (float[N,3] x, bool k) => (float[N,3] y)
           { y = If(k) <then_branch = t () => (float[N,3] a) { a = f.choose(x, k) },
                        else_branch = e () => (float[N,3] b) { h = f.choose(x, k) b = f.choose(h, k) }> }
        <domain: "f", opset_import: ["" : 20]>
        choose (p, k) => (q) { q = If(k) <then_branch = t () => (a) { a = Exp(p) },
                                          else_branch = e () => (b) { h = Neg(p) b = Abs(h) }> }""",
        imports=', "f" : 1',
    )
    for k in (True, False):
        prepared = assert_same(model, {"x": X, "k": np.array(k)})
    assert_unique(prepared)


def test_functions_with_other_domains() -> None:
    text = """g (float[N,3] x) => (float[N,3] y) {{ y = f.scaled(x) }}
        <domain: "f", opset_import: ["" : 20, "ai.onnx.ml" : {version}, "unused" : 7]>
        scaled (a) => (b) {{ b = ai.onnx.ml.Scaler<scale = [2.0]>(a) }}"""
    model = parse(text.format(version=3), imports=', "f" : 1')
    assert_same(model, {"x": X}, [2 * X])
    model = parse(text.format(version=3), imports=', "f" : 1, "ai.onnx.ml" : 2')
    with pytest.raises(ModelError, match=r"version 2 of the domain 'ai\.onnx\.ml' and its function 'scaled' version 3"):
        prepare(load(model))


def test_functions_that_cannot_be_inlined() -> None:
    circle = parse(
        """g (float[N] x) => (float[N] y) { y = f.a(x) }
        <domain: "f", opset_import: ["" : 20, "f" : 1]> a (p) => (q) { q = f.b(p) }
        <domain: "f", opset_import: ["" : 20, "f" : 1]> b (p) => (q) { q = f.a(p) }""",
        imports=', "f" : 1',
    )
    with pytest.raises(ModelError, match="functions cannot be inlined: Cyclic"):
        prepare(load(circle))


# Order and names -------------------------------------------------------------------------------------------------


def test_nodes_in_the_wrong_order_in_every_graph() -> None:
    model = parse("""g (float[N,3] x, bool k) => (float[N,3] y)
        { z = Exp(x) y = If(k) <then_branch = t () => (float[N,3] a) { h = Neg(z) a = Abs(h) },
                                else_branch = e () => (float[N,3] b) { b = Neg(z) }> }""")
    feeds = {"x": X, "k": np.array(True)}
    expected = [np.exp(X)]
    branch = model.graph.node[1].attribute[0].g
    for nodes in (model.graph.node, branch.node):
        nodes.insert(0, nodes[1])
        del nodes[2]
    prepared = assert_same(model, feeds, expected)
    assert operators(prepared)[:2] == ["Exp", "If"]


def test_a_circle_is_refused() -> None:
    model = parse("g (float[N] x) => (float[N] y) { y = Add(x, z) z = Neg(y) }")
    with pytest.raises(ModelError, match="cycle"):
        prepare(load(model))


def test_names_are_given_and_made_unique_everywhere() -> None:
    model = parse("""g (float[N,3] x, bool k) => (float[N,3] y)
        { a = Exp(x) [n] y = If(k) <then_branch = t () => (float[N,3] r) { [n] h = Neg(a) r = Abs(h) },
                                else_branch = e () => (float[N,3] r) { h = Neg(x) r = Abs(h) }> }""")
    prepared = assert_same(model, {"x": X, "k": np.array(True)})
    assert_unique(prepared)
    assert [v.name for v in prepared.graph.inputs] == ["x", "k"]
    assert prepared.graph[0].outputs[0].name == "a"


def test_outputs_left_out_stay_left_out() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p", ""], kernel_shape=[2]),
        helper.make_node("RNN", ["p", "w", "r"], ["", "y"], hidden_size=1),
    ]
    x, stored = X[None], {"w": np.ones((1, 1, 2), np.float32), "r": np.ones((1, 1, 1), np.float32)}
    prepared = assert_same(node_model(nodes, {"x": x}, 20, stored=stored), {"x": x})
    left = [v for n in prepared.graph for v in n.outputs if not v.name]
    assert len(left) == 2
    assert prepared.graph.outputs[0].name == "y"


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


# Outputs ---------------------------------------------------------------------------------------------------------


def test_an_output_that_is_an_input() -> None:
    model = parse("g (float[N,3] x) => (float[N,3] x, float[N,3] y) { y = Neg(x) }")
    prepared = assert_same(model, {"x": X}, [X, -X])
    assert [v.name for v in prepared.graph.inputs] == ["x"]
    assert [v.name for v in prepared.graph.outputs] == ["x", "y"]


def test_an_output_that_is_a_weight() -> None:
    model = node_model(helper.make_node("Mul", ["x", "w"], ["y"]), {"x": X}, 20, stored={"w": X[:1]})
    model.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1, 3]))
    prepared = assert_same(model, {"x": X})
    assert [v.name for v in prepared.graph.outputs] == ["y", "w"]


# Types and shapes ------------------------------------------------------------------------------------------------


def test_stale_shapes_and_types_are_replaced() -> None:
    model = parse("""g (float[N,3] x) => (float[1,7] y) <float[9,9] h> { h = Exp(x) y = Neg(h) }""")
    prepared = prepare(load(model))
    assert [str(v.shape) for n in prepared.graph for v in n.outputs] == ["[N,3]", "[N,3]"]
    model.graph.value_info[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    prepared = prepare(load(model))
    assert {v.dtype for n in prepared.graph for v in n.outputs} == {ir.DataType.FLOAT}


def test_a_declared_output_is_believed_where_nothing_is_known() -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["y"], domain="org.me")]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("org.me", 1)]
    model = node_model(nodes, {"x": X}, 20, imports=imports)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["N", 5]))
    (output,) = prepare(load(model)).graph.outputs
    assert (output.dtype, output.shape) == (ir.DataType.DOUBLE, ir.Shape(["N", 5]))


def test_shapes_that_standard_inference_leaves_open() -> None:
    model = parse("""g (float[N,T,8] x) => (float[A,B,C,D] y)
        { s = Shape(x) z = Constant<value = int64[1] {0}>() o = Constant<value = int64[1] {1}>() n = Gather(s, z)
          t = Gather(s, o) h = Constant<value = int64[1] {2}>() e = Constant<value = int64[1] {-1}>()
          q = Concat<axis = 0>(n, t, h, e) r = Reshape(x, q) k = Constant<value = int64[1] {2}>()
          c = Slice(r, z, k, k) y = Transpose<perm = [0,2,1,3]>(c) }""")
    prepared = assert_same(model, {"x": RNG.standard_normal((2, 3, 8)).astype(np.float32)})
    assert str(prepared.graph.node("Reshape").outputs[0].shape) == "[N,T,2,4]"
    assert str(prepared.graph.outputs[0].shape) == "[N,2,T,4]"


def test_inference_goes_on_behind_the_runtimes_own_operators() -> None:
    nodes = [
        helper.make_node("SkipLayerNormalization", ["x", "x", "g"], ["h", "", "", "s"], domain="com.microsoft"),
        helper.make_node("FusedMatMul", ["h", "w"], ["m"], domain="com.microsoft", transB=1),
        helper.make_node("Transpose", ["m"], ["t"], perm=[1, 0, 2]),
        helper.make_node("BiasGelu", ["t", "b"], ["u"], domain="com.microsoft"),
        helper.make_node("Add", ["u", "u"], ["y"]),
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    x = np.ones((2, 5, 3), np.float32)
    stored = {"g": np.ones(3, np.float32), "w": np.ones((4, 3), np.float32), "b": np.ones(4, np.float32)}
    model = load(node_model(nodes, {"x": x}, 17, stored=stored, imports=imports))
    inline(model)
    make_unique(model)
    upgrade(model)
    infer(model)
    shapes = {v.name: (v.dtype, str(v.shape)) for n in model.graph for v in n.outputs if v.name}
    assert {dtype for dtype, _ in shapes.values()} == {ir.DataType.FLOAT}
    assert shapes["s"][1] == "[x_0,x_1,x_2]"
    assert (shapes["m"][1], shapes["y"][1]) == ("[x_0,x_1,4]", "[x_1,x_0,4]")


def test_lists_keep_their_types() -> None:
    model = parse("""g (float[N,4] x) => (float[N,4] y)
        { two = Constant<value = int64[2] {2, 2}>() q = SplitToSequence<axis = 1>(x, two)
          y = ConcatFromSequence<axis = 1>(q) }""")
    read = load(model)
    inline(read)
    make_unique(read)
    upgrade(read)
    infer(read)
    assert isinstance(read.graph.node("SplitToSequence").outputs[0].type, ir.SequenceType)
    assert_same(model, {"x": np.tile(X, 2)[:, :4]})


def test_inference_that_fails_is_not_fatal() -> None:
    model = parse(
        "g (float[2,3] x) => (float[2,3] y) <float[5,7] w = {}> { h = MatMul(x, w) y = Neg(h) }".replace(
            "<float[5,7] w = {}>", ""
        )
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((5, 7), np.float32), "w"))
    assert prepare(load(model)).graph[0].op_type == "MatMul"


def test_the_callers_model_is_left_alone() -> None:
    model = node_model(helper.make_node("Softmax", ["x"], ["y"], axis=1), {"x": X[None]}, 9, stored={"w": X})
    before = model.SerializeToString(deterministic=True)
    ours = ir.from_proto(model)
    for given in (model, ours):
        prepare(load(given))
    assert model.SerializeToString(deterministic=True) == before
    assert ours.opset_imports == {"": 9}
    assert operators(ours) == ["Softmax"]
    assert list(ours.graph.initializers) == ["w"]
