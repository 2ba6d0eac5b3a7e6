"""Opsets that ONNX Runtime has no kernels for, against literals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, parser

from onnx_ig.errors import ModelError
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.compare import assert_same, node_model, operators
from tests.graph.old_nodes import PARAMETERS, X, one

RNG = np.random.default_rng(3)

ARITHMETIC: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
    "Greater": np.greater, "Less": np.less,
}  # fmt: skip


@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_opset_6_broadcasting_from_an_axis(op: str, ranked: bool) -> None:
    x, b = np.abs(X) + 0.5, np.array([1, 2, 3], np.float32)
    model, _ = one(op, 6, {"x": x, "b": b}, broadcast=1, axis=1, ranked=ranked)
    assert_same(model, {"x": x, "b": b}, [ARITHMETIC[op](x, b[:, None, None])])


def test_opset_6_broadcasting_from_the_end() -> None:
    b = RNG.standard_normal((4, 5)).astype(np.float32)
    model, feeds = one("Add", 6, {"x": X, "b": b}, broadcast=1)
    assert operators(assert_same(model, feeds, [X + b])) == ["Add"]
    model, feeds = one("Add", 6, {"x": X, "b": b[:, :1]}, broadcast=1, axis=-2)
    assert_same(model, feeds, [X + b[:, :1]])


@pytest.mark.parametrize("ranked", [True, False])
def test_opset_6_slopes_belong_to_channels(ranked: bool) -> None:
    slope = np.array([0.1, 0.2, 0.3], np.float32)
    model, feeds = one("PRelu", 6, stored={"s": slope}, ranked=ranked)
    assert_same(model, feeds, [np.where(X > 0, X, slope[:, None, None] * X)])
    model, feeds = one("PRelu", 6, stored={"s": slope[:1]}, ranked=ranked)
    assert_same(model, feeds, [np.where(X > 0, X, slope[0] * X)])


def test_ranks_are_known_after_the_first_step() -> None:
    b = np.arange(3, dtype=np.float32)
    nodes = [
        helper.make_node("Add", ["x", "b"], ["h"], broadcast=1, axis=1),
        helper.make_node("Softmax", ["h"], ["y"], axis=1),
    ]
    x = X[:, :, 0, 0]
    shifted = np.exp(x + b)
    prepared = assert_same(
        node_model(nodes, {"x": x, "b": b}, 6), {"x": x, "b": b}, [shifted / shifted.sum(1, keepdims=True)]
    )
    assert operators(prepared) == ["Add", "Softmax"]


def test_opset_6_gemm_and_batch_normalization_and_dropout() -> None:
    a, b, c = (RNG.standard_normal(s).astype(np.float32) for s in ((2, 3), (3, 4), (4,)))
    model, feeds = one("Gemm", 6, {"a": a, "b": b, "c": c}, broadcast=1)
    assert_same(model, feeds, [a @ b + c], tolerance=1e-5)
    model, feeds = one("BatchNormalization", 6, stored=PARAMETERS, is_test=1, outputs=["y", "", "", "", ""])
    p = {k: v[:, None, None] for k, v in PARAMETERS.items()}
    assert_same(model, feeds, [(X - p["mean"]) / np.sqrt(p["var"] + 1e-5) * p["scale"] + p["bias"]], tolerance=1e-5)
    model, feeds = one("Dropout", 6, is_test=1, ratio=0.9)
    assert_same(model, feeds, [X])


def test_before_opset_6() -> None:
    model, feeds = one("Pad", 1, paddings=[0, 0, 1, 0, 0, 0, 0, 1], value=2.0)
    assert_same(model, feeds, [np.pad(X, [(0, 0), (0, 0), (1, 0), (0, 1)], constant_values=2)])
    model, feeds = one("Reshape", 1, shape=[0, -1], consumed_inputs=[0])
    assert_same(model, feeds, [X.reshape(2, -1)])
    model, feeds = one("Concat", 1, {"a": X, "b": X})
    assert_same(model, feeds, [np.concatenate([X, X], 1)])
    model, feeds = one("Cast", 1, to="INT32")
    assert_same(model, feeds, [X.astype(np.int32)])
    model, feeds = one("Relu", 1, consumed_inputs=[0])
    assert_same(model, feeds, [np.maximum(X, 0)])
    model, feeds = one("Selu", 1, consumed_inputs=[0])
    assert_same(model, feeds, [1.0507 * np.where(X > 0, X, 1.6732 * np.expm1(X)).astype(np.float32)])
    model, feeds = one("GlobalLpPool", 1, p=2.0)
    assert_same(model, feeds, [np.sqrt((X**2).sum((2, 3), keepdims=True))], tolerance=1e-5)
    model, feeds = one("Upsample", 1, height_scale=2.0, width_scale=1.0, mode="nearest")
    assert_same(model, feeds, [X.repeat(2, 2)])
    model, feeds = one("Split", 1, outputs=["a", "b"], axis=3, stored={"s": np.array([2, 3], np.float32)})
    assert_same(model, feeds, [X[..., :2], X[..., 2:]])
    model, feeds = one("Tile", 1, stored={"t": np.array(2, np.float32), "a": np.array(1, np.float32)})
    assert_same(model, feeds, [np.tile(X, (1, 2, 1, 1))])


def test_what_has_no_counterpart_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"GlobalLpPool.*'node'.*p=2.5"):
        prepare(load(one("GlobalLpPool", 1, p=2.5)[0]))
    with pytest.raises(ModelError, match=r"Cast.*'WORD'"):
        prepare(load(one("Cast", 1, to="WORD")[0]))


SCAN = """
<ir_version: 7, opset_import: ["" : 8]>
g (float[B,2] s, float[B,T,2] x) => (float[B,2] last, float[B,T,2] all)
{
  last, all = Scan <num_scan_inputs = 1, directions = [%d], body = step (float[2] h, float[2] v) => (float[2] n, float[2] o)
    { half = Constant <value = float {0.5}> () m = Mul(h, half) n = Add(m, v) o = Tanh(n) }> (%s, s, x)
}
"""


@pytest.mark.parametrize("direction", [0, 1])
def test_scan_8_scans_every_sample(direction: int) -> None:
    model = parser.parse_model(SCAN % (direction, ""))
    feeds = {"s": X[:, 0, 0, :2], "x": X[:, 0, :, :2]}
    assert_same(model, feeds)
