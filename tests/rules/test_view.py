"""Walks through narrow types: float32 inside, so that nothing overflows, underflows or lacks a kernel on the way."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnx_ig
from onnx_ig.graph.emit import Emitter
from onnx_ig.graph.names import Names
from onnx_ig.rules.view import View, cotangent_type
from tests.gradcheck import Runner

HALF = TensorProto.FLOAT16
rng = np.random.default_rng(4)


def model_of(
    nodes: list[onnx.NodeProto],
    stored: dict[str, np.ndarray],
    shape: list[int],
    kind: int = HALF,
    result: int | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind if result is None else result, None)],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def gradient(model: onnx.ModelProto, x: np.ndarray, cotangent: np.ndarray, **options: Any) -> np.ndarray:
    return Runner(onnx_ig.add_gradients(model, **options))({"x": x, "grad_y": cotangent})[1]


def half(*values: float) -> np.ndarray:
    return np.array(values, np.float16)


def test_a_large_cotangent_inside_that_becomes_small_again() -> None:
    """y = a (b x): in half precision 300 * 300 overflows on the way back; the result, 9, does not."""
    nodes = [helper.make_node("Mul", ["x", "small"], ["h"]), helper.make_node("Mul", ["h", "large"], ["i"])]
    nodes.append(helper.make_node("Mul", ["i", "large"], ["y"]))
    stored = {"small": half(1e-4), "large": half(300.0)}
    got = gradient(model_of(nodes, stored, [1]), half(0.001), half(1.0))
    np.testing.assert_allclose(got, 300 * 300 * np.float32(stored["small"]), rtol=1e-3)
    assert got.dtype == np.float16


def test_a_small_cotangent_inside_that_becomes_large_again() -> None:
    nodes = [helper.make_node("Mul", ["x", "large"], ["h"]), helper.make_node("Mul", ["h", "small"], ["i"])]
    nodes.append(helper.make_node("Mul", ["i", "small"], ["y"]))
    stored = {"small": half(1e-4), "large": half(3e4)}
    got = gradient(model_of(nodes, stored, [1]), half(1.0), half(1.0))
    np.testing.assert_allclose(got, 3e4 * np.float32(stored["small"]) ** 2, rtol=1e-3)


def test_what_overflows_itself_is_infinite_and_not_nan() -> None:
    """d/dx (h - h') with slopes 90000 each way: infinite terms would cancel to NaN."""
    nodes = [
        helper.make_node("Mul", ["x", "large"], ["h"]),
        helper.make_node("Mul", ["h", "large"], ["i"]),
        helper.make_node("Neg", ["i"], ["j"]),
        helper.make_node("Concat", ["i", "j"], ["y"], axis=0),
    ]
    model = model_of(nodes, {"large": half(300.0)}, [1])
    assert gradient(model, half(1e-3), half(1.0, 1.0)) == 0
    assert np.isinf(gradient(model, half(1e-3), half(1.0, 0.0)))


@pytest.mark.parametrize("operator", ["MaxPool", "Gather"])
def test_operators_that_add_at_places(operator: str) -> None:
    """The CPU provider adds no halves at indices."""
    if operator == "MaxPool":
        nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[1])]
        x, cotangent = np.array([[[1, 3, 2]]], np.float16), np.array([[[1, 2]]], np.float16)
        expected = np.array([[[0, 3, 0]]])
    else:
        nodes = [helper.make_node("Gather", ["x", "i"], ["y"])]
        x, cotangent, expected = half(1, 2, 3), half(1, 2, 4), np.array([5, 0, 2])
    got = gradient(model_of(nodes, {"i": np.array([0, 2, 0])}, list(x.shape)), x, cotangent)
    np.testing.assert_array_equal(got, expected)


def test_casts_between_types_inside() -> None:
    """Half, double and single in one model: each cotangent in the type of its value, the result in that of the input."""
    nodes = [
        helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("Mul", ["d", "d"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["f"], ["y"]),
    ]
    x = half(0.5, -1.0)
    got = gradient(model_of(nodes, {}, [2], result=TensorProto.FLOAT), x, np.ones(2, np.float32))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(got, 2 * wide * np.exp(wide**2), rtol=1e-3)
    assert got.dtype == np.float16


@pytest.mark.parametrize("rules", ["gradient", "guided_backprop", "deeplift"])
def test_every_rule_set(rules: str) -> None:
    """DeepLIFT asks for the second forward pass behind what it sees."""
    w = rng.standard_normal((3, 2)).astype(np.float16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    model = model_of(nodes, {"w": w}, [1, 3])
    x, g = rng.standard_normal((1, 3)).astype(np.float16), np.ones((1, 2), np.float16)
    feeds: dict[str, np.ndarray] = {"x": x, "grad_y": g}
    h = x.astype(np.float32) @ w.astype(np.float32)
    slope = (h > 0).astype(np.float32)
    if rules == "deeplift":
        start = rng.standard_normal((1, 3)).astype(np.float16)
        feeds["x_reference"] = start
        before = start.astype(np.float32) @ w.astype(np.float32)
        slope = (np.maximum(h, 0) - np.maximum(before, 0)) / (h - before)
    got = Runner(onnx_ig.add_gradients(model, rules=rules))(feeds)[1]
    np.testing.assert_allclose(got, slope @ w.astype(np.float32).T, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("operator", ["Loop", "If"])
def test_bodies_keep_their_types(operator: str) -> None:
    square = [helper.make_node("Mul", ["s", "s"], ["t"])]
    if operator == "Loop":
        body = helper.make_graph(
            [*square, helper.make_node("Identity", ["go"], ["on"])],
            "b",
            [helper.make_tensor_value_info(n, k, []) for n, k in (("i", 7), ("go", 9))]
            + [helper.make_tensor_value_info("s", HALF, [2])],
            [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_value_info("t", HALF, [2])],
        )
        nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)]
        expected = 4 * np.array([0.5, -1.5]) ** 3
    else:
        square[0].input[:] = ["x", "x"]
        branches = [
            helper.make_graph(square, name, [], [helper.make_tensor_value_info("t", HALF, [2])]) for name in ("a", "b")
        ]
        branches[1].node[0].op_type, branches[1].node[0].output[0], branches[1].output[0].name = "Add", "u", "u"
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])]
        expected = 2 * np.array([0.5, -1.5])
    model = model_of(nodes, {"n": np.array(2), "c": np.array(True)}, [2])
    got = gradient(model, half(0.5, -1.5), half(1, 1))
    np.testing.assert_allclose(got, expected, rtol=2e-3)
    assert got.dtype == np.float16


def test_brain_floats() -> None:
    """The gradient of a bfloat16 model runs in float32 but for what the model itself computes."""
    kind = TensorProto.BFLOAT16
    w = rng.standard_normal((3, 2)).astype(ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Mul", ["r", "r"], ["y"]),
    ]
    model = model_of(nodes, {}, [3, 2], kind)
    model.graph.initializer.append(helper.make_tensor("w", kind, [3, 2], w.astype(np.float32).ravel().tolist()))
    augmented = onnx_ig.add_gradients(model)
    onnx.checker.check_model(augmented, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(augmented)
    types = {v.name: v.type.tensor_type.elem_type for v in (*inferred.graph.value_info, *inferred.graph.output)}
    added = [n for n in augmented.graph.node if n.name.startswith("ig_") and n.op_type not in ("Cast", "Identity")]
    assert {types[o] for n in added for o in n.output} <= {TensorProto.FLOAT, TensorProto.BOOL}
    assert types["grad_x"] == kind
    x = rng.standard_normal((3, 2)).astype(ml_dtypes.bfloat16)
    feeds = {"x": x, "grad_y": np.ones((3, 2), ml_dtypes.bfloat16)}
    got = np.asarray(ReferenceEvaluator(augmented).run(None, feeds)[1]).astype(np.float32)
    wide = x.astype(np.float32) * w.astype(np.float32)
    np.testing.assert_allclose(got, 2 * np.maximum(wide, 0) * w.astype(np.float32), rtol=3e-2, atol=1e-2)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def test_weights_of_eight_bit_floats(kind: int) -> None:
    values = [0.5, -1.5, 2.0, 0.25, 1.0, -0.75]
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"]), helper.make_node("MatMul", ["x", "f"], ["y"])]
    model = model_of(nodes, {"s": np.float32(0.5)}, [1, 3], TensorProto.FLOAT)
    model.graph.initializer.append(helper.make_tensor("w", kind, [3, 2], values))
    x, g = np.ones((1, 3), np.float32), np.array([[1.0, 2.0]], np.float32)
    got = gradient(model, x, g, quantized="refuse")
    np.testing.assert_allclose(got, g @ (0.5 * np.reshape(values, (3, 2))).T, rtol=1e-6)


def test_activations_of_eight_bit_floats() -> None:
    """The straight-through estimate, clipped at the largest number of the type."""
    stored = {"s": np.float32(1.0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    model = model_of(nodes, stored, [4], TensorProto.FLOAT)
    model.graph.initializer.append(helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    got = gradient(model, np.array([-500.0, -448.0, 3.3, 500.0], np.float32), np.ones(4, np.float32))
    np.testing.assert_array_equal(got, [0, 1, 1, 0])


def test_what_is_seen_twice_is_cast_once_and_what_is_not_read_goes() -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT16), shape=ir.Shape([2]))
    q = ir.Value(name="q", type=ir.TensorType(ir.DataType.UINT8), shape=ir.Shape([2]))
    graph = ir.Graph([x, q], [], nodes=[], opset_imports={"": 20})
    op = Emitter(graph, Names(ir.Model(graph, ir_version=10)), 20)
    view = View(op, {q})
    seen = view.see(x)
    assert seen is view.see(x)
    assert (seen.dtype, view.own(seen), view.own(q)) == (ir.DataType.FLOAT, x, q)
    op.Neg(seen)
    unread = view.see(q)
    assert unread.dtype == ir.DataType.FLOAT
    view.close()
    assert [n.op_type for n in graph] == ["Cast", "Neg"]
    assert View(op, set()).see(q) is q
    assert cotangent_type(q) == cotangent_type(x) == ir.DataType.FLOAT
    assert cotangent_type(ir.Value(type=ir.SequenceType(ir.TensorType(ir.DataType.FLOAT16)))) is None
