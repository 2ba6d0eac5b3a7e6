"""The prepared model computes what the original does, in the one form that rules are written for."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ig.errors import ModelError
from onnx_ig.graph.inline import inline
from onnx_ig.graph.load import load
from onnx_ig.graph.names import make_unique
from onnx_ig.graph.prepare import infer, prepare
from onnx_ig.graph.upgrade import upgrade
from tests.graph.compare import assert_same, assert_unique, node_model, operators, parse

RNG = np.random.default_rng(11)
X = RNG.standard_normal((2, 3)).astype(np.float32)


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


def test_names_that_the_runtime_gave_to_bodies_are_given_up() -> None:
    """But for those of inputs and outputs. HardSwish has no kernel: it writes the body out under such names."""
    nodes = [
        helper.make_node("HardSigmoid", ["x"], ["_inlfunc_HardSwish_HS_X"], alpha=1 / 6, beta=0.5),
        helper.make_node("Mul", ["x", "_inlfunc_HardSwish_HS_X"], ["h"]),
        helper.make_node("Tanh", ["h"], ["_inlfunc_Tanh_y"]),
    ]
    model = node_model(nodes, {"x": np.tile(X, 2)}, 17)
    read = load(model)
    make_unique(read)
    assert [v.name for n in read.graph for v in n.outputs] == ["inlfunc_HardSwish_HS_X", "h", "_inlfunc_Tanh_y"]
    assert_same(model, {"x": np.tile(X, 2)})


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
