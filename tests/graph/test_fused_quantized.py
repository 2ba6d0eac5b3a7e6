"""Operators on integers and on weights of few bits, and what `prepare` writes them out as, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto

from onnx_ig.graph.fused import REASON
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.compare import run
from tests.graph.test_fused import check, model_of, x

rng = np.random.default_rng(11)


def bytes_of(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def weights_of(*shape: int) -> np.ndarray:
    """Seven bits: eight against uint8 saturate in ONNX Runtime's kernels on processors without VNNI."""
    return rng.integers(-64, 64, shape).astype(np.int8)


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def zero(value: int = 0, dtype: Any = np.uint8) -> np.ndarray:
    return np.array(value, dtype)


def close(
    operator: str,
    inputs: Mapping[str, np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    dtype: Any = np.uint8,
    **kwargs: Any,
) -> ir.Model:
    """The same integers but for a tie of rounding: at most one step apart, in one entry or fewer than one of ten."""
    kind = TensorProto.UINT8 if dtype is np.uint8 else TensorProto.INT8
    model, feeds = model_of(operator, inputs, attributes, types={"y": kind}, **kwargs)
    prepared = prepare(load(model))
    assert {n.domain for n in prepared.graph} == {""}
    (one,), (other,) = run(model, feeds), run(ir.to_proto(prepared), feeds)
    assert (one.shape, one.dtype) == (other.shape, other.dtype) == (other.shape, np.dtype(dtype))
    apart = np.abs(one.astype(int) - other.astype(int))
    assert apart.max() <= 1
    assert apart.sum() <= max(1, 0.1 * apart.size)
    assert np.ptp(one.astype(int)) > 20  # a result that clips everywhere would say nothing
    return prepared


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_qlinear_conv(dtype: Any, by_channel: bool, bias: bool) -> None:
    scale = rng.uniform(0.01, 0.02, 4 if by_channel else ()).astype(np.float32)
    inputs = {
        "x": bytes_of(2, 3, 6, 5, dtype=dtype), "xs": number(0.05), "xz": zero(3, dtype),
        "w": weights_of(4, 3, 3, 3), "ws": scale, "wz": np.zeros(scale.shape, np.int8),
        "ys": number(0.5), "yz": zero(7, dtype), "b": rng.integers(-3000, 3000, 4).astype(np.int32) if bias else None,
    }  # fmt: skip
    attributes = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
    close("QLinearConv", inputs, attributes, dtype=dtype, domain="")
    channels_last = {**inputs, "x": np.ascontiguousarray(inputs["x"].transpose(0, 2, 3, 1))}
    close("QLinearConv", channels_last, {**attributes, "channels_last": 1}, dtype=dtype)


@pytest.mark.parametrize("by_column", [False, True])
def test_qlinear_matmul(by_column: bool) -> None:
    scale = rng.uniform(0.01, 0.02, 6 if by_column else ()).astype(np.float32)
    inputs = {
        "a": bytes_of(2, 4, 5), "as": number(0.05), "az": zero(128), "b": weights_of(5, 6),
        "bs": scale, "bz": np.zeros(scale.shape, np.int8), "ys": number(0.2), "yz": zero(120),
    }  # fmt: skip
    close("QLinearMatMul", inputs, domain="")


def test_qlinear_matmul_with_a_scale_for_each_row() -> None:
    """No CPU kernel: the definition, in float64."""
    a, b = bytes_of(4, 5), weights_of(5, 6)
    scale = rng.uniform(0.01, 0.05, (4, 1)).astype(np.float32)
    inputs = {
        "a": a, "as": scale, "az": np.full((4, 1), 128, np.uint8), "b": b, "bs": number(0.02), "bz": zero(0, np.int8),
        "ys": number(0.2), "yz": zero(120),
    }  # fmt: skip
    model, feeds = model_of("QLinearMatMul", inputs, domain="", types={"y": TensorProto.UINT8})
    (found,) = run(ir.to_proto(prepare(load(model))), feeds)
    exact = (a.astype(float) - 128) * scale @ (b.astype(float) * 0.02)
    assert np.abs(found - np.clip(np.round(exact / 0.2) + 120, 0, 255)).max() <= 1


@pytest.mark.parametrize("attributes", [{}, {"transA": 1}, {"transB": 1, "alpha": 0.5}])
@pytest.mark.parametrize("by_column", [False, True])
def test_qgemm(attributes: dict[str, Any], by_column: bool) -> None:
    scale = rng.uniform(0.01, 0.02, 6 if by_column else ()).astype(np.float32)
    a = bytes_of(5, 4) if attributes.get("transA") else bytes_of(4, 5)
    b = weights_of(6, 5) if attributes.get("transB") else weights_of(5, 6)
    inputs = {
        "a": a, "as": number(0.05), "az": zero(128), "b": b, "bs": scale, "bz": np.zeros(scale.shape, np.int8),
        "c": rng.integers(-3000, 3000, 6).astype(np.int32),
    }  # fmt: skip
    close("QGemm", {**inputs, "ys": number(0.2), "yz": zero(120)}, attributes)
    check("QGemm", inputs, attributes, tolerance=1e-5)


ONE = {"x": bytes_of(2, 3, 4), "xs": number(0.05), "xz": zero(120), "ys": number(0.01), "yz": zero(9)}


@pytest.mark.parametrize(
    ("operator", "attributes", "steps"),
    [
        ("QLinearSigmoid", {}, 1 / 256),
        ("QLinearLeakyRelu", {"alpha": 0.2}, 0.05),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}, 1 / 256),
        ("QLinearSoftmax", {"axis": 1, "opset": 11}, 1 / 256),
    ],
)
def test_of_one_operand(operator: str, attributes: dict[str, Any], steps: float) -> None:
    close(operator, {**ONE, "ys": number(steps)}, attributes)


def test_without_a_kernel() -> None:
    """Definitions in float64: a mean, and zero points left out, which the CPU kernels cannot do."""
    given = ONE["x"].astype(float) - 120
    model, feeds = model_of("QLinearReduceMean", ONE, {"axes": [1], "keepdims": 0}, types={"y": TensorProto.UINT8})
    (found,) = run(ir.to_proto(prepare(load(model))), feeds)
    assert np.abs(found - np.clip(np.round((given * 0.05).mean(1) / 0.01) + 9, 0, 255)).max() <= 1
    inputs = {"x": bytes_of(2, 3, 4, dtype=np.int8), "xs": number(0.05), "xz": None, "ys": number(0.05)}
    model, feeds = model_of("QLinearLeakyRelu", inputs, {"alpha": 0.2}, types={"y": TensorProto.INT8})
    (found,) = run(ir.to_proto(prepare(load(model))), feeds)
    given = inputs["x"].astype(float)
    assert found.dtype == np.int8
    assert np.abs(found - np.round(np.where(given < 0, 0.2, 1) * given)).max() <= 1


@pytest.mark.parametrize("last", [0, 1])
def test_pools(last: int) -> None:
    given = {**ONE, "x": bytes_of(2, 6, 6, 3) if last else bytes_of(2, 3, 6, 6), "ys": number(0.03), "yz": zero(120)}
    close("QLinearGlobalAveragePool", given, {"channels_last": last})
    close("QLinearAveragePool", given, {"channels_last": last, "kernel_shape": [3, 2], "pads": [1, 0, 1, 1]})


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_of_two_operands(operator: str) -> None:
    inputs = {
        "a": bytes_of(2, 3, 4), "as": number(0.02), "az": zero(120), "b": bytes_of(4), "bs": number(0.03),
        "bz": zero(100), "ys": number(0.06), "yz": zero(110),
    }  # fmt: skip
    close(operator, inputs)


def test_where_and_concat() -> None:
    one = {"a": bytes_of(2, 3, 4), "as": number(0.02), "az": zero(120)}
    two = {"b": bytes_of(2, 3, 4), "bs": number(0.03), "bz": zero(100)}
    result = {"ys": number(0.03), "yz": zero(110)}
    close("QLinearWhere", {"c": rng.integers(0, 2, (2, 3, 4)).astype(bool), **one, **two, **result}, fed=2)
    model = close("QLinearConcat", {**result, **one, **two}, {"axis": 1}, fed=6)
    assert [n.op_type for n in model.graph].count("DequantizeLinear") == 2


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_dynamic_products(by_column: bool, bias: bool) -> None:
    scale = rng.uniform(0.01, 0.02, 6 if by_column else ()).astype(np.float32)
    right = {"b": weights_of(5, 6)}
    scales = {"bs": scale, "bz": np.zeros(scale.shape, np.int8), "c": x(6) if bias else None}
    check("DynamicQuantizeMatMul", {"a": x(2, 4, 5), **right, **scales}, tolerance=1e-5)
    inputs = {
        "a": bytes_of(4, 5), **right, "as": number(0.02), "bs": scale, "az": zero(120),
        "bz": np.zeros(scale.shape, np.int8), "c": x(6) if bias else None,
    }  # fmt: skip
    check("MatMulIntegerToFloat", inputs, tolerance=1e-5)


@pytest.mark.parametrize("mask", [None, np.array([3, 4], np.int32), np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)])
def test_qattention(mask: np.ndarray | None) -> None:
    inputs = {
        "x": bytes_of(2, 4, 8), "w": weights_of(8, 24), "b": x(24), "xs": number(0.01),
        "ws": number(0.01), "m": mask, "xz": zero(128), "wz": zero(0, np.int8),
    }  # fmt: skip
    check("QAttention", inputs, {"num_heads": 2}, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_linear_operators_of_the_runtime(dtype: Any) -> None:
    """Four bits came to the standard with opset 21, and so did sixteen."""
    kind = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8, np.int16: TensorProto.INT16}
    types = {"y": kind.get(dtype, TensorProto.UINT16)}
    prepared = check("QuantizeLinear", {"x": x(2, 3), "s": number(0.02), "z": zero(5, dtype)}, types=types)
    assert prepared.opset_imports[""] == (20 if np.iinfo(dtype).bits == 8 else 21)
    scales = {"s": np.array([0.01, 0.02, 0.03], np.float32), "z": np.array([1, 2, 3], dtype)}
    check("QuantizeLinear", {"x": x(2, 3), **scales}, {"axis": 1}, types=types)
    check("DequantizeLinear", {"x": bytes_of(2, 3, dtype=dtype), **scales}, {"axis": 1})


def packed(shape: tuple[int, ...], bits: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers of few bits, the same in bytes along the last axis, the first lowest)."""
    numbers = rng.integers(0, 2**bits, shape).astype(np.uint8)
    each = 8 // bits
    padded = np.pad(numbers, [(0, 0)] * (len(shape) - 1) + [(0, -shape[-1] % each)])
    groups = padded.reshape(*shape[:-1], -1, each).astype(np.uint32)
    return numbers, (groups << (np.arange(each) * bits).astype(np.uint32)).sum(-1).astype(np.uint8)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
@pytest.mark.parametrize("inner", [32, 40])
def test_matmul_nbits(bits: int, zeros: str, inner: int) -> None:
    rows, size = 5, 16
    blocks = -(-inner // size)
    numbers, weights = packed((rows, blocks, size), bits)
    scales = rng.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32)
    places, in_bytes = packed((rows, blocks), bits)
    given = {"none": None, "packed": in_bytes, "floats": places.astype(np.float32)}[zeros]
    inputs = {"a": x(2, 3, inner), "b": weights, "s": scales, "z": given, "g": None, "c": x(rows)}
    attributes = {"N": rows, "K": inner, "block_size": size, "bits": bits}
    if bits != 4 and zeros == "floats":  # no CPU kernel: the definition
        wide = ((numbers - places[..., None].astype(float)) * scales[..., None]).reshape(rows, -1)[:, :inner]
        model, feeds = model_of("MatMulNBits", inputs, attributes)
        (found,) = run(ir.to_proto(prepare(load(model))), feeds)
        np.testing.assert_allclose(found, inputs["a"] @ wide.T + inputs["c"], atol=1e-4)
        return
    check("MatMulNBits", inputs, attributes, tolerance=1e-5)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("inner", [32, 40])
def test_matmul_bnb4(kind: int, inner: int) -> None:
    rows, size = 6, 16
    inputs = {
        "a": x(2, 3, inner), "b": bytes_of((rows * inner + 1) // 2),
        "s": rng.uniform(0.1, 0.5, -(-rows * inner // size)).astype(np.float32),
    }  # fmt: skip
    check("MatMulBnb4", inputs, {"N": rows, "K": inner, "block_size": size, "quant_type": kind}, tolerance=1e-5)


def test_what_stays_and_why() -> None:
    common = {"N": 5, "K": 32, "block_size": 16}
    inputs = {"a": x(3, 32), "b": bytes_of(5, 2, 6), "s": x(5, 2)}
    model, _ = model_of("MatMulNBits", inputs, {**common, "bits": 3})
    (node,) = prepare(load(model)).graph
    assert "3 bits" in node.meta[REASON][0]
    inputs = {"a": x(3, 32), "b": bytes_of(5, 2, 8), "s": x(5, 2), "z": None, "g": np.zeros(32, np.int32)}
    model, _ = model_of("MatMulNBits", inputs, {**common, "bits": 4})
    (node,) = prepare(load(model)).graph
    assert "g_idx" in node.meta[REASON][0]
