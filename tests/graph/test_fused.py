"""Fused nodes and what `prepare` writes them out as, side by side in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_ig.graph.fused import REASON
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.compare import assert_same, node_model, run

rng = np.random.default_rng(3)
IMPORTS = [
    helper.make_opsetid("", 17),
    helper.make_opsetid("com.microsoft", 1),
    helper.make_opsetid("ai.onnx.ml", 3),
]


def x(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def model_of(
    operator: str,
    inputs: Mapping[str, np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    fed: int = 1,
    outputs: tuple[str, ...] = ("y",),
    domain: str = "com.microsoft",
    ranked: bool = True,
    types: Mapping[str, int] | None = None,
) -> tuple[Any, dict[str, np.ndarray]]:
    """One node, its first `fed` operands inputs of the model and the others stored; (model, feeds)."""
    names = ["" if a is None else n for n, a in inputs.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(operator, names, list(outputs), name="node", domain=domain, **(attributes or {}))
    given = {n: a for n, a in inputs.items() if a is not None}
    feeds = {n: a for k, (n, a) in enumerate(given.items()) if k < fed}
    stored = {n: a for n, a in given.items() if n not in feeds}
    model = node_model(
        node, feeds, 17, stored=stored, imports=IMPORTS, outputs=[o for o in outputs if o], ranked=ranked
    )
    for output in model.graph.output:
        output.type.tensor_type.elem_type = (types or {}).get(output.name, TensorProto.FLOAT)
    return model, feeds


def check(operator: str, inputs: Mapping[str, np.ndarray | None], *args: Any, **kwargs: Any) -> ir.Model:
    tolerance = kwargs.pop("tolerance", 2e-6)
    model, feeds = model_of(operator, inputs, *args, **kwargs)
    prepared = assert_same(model, feeds, tolerance=tolerance)
    assert {node.domain for node in prepared.graph} == {""}
    return prepared


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Gelu", {"x": x(2, 3, 4)}, {}),
        ("BiasGelu", {"x": x(2, 3, 4), "b": x(4)}, {}),
        ("FastGelu", {"x": x(2, 3, 4)}, {}),
        ("FastGelu", {"x": x(2, 3, 4), "b": x(4)}, {}),
        ("QuickGelu", {"x": x(2, 3, 4)}, {}),
        ("QuickGelu", {"x": x(2, 3, 4)}, {"alpha": 1.0}),
    ],
)
@pytest.mark.parametrize("ranked", [True, False])
def test_activations(operator: str, inputs: dict[str, np.ndarray], attributes: dict[str, Any], ranked: bool) -> None:
    check(operator, inputs, attributes, ranked=ranked)


def test_those_of_cuda_alone() -> None:
    """ONNX Runtime has no CPU kernel for these: their schema's formulas are the reference."""
    a, bias, skip = x(2, 3, 8), x(8), x(2, 3, 8)
    model, feeds = model_of("BiasAdd", {"x": a, "b": bias, "s": skip})
    assert_same(model, feeds, [a + bias + skip])
    model, feeds = model_of("BiasSplitGelu", {"x": a, "b": bias})
    left, right = np.split(a + bias, 2, axis=-1)
    gelu = run(model_of("Gelu", {"r": right})[0], {"r": right})[0]
    assert_same(model, feeds, [left * gelu])


@pytest.mark.parametrize("a", [{}, {"transA": 1}, {"transBatchA": 1}, {"transA": 1, "transBatchA": 1}])
@pytest.mark.parametrize("b", [{}, {"transB": 1}, {"transBatchB": 1}, {"transB": 1, "transBatchB": 1}])
def test_fused_matmul(a: dict[str, int], b: dict[str, int]) -> None:
    batch, rows, inner, columns = (2, 3), 4, 5, 6
    left = _stored((*batch, rows, inner), a.get("transA", 0), a.get("transBatchA", 0))
    right = _stored((*batch, inner, columns), b.get("transB", 0), b.get("transBatchB", 0))
    check("FusedMatMul", {"a": x(*left), "b": x(*right)}, {**a, **b, "alpha": 0.5}, fed=2)


def _stored(shape: tuple[int, ...], swap: int, move: int) -> tuple[int, ...]:
    dims = list(shape)
    if swap:
        dims[-2:] = dims[-1], dims[-2]
    if move:
        dims = [dims[-2], *dims[:-2], dims[-1]]
    return tuple(dims)


@pytest.mark.parametrize(
    "attributes",
    [
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1, "alpha": 0.5, "beta": 2.0},
        {"activation": "Elu", "activation_alpha": 0.7, "transA": 1},
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
        {"activation": "Selu", "activation_alpha": 1.5, "activation_gamma": 1.1},
        {"activation": "Softplus"},
        {"activation": "Softsign"},
        {"activation": "ThresholdedRelu", "activation_alpha": 0.2},
        {"activation": "Sigmoid"},
        {"activation": "Tanh"},
    ],
)
def test_fused_gemm(attributes: dict[str, Any]) -> None:
    a = x(5, 4) if attributes.get("transA") else x(4, 5)
    b = x(6, 5) if attributes.get("transB") else x(5, 6)
    check("FusedGemm", {"a": a, "b": b, "c": x(6)}, attributes)
    check("FusedGemm", {"a": a, "b": b}, attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        {"activation": "Relu", "pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"activation": "LeakyRelu", "activation_params": [0.3]},
        {"activation": "Clip", "activation_params": [-0.5, 0.5]},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], "auto_pad": "SAME_UPPER"},
        {"activation": "Sigmoid"},
        {"activation": "Tanh", "dilations": [2, 1]},
    ],
)
def test_fused_conv(attributes: dict[str, Any]) -> None:
    check("FusedConv", {"x": x(2, 3, 6, 5), "w": x(4, 3, 3, 3), "b": x(4)}, attributes)
    check("FusedConv", {"x": x(2, 4, 6, 5), "w": x(4, 2, 3, 3)}, {**attributes, "group": 2})


def test_fused_conv_with_a_sum() -> None:
    check(
        "FusedConv",
        {"x": x(2, 3, 6, 5), "w": x(4, 3, 3, 3), "b": x(4), "z": x(2, 4, 4, 3)},
        {"activation": "Relu"},
        fed=4,
    )


def test_channels_last() -> None:
    a, w, b = x(2, 6, 5, 3), x(4, 3, 3, 3), x(4)
    plain, feeds = model_of("FusedConv", {"x": a.transpose(0, 3, 1, 2), "w": w, "b": b}, {"pads": [1, 0, 1, 1]})
    expected = run(plain, feeds)[0].transpose(0, 2, 3, 1)
    model, feeds = model_of("NhwcConv", {"x": a, "w": w, "b": b}, {"pads": [1, 0, 1, 1]})
    assert_same(model, feeds, [expected])
    model, feeds = model_of("NhwcFusedConv", {"x": a, "w": w, "b": b}, {"pads": [1, 0, 1, 1], "activation": "Relu"})
    assert_same(model, feeds, [np.maximum(expected, 0)])


EPSILON = {"epsilon": 1e-5}


@pytest.mark.parametrize("outputs", [("y",), ("y", "", "", "s"), ("y", "m", "d", "s")])
@pytest.mark.parametrize("bias", [None, x(4)])
def test_skip_layer_normalization(outputs: tuple[str, ...], bias: np.ndarray | None) -> None:
    if outputs[1:2] == ("m",):  # the CPU kernel gives no statistics
        outputs = ("y", "", "", "s")
    given = {"x": x(2, 3, 4), "skip": x(2, 3, 4), "gamma": x(4), "beta": x(4), "bias": bias}
    check("SkipLayerNormalization", given, EPSILON, outputs=outputs, fed=2)
    check("SkipLayerNormalization", {**given, "beta": None, "skip": x(3, 4)}, {}, outputs=outputs)


@pytest.mark.parametrize("bias", [None, x(4)])
def test_root_mean_square(bias: np.ndarray | None) -> None:
    given = {"x": x(2, 3, 4), "skip": x(2, 3, 4), "gamma": x(4), "bias": bias}
    check("SkipSimplifiedLayerNormalization", given, EPSILON, fed=2)
    check("SkipSimplifiedLayerNormalization", given, EPSILON, outputs=("y", "", "", "s"), fed=2)
    check("SimplifiedLayerNormalization", {"x": x(2, 3, 4), "scale": x(4)}, EPSILON, domain="")
    check("SimplifiedLayerNormalization", {"x": x(2, 3, 4), "scale": x(3, 4)}, {"axis": 1}, domain="")


def test_group_norm() -> None:
    """No CPU kernel: the formula of the schema, in float64."""
    a, gamma, beta, skip, bias = x(2, 3, 5, 6), x(6), x(6), x(2, 6), x(6)

    def normalized(v: np.ndarray) -> np.ndarray:
        groups = v.astype(np.float64).reshape(2, 15, 2, 3)
        away = groups - groups.mean(axis=(1, 3), keepdims=True)
        even = away / np.sqrt((away**2).mean(axis=(1, 3), keepdims=True) + 1e-5)
        y = even.reshape(2, 3, 5, 6) * gamma + beta
        return (y / (1 + np.exp(-y))).astype(np.float32)

    attributes = {"groups": 2, "activation": 1, "channels_last": 1, "epsilon": 1e-5}
    model, feeds = model_of("GroupNorm", {"x": a, "g": gamma, "b": beta}, attributes)
    assert_same(model, feeds, [normalized(a)], 1e-5)
    model, feeds = model_of(
        "SkipGroupNorm", {"x": a, "g": gamma, "b": beta, "s": skip, "c": bias}, attributes, outputs=("y", "t")
    )
    total = a + skip[:, None, None, :] + bias
    assert_same(model, feeds, [normalized(total), total], 1e-5)
    model, feeds = model_of(
        "GroupNorm", {"x": a.transpose(0, 3, 1, 2), "g": gamma, "b": beta}, {**attributes, "channels_last": 0}
    )
    assert_same(model, feeds, [normalized(a).transpose(0, 3, 1, 2)], 1e-5)


@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("places", [True, False])
def test_embed_layer_normalization(segments: bool, mask: bool, places: bool) -> None:
    ids = rng.integers(0, 7, (2, 5)).astype(np.int32)
    check(
        "EmbedLayerNormalization",
        {
            "ids": ids,
            "segments": (ids % 2).astype(np.int32) if segments else None,
            "word": x(7, 4),
            "position": x(9, 4),
            "segment": x(2, 4) if segments else None,
            "gamma": x(4),
            "beta": x(4),
            "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32) if mask else None,
            "places": np.array([[3, 1, 0, 2, 8]] * 2, np.int32) if places else None,
        },
        EPSILON,
        outputs=("y", "words", "s"),
        types={"words": TensorProto.INT32},
        tolerance=1e-5,
    )


def test_torch_embedding() -> None:
    """No CPU kernel: rows of the table."""
    table, ids = x(7, 4), np.array([[1, 5], [0, 6]])
    model, _ = model_of("TorchEmbedding", {"t": table, "i": ids}, fed=2)
    assert_same(model, {"t": table, "i": ids}, [table[ids]])


def test_a_node_of_weights_alone_stays() -> None:
    nodes = [
        helper.make_node("FastGelu", ["w"], ["v"], domain="com.microsoft"),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    model = node_model(nodes, {"x": x(2, 3)}, 17, stored={"w": x(3, 4)}, imports=IMPORTS)
    prepared = prepare(load(model))
    assert [(n.domain, n.op_type) for n in prepared.graph] == [("com.microsoft", "FastGelu"), ("", "MatMul")]


def test_a_rule_of_its_own_keeps_a_node() -> None:
    model, _ = model_of("FastGelu", {"x": x(2, 3)})
    prepared = prepare(load(model), lambda domain, operator: (domain, operator) == ("com.microsoft", "FastGelu"))
    assert [n.op_type for n in prepared.graph] == ["FastGelu"]


def test_why_a_node_stays() -> None:
    model, feeds = model_of("FusedGemm", {"a": x(2, 3), "b": x(3, 4)}, {"activation": "Sinus"})
    prepared = prepare(load(model))
    (node,) = prepared.graph
    assert node.op_type == "FusedGemm"
    assert "'Sinus'" in node.meta[REASON][0]
    assert len(prepared.graph.initializers) == 1
    assert feeds


def test_inside_a_body() -> None:
    """Bodies of If are written out too."""
    inner = helper.make_graph(
        [helper.make_node("QuickGelu", ["x"], ["z"], domain="com.microsoft")],
        "body",
        [],
        [helper.make_tensor_value_info("z", 1, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["u"])], "other", [], [helper.make_tensor_value_info("u", 1, None)]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)
    model = node_model([node], {"x": x(2, 3), "c": np.array(True)}, 17, imports=IMPORTS)
    model.graph.output[0].type.tensor_type.elem_type = 1
    model.graph.input[1].type.tensor_type.shape.ClearField("dim")
    prepared = assert_same(model, {"x": x(2, 3), "c": np.array(True)})
    assert {n.domain for g in prepared.graphs() for n in g} == {""}
