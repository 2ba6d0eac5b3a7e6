"""Where attributions start when what is fed are integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ig.graph.load import load
from onnx_ig.graph.lookups import classes
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.sources import classify
from tests.graph.compare import run

TABLE = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)
IDS = np.array([[1, 5, 0], [6, 2, 2]])


def model_of(
    nodes: list[onnx.NodeProto],
    stored: dict[str, np.ndarray],
    given: str = "ids",
    dtype: int = TensorProto.INT64,
    shape: Any = ("N", 3),
    output: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(given, dtype, shape)],
        [helper.make_tensor_value_info("y", output, None)],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
    )
    opsets = [helper.make_opsetid(d, v) for d, v in {"": 20, "com.microsoft": 1, "ai.onnx.ml": 3}.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def source(model: onnx.ModelProto) -> tuple[str, list[str], ir.Model]:
    prepared = prepare(load(model))
    (found,) = classify(prepared.graph)
    return found.kind, [v.name or "" for v in found.values], prepared


def node(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, outputs, **attributes)


ALL = np.arange(7)
WAYS: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "Gather": ([node("Gather", ["t", "ids"], ["e"])], {"t": TABLE}),
    "Gather behind a shift": (
        [node("Add", ["ids", "one"], ["i"]), node("Gather", ["t", "i"], ["e"])],
        {"t": np.concatenate([TABLE[:1], TABLE]), "one": np.array(1)},
    ),
    "OneHot and a product": (
        [node("OneHot", ["ids", "d", "v"], ["h"]), node("MatMul", ["h", "t"], ["e"])],
        {"d": np.array(7), "v": np.array([0, 1], np.float32), "t": TABLE},
    ),
    "Equal, Cast and a product": (
        [
            node("Unsqueeze", ["ids", "last"], ["u"]),
            node("Equal", ["u", "all"], ["q"]),
            node("Cast", ["q"], ["h"], to=TensorProto.FLOAT),
            node("MatMul", ["h", "t"], ["e"]),
        ],
        {"last": np.array([-1]), "all": ALL, "t": TABLE},
    ),
    "Equal of what is spread": (
        [
            node("Unsqueeze", ["ids", "last"], ["u"]),
            node("Expand", ["u", "wide"], ["x"]),
            node("Equal", ["all", "x"], ["q"]),
            node("Where", ["q", "yes", "no"], ["h"]),
            node("MatMul", ["h", "t"], ["e"]),
        ],
        {
            "last": np.array([-1]), "all": ALL[None, None], "wide": np.array([1, 1, 7]),
            "yes": np.float32(1), "no": np.float32(0), "t": TABLE,
        },
    ),
    "Equal of floats": (
        [
            node("Cast", ["ids"], ["f"], to=TensorProto.FLOAT),
            node("Unsqueeze", ["f", "last"], ["u"]),
            node("Equal", ["u", "all"], ["q"]),
            node("Cast", ["q"], ["h"], to=TensorProto.FLOAT),
            node("MatMul", ["h", "t"], ["e"]),
        ],
        {"last": np.array([-1]), "all": ALL.astype(np.float32), "t": TABLE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_a_table(way: str) -> None:
    nodes, stored = WAYS[way]
    kind, values, prepared = source(model_of([*nodes, node("Mul", ["e", "e"], ["y"])], stored))
    assert (kind, values) == ("tokens", ["e"])
    (rows,) = (v for n in prepared.graph for v in n.outputs if v.name == "e")
    assert classes(rows) == len(stored["t"])
    (y,) = run(ir.to_proto(prepared), {"ids": IDS})
    np.testing.assert_allclose(y, TABLE[IDS] ** 2, rtol=1e-6)


def test_codes_that_do_more_than_select_rows() -> None:
    stored = {"d": np.array(7), "v": np.array([0, 1], np.float32)}
    nodes = [node("OneHot", ["ids", "d", "v"], ["h"]), node("ReduceMean", ["h"], ["m"]), node("Mul", ["h", "m"], ["y"])]
    kind, values, prepared = source(model_of(nodes, stored))
    assert (kind, values) == ("tokens", ["h"])
    assert classes(prepared.graph[0].outputs[0]) == 7


@pytest.mark.parametrize(
    "nodes",
    [
        [node("OneHot", ["ids", "d", "v"], ["h"], axis=1), node("Mul", ["h", "h"], ["y"])],
        [node("Cast", ["ids"], ["h"], to=TensorProto.FLOAT), node("Mul", ["h", "h"], ["y"])],
        [node("Equal", ["ids", "three"], ["q"]), node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)],
    ],
)
def test_integers_that_are_no_ids(nodes: list[onnx.NodeProto]) -> None:
    """Codes along another axis, numbers, a comparison with as many things as there are ids."""
    stored = {"d": np.array(7), "v": np.array([0, 1], np.float32), "three": np.arange(3)}
    assert source(model_of(nodes, stored))[0] == "held"


STEPS = {"s": np.float32(0.05), "z": np.uint8(120)}
BYTES = np.random.default_rng(1).integers(0, 256, (7, 4)).astype(np.uint8)


def dequantised(ids: np.ndarray) -> np.ndarray:
    return (BYTES[ids].astype(np.float32) - 120) * np.float32(0.05)


def test_rows_of_a_quantised_table() -> None:
    nodes = [node("Gather", ["t", "ids"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["e"])]
    kind, values, _ = source(model_of([*nodes, node("Relu", ["e"], ["y"])], {"t": BYTES, **STEPS}))
    assert (kind, values) == ("tokens", ["e"])


def test_rows_that_are_scaled_by_hand() -> None:
    nodes = [
        node("Gather", ["t", "ids"], ["q"]), node("Cast", ["q"], ["f"], to=TensorProto.FLOAT),
        node("Sub", ["f", "z"], ["c"]), node("Mul", ["c", "s"], ["e"]), node("Relu", ["e"], ["y"]),
    ]  # fmt: skip
    kind, values, _ = source(model_of(nodes, {"t": BYTES, "s": np.float32(0.05), "z": np.float32(120)}))
    assert (kind, values) == ("tokens", ["e"])


def test_a_table_that_is_dequantised_whole() -> None:
    nodes = [node("DequantizeLinear", ["t", "s", "z"], ["f"]), node("Gather", ["f", "ids"], ["e"])]
    kind, values, _ = source(model_of([*nodes, node("Relu", ["e"], ["y"])], {"t": BYTES, **STEPS}))
    assert (kind, values) == ("tokens", ["e"])


@pytest.mark.parametrize("twice", [False, True])
def test_rows_that_are_moved_before_they_are_dequantised(twice: bool) -> None:
    """Quantisers write so. The rows become floats first; the result is the same to the bit."""
    nodes = [
        node("Gather", ["t", "ids"], ["q"]), node("Transpose", ["q"], ["m"], perm=[1, 0, 2]),
        node("DequantizeLinear", ["m", "s", "z"], ["h"]), node("Relu", ["h"], ["y"]),
    ]  # fmt: skip
    if twice:  # another branch has them in their place already
        nodes.insert(3, node("DequantizeLinear", ["q", "s", "z"], ["e"]))
        nodes[-1:] = [
            node("Transpose", ["e"], ["e2"], perm=[1, 0, 2]), node("Max", ["h", "e2"], ["r"]), node("Relu", ["r"], ["y"]),
        ]  # fmt: skip
    kind, values, prepared = source(model_of(nodes, {"t": BYTES, **STEPS}))
    assert kind == "tokens"
    (rows,) = (v for n in prepared.graph for v in n.outputs if v.name in values)
    assert list(rows.shape)[1:] == [3, 4]  # type: ignore[arg-type]
    assert [n.op_type for n in prepared.graph].count("DequantizeLinear") == 1
    (y,) = run(ir.to_proto(prepared), {"ids": IDS})
    np.testing.assert_array_equal(y, np.maximum(dequantised(IDS), 0).transpose(1, 0, 2))


def test_rows_of_blocks_of_few_bits() -> None:
    table, scales = np.zeros((7, 16), np.uint8), np.ones((7, 2), np.float32)
    nodes = [
        node("GatherBlockQuantized", ["t", "ids", "s"], ["e"], domain="com.microsoft", bits=4, block_size=16,
             quantize_axis=1, gather_axis=0),
        node("Relu", ["e"], ["y"]),
    ]  # fmt: skip
    kind, values, prepared = source(model_of(nodes, {"t": table, "s": scales}))
    assert (kind, values) == ("tokens", ["e"])
    assert classes(prepared.graph[0].outputs[0]) == 7


def test_embed_layer_normalization() -> None:
    stored = {"w": TABLE, "p": TABLE, "g": np.ones(4, np.float32), "b": np.zeros(4, np.float32)}
    nodes = [
        node("EmbedLayerNormalization", ["ids", "", "w", "p", "", "g", "b"], ["y", "m"], domain="com.microsoft"),
    ]  # fmt: skip
    kind, values, prepared = source(model_of(nodes, stored, dtype=TensorProto.INT32))
    assert kind == "tokens"
    (producer,) = (n for n in prepared.graph if n.outputs[0].name in values)
    assert (producer.op_type, producer.inputs[0].name) == ("Gather", "w")  # type: ignore[union-attr]


def bag() -> onnx.ModelProto:
    """The mean of the rows of each of two bags, as PyTorch's TorchScript exporter writes EmbeddingBag."""
    body = helper.make_graph(
        [
            node("Gather", ["starts", "i"], ["a"]), node("Gather", ["ends", "i"], ["b"]),
            node("Unsqueeze", ["a", "zero"], ["a1"]), node("Unsqueeze", ["b", "zero"], ["b1"]),
            node("Slice", ["flat", "a1", "b1", "zero"], ["part"]), node("Gather", ["t", "part"], ["rows"]),
            node("ReduceMean", ["rows", "zero"], ["mean"], keepdims=0), node("Identity", ["go"], ["on"]),
        ],
        "bags",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", 9, [])],
        [helper.make_tensor_value_info("on", 9, []), helper.make_tensor_value_info("mean", 1, None)],
    )  # fmt: skip
    nodes = [node("Reshape", ["ids", "minus"], ["flat"]), node("Loop", ["two", ""], ["y"], body=body)]
    stored = {
        "t": TABLE, "starts": np.array([0, 3]), "ends": np.array([3, 6]), "zero": np.array([0]), "minus": np.array([-1]),
        "two": np.array(2),
    }  # fmt: skip
    return model_of(nodes, stored, shape=(2, 3))


def test_bags_of_rows() -> None:
    """The rows are picked outside the Loop, where attributions can start."""
    kind, values, prepared = source(bag())
    assert kind == "tokens"
    (producer,) = (n for n in prepared.graph if n.outputs[0].name in values)
    assert producer.op_type == "Gather"
    (y,) = run(ir.to_proto(prepared), {"ids": IDS})
    np.testing.assert_allclose(y, TABLE[IDS].mean(1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [TensorProto.UINT8, TensorProto.INT8])
@pytest.mark.parametrize("way", ["Cast", "DequantizeLinear"])
def test_bytes_that_become_floats(dtype: int, way: str) -> None:
    zero = np.array(0, helper.tensor_dtype_to_np_dtype(dtype))
    first = (
        node("Cast", ["x"], ["f"], to=TensorProto.FLOAT)
        if way == "Cast"
        else node("DequantizeLinear", ["x", "s", "z"], ["f"])
    )
    nodes = [first, node("Shape", ["x"], ["n"]), node("Relu", ["f"], ["r"]), node("Reshape", ["r", "n"], ["y"])]
    model = model_of(nodes, {"s": np.float32(0.1), "z": zero}, "x", dtype, ("N", 3, 4, 4))
    assert source(model)[:2] == ("numbers", ["f"])


def test_bytes_that_are_used_otherwise_are_held() -> None:
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), node("Cast", ["t"], ["y"], to=TensorProto.FLOAT)]
    assert source(model_of(nodes, {}, "x", TensorProto.UINT8, ("N", 4, 4, 3)))[0] == "held"
    nodes = [
        node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), node("Cast", ["x"], ["g"], to=TensorProto.FLOAT),
        node("Add", ["f", "g"], ["y"]),
    ]  # fmt: skip
    assert source(model_of(nodes, {}, "x", TensorProto.UINT8, ("N", 4, 4, 3)))[0] == "held"


@pytest.mark.parametrize("moved", [False, True])
def test_rows_that_only_a_product_of_integers_reads(moved: bool) -> None:
    """As dynamic quantisation writes an embedding ahead of a layer: floats come between, and change nothing."""
    weights = np.random.default_rng(2).integers(-9, 9, (4, 5)).astype(np.int8)
    nodes = [
        node("Gather", ["t", "ids"], ["q"]), node("Transpose", ["q"], ["m"], perm=[1, 0, 2]),
        node("MatMulInteger", ["m" if moved else "q", "w", "z"], ["i"]),
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT), node("Mul", ["f", "s"], ["y"]),
    ]  # fmt: skip
    kind, values, prepared = source(model_of(nodes, {"t": BYTES, "w": weights, **STEPS}))
    assert kind == "tokens"
    (producer,) = (n for n in prepared.graph if n.outputs[0].name in values)
    assert producer.op_type == "DequantizeLinear"
    (y,) = run(ir.to_proto(prepared), {"ids": IDS})
    expected = ((BYTES[IDS].astype(int) - 120) @ weights.astype(int)).astype(np.float32) * np.float32(0.05)
    np.testing.assert_array_equal(y, expected.transpose(1, 0, 2) if moved else expected)
