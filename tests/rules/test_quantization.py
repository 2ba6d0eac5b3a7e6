"""Straight through the rounding: literals, and differences of the same graph on floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnx_ig
from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import Runner

rng = np.random.default_rng(2)
KINDS = {
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float16): TensorProto.FLOAT16,
}


def model_of(
    nodes: list[onnx.NodeProto], stored: dict[str, np.ndarray], shape: Any, opset: int = 21, dtype: Any = np.float32
) -> onnx.ModelProto:
    """Nodes from the input x to the output y."""
    kind = KINDS[np.dtype(dtype)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def gradient(model: onnx.ModelProto, x: np.ndarray, cotangent: np.ndarray, **options: Any) -> np.ndarray:
    augmented = onnx_ig.add_gradients(model, **options)
    return Runner(augmented)({"x": x, "grad_y": cotangent.astype(x.dtype)})[1]


def pair(**attributes: Any) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attributes),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes),
    ]


@pytest.mark.parametrize("shape", [[6], ["N"], None])
@pytest.mark.parametrize(
    ("dtype", "zero", "x", "expected"),
    [
        (np.uint8, 0, [-0.1, 0.0, 0.3, 25.5, 25.6, 99.0], [0, 1, 1, 1, 0, 0]),
        (np.int8, 0, [-12.9, -12.8, 0.0, 12.7, 12.8, 99.0], [0, 1, 1, 1, 0, 0]),
        (np.int8, 28, [-15.7, -15.6, 0.0, 9.9, 10.0, 99.0], [0, 1, 1, 1, 0, 0]),
        (np.int16, 0, [-3276.9, -3276.8, 0.0, 3276.7, 3276.8, 1e5], [0, 1, 1, 1, 0, 0]),
    ],
)
def test_one_inside_the_range_and_zero_outside(
    dtype: Any, zero: int, x: list[float], expected: list[float], shape: Any
) -> None:
    """The ends of the range count as inside: the largest value that was calibrated is one of them."""
    stored = {"s": np.float32(0.1), "z": np.array(zero, dtype)}
    got = gradient(model_of(pair(), stored, shape), np.asarray(x, np.float32), np.arange(6) + 1)
    np.testing.assert_array_equal(got, np.asarray(expected) * (np.arange(6) + 1))


def test_a_folded_relu_is_a_gate() -> None:
    """uint8 with zero point 0 after a product: what is negative there is clipped, as Relu would."""
    weights = np.array([[1.0, -1.0]], np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"])]
    nodes += [
        helper.make_node("QuantizeLinear", ["h", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    stored = {"w": weights, "s": np.float32(0.1), "z": np.uint8(0)}
    got = gradient(model_of(nodes, stored, ["N", 1]), np.array([[1.0], [-1.0]], np.float32), np.ones((2, 2)))
    np.testing.assert_array_equal(got, [[1.0], [-1.0]])


@pytest.mark.parametrize(
    ("axis", "shape"), [(1, [2, 3, 2]), (1, ["N", 3, 2]), (1, None), (-2, [2, 3, 2]), (-2, ["N", 3, 2])]
)
def test_scales_along_an_axis(axis: int, shape: Any) -> None:
    stored = {"s": np.array([0.1, 1.0, 10.0], np.float32), "z": np.array([0, 10, 128], np.uint8)}
    x = np.full((2, 3, 2), 20.0, np.float32)
    x[1] = -20.0
    got = gradient(model_of(pair(axis=axis), stored, shape), x, np.ones((2, 3, 2)))
    np.testing.assert_array_equal(got[0], [[1, 1], [1, 1], [1, 1]])
    np.testing.assert_array_equal(got[1], [[0, 0], [0, 0], [1, 1]])


def test_scales_of_blocks() -> None:
    stored = {"s": np.array([[0.1], [1.0]], np.float32), "z": np.array([[0], [10]], np.uint8)}
    x = np.array([[20.0], [30.0], [-9.0], [-11.0]], np.float32)
    got = gradient(model_of(pair(axis=0, block_size=2), stored, [4, 1]), x, np.ones((4, 1)))
    np.testing.assert_array_equal(got, [[1], [0], [1], [0]])


def test_scales_that_depend_on_the_input() -> None:
    """Esser et al. 2020: round(x/s) - x/s inside, the end of the range outside. Here s = max|x| / 127."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("ReduceMax", ["a"], ["m"], keepdims=0),
        helper.make_node("Div", ["m", "n"], ["s"]),
        *pair(),
    ]
    stored = {"n": np.float32(127), "z": np.int8(0)}
    x = np.array([0.31, -0.77, 1.0, 0.05], np.float32)
    cotangent = np.array([1.0, 2.0, 3.0, 4.0])
    scale = 1 / 127
    by_scale = ((np.round(x / scale) - x / scale) * cotangent).sum()
    expected = cotangent + by_scale * np.array([0, 0, scale, 0])
    got = gradient(model_of(nodes, stored, [4]), x, cotangent)
    np.testing.assert_allclose(got, expected, atol=1e-5)


MOVES = {
    "Transpose": ([], {"perm": [0, 2, 3, 1]}),
    "Reshape": (["shape"], {}),
    "Slice": (["starts", "ends", "axes"], {}),
    "Relu": ([], {}),
    "MaxPool": ([], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "DepthToSpace": ([], {"blocksize": 2}),
}


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [(name, dtype) for name in MOVES for dtype in (np.int8, np.uint8) if (name, dtype) != ("Relu", np.uint8)],
)
def test_operators_on_the_integers(operator: str, dtype: Any) -> None:
    """What stands between the pair hands the cotangent of the integers on as that of the floats they stand for.

    Central differences of the same operator on floats, at a point that the integers hold exactly.
    """
    operands, attributes = MOVES[operator]
    moved = [
        helper.make_node(operator, ["q", *operands], ["r"], **attributes),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["h"]),
        helper.make_node("Mul", ["h", "h"], ["y"]),
    ]
    stored = {
        "s": np.float32(0.125), "z": np.array(0 if dtype is np.int8 else 128, dtype), "shape": np.array([2, -1]),
        "starts": np.array([1]), "ends": np.array([4]), "axes": np.array([2]),
    }  # fmt: skip
    x = (rng.permutation(np.arange(128)).reshape(2, 4, 4, 4) - 64.0) * 0.125
    quantised = model_of([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), *moved], stored, ["N", 4, 4, 4])
    moved[0].input[0], moved[1] = "x", helper.make_node("Identity", ["r"], ["h"])
    plain = Runner(model_of(moved, stored, ["N", 4, 4, 4], dtype=np.float64))
    cotangent = rng.standard_normal(plain({"x": x})[0].shape)
    got = gradient(quantised, x.astype(np.float32), cotangent)
    for _ in range(3):
        direction = rng.standard_normal(x.shape)
        ahead, behind = (plain({"x": x + s * 1e-5 * direction})[0] for s in (1, -1))
        expected = ((ahead - behind) * cotangent).sum() / 2e-5
        assert (got * direction).sum() == pytest.approx(expected, rel=1e-4, abs=1e-3)


def test_two_scales_meet_in_a_concat() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Concat", ["q", "w"], ["r"], axis=1),
        helper.make_node("DequantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    stored = {"s": np.float32(0.1), "t": np.float32(0.3), "z": np.int8(0), "w": np.ones((1, 2), np.int8)}
    got = gradient(model_of(nodes, stored, [1, 2]), np.ones((1, 2), np.float32), np.array([[1.0, 2.0, 5.0, 5.0]]))
    np.testing.assert_allclose(got, [[3.0, 6.0]], rtol=1e-6)


@pytest.mark.parametrize("by_column", [False, True])
def test_dynamic_product(by_column: bool) -> None:
    """x through DynamicQuantizeLinear, MatMulInteger, Cast and the scales: the product of floats."""
    count = (4,) if by_column else ()
    weights = rng.integers(-128, 128, (3, 4)).astype(np.int8)
    zero, scale = rng.integers(-9, 9, count).astype(np.int8), rng.uniform(0.01, 0.02, count).astype(np.float32)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "ws"], ["t"]),
        helper.make_node("Mul", ["f", "t"], ["y"]),
    ]
    model = model_of(nodes, {"w": weights, "wz": zero, "ws": scale}, ["N", 3])
    cotangent = rng.standard_normal((2, 4))
    got = gradient(model, rng.standard_normal((2, 3)).astype(np.float32), cotangent)
    wide = (weights.astype(np.float64) - zero) * scale
    np.testing.assert_allclose(got, cotangent @ wide.T, rtol=1e-5)


@pytest.mark.parametrize("x", [[-1.0, 2.0, 0.5], [1.0, 2.0, 0.5], [-1.0, -2.0, -0.5], [-1.0, 2.0, 2.0]])
def test_scale_of_a_dynamic_quantiser(x: list[float]) -> None:
    """s = (max(x, 0) - min(x, 0)) / 255; ties share."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("Identity", ["s"], ["y"]),
    ]
    given = np.array(x, np.float32)
    got = gradient(model_of(nodes, {}, [3]), given, np.array(255.0))
    top, bottom = (given == max(given)) & (given > 0), (given == min(given)) & (given < 0)
    np.testing.assert_allclose(got, top / max(top.sum(), 1) - bottom / max(bottom.sum(), 1), rtol=1e-6)


@pytest.mark.parametrize("by_channel", [False, True])
def test_convolution_of_integers(by_channel: bool) -> None:
    zero = np.array([3, 200, 0, 128], np.uint8) if by_channel else np.array(3, np.uint8)
    weights = rng.integers(0, 256, (4, 2, 3, 3)).astype(np.uint8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("ConvInteger", ["q", "w", "z", "wz"], ["i"], pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    wide = weights.astype(np.float32) - zero.astype(np.float32).reshape(-1, *[1] * (3 * zero.ndim))
    x, cotangent = rng.standard_normal((1, 2, 4, 4)).astype(np.float32), rng.standard_normal((1, 4, 4, 4))
    augmented = onnx_ig.add_gradients(model_of(nodes, {"w": weights, "wz": zero}, [1, 2, 4, 4]))
    feeds = {"x": x, "grad_y": cotangent.astype(np.float32)}  # the CPU kernel takes one zero point for all channels
    got = (ReferenceEvaluator(augmented).run(None, feeds) if by_channel else Runner(augmented)(feeds))[1]
    padded = np.pad(cotangent, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = np.zeros(x.shape)
    for i in range(4):
        for j in range(4):
            window = padded[0, :, i : i + 3, j : j + 3]
            expected[0, :, i, j] = np.einsum("mkl,mckl->c", window, wide[:, :, ::-1, ::-1])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("kind", [np.float16])
def test_half_precision(kind: Any) -> None:
    stored = {"s": np.array(0.1, kind), "z": np.uint8(0)}
    x = np.array([-0.1, 0.0, 25.5, 25.7], kind)
    got = gradient(model_of(pair(), stored, [4], dtype=kind), x, np.ones(4))
    np.testing.assert_array_equal(got, np.array([0, 1, 1, 0], kind))


def test_weights_of_four_bits_in_blocks_are_exact() -> None:
    """DequantizeLinear of stored weights is no estimate."""
    numbers = rng.integers(-8, 8, (4, 2)).astype(np.int8)
    scale = rng.uniform(0.1, 0.2, (2, 2)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=0, block_size=2),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    model = model_of(nodes, {"s": scale}, ["N", 4])
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [4, 2], numbers.ravel().tolist()))
    cotangent = rng.standard_normal((3, 2))
    for quantized in ("straight-through", "refuse"):
        got = gradient(model, rng.standard_normal((3, 4)).astype(np.float32), cotangent, quantized=quantized)
        np.testing.assert_allclose(got, cotangent @ (numbers * np.repeat(scale, 2, axis=0)).T, rtol=1e-5)


def test_refused_on_demand() -> None:
    model = model_of(pair(), {"s": np.float32(0.1), "z": np.uint8(0)}, [4])
    with pytest.raises(UnsupportedOperatorError, match="derivative is zero") as raised:
        onnx_ig.add_gradients(model, quantized="refuse")
    assert "QuantizeLinear" in str(raised.value)
    assert "quantized='straight-through'" in str(raised.value)
    with pytest.raises(ValueError, match="quantized='maybe'"):
        onnx_ig.add_gradients(model, quantized="maybe")


def test_integers_that_cross_into_a_body_are_refused() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["q"], ["t"])],
        "b",
        [],
        [helper.make_tensor_value_info("t", TensorProto.UINT8, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["q"], ["e"])],
        "o",
        [],
        [helper.make_tensor_value_info("e", TensorProto.UINT8, None)],
    )
    nodes = pair()
    nodes.insert(1, helper.make_node("If", ["c"], ["r"], name="choice", then_branch=body, else_branch=other))
    nodes[-1].input[0] = "r"
    model = model_of(nodes, {"s": np.float32(0.1), "z": np.uint8(0), "c": np.array(True)}, [4])
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    del model.graph.initializer[2]
    with pytest.raises(UnsupportedOperatorError, match="crosses the border") as raised:
        onnx_ig.add_gradients(model)
    assert "'choice'" in str(raised.value)
