"""Every adapter, at every old opset it concerns, against ONNX Runtime on the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_ig.errors import ModelError
from onnx_ig.graph.inline import inline
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.upgrade import ADAPTERS, upgrade
from tests.graph.compare import assert_same, node_model, operators
from tests.graph.old_nodes import PARAMETERS, X, one

RNG = np.random.default_rng(3)
REDUCTIONS = sorted(o for o in ADAPTERS if o.startswith("Reduce"))


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 2, 3, -1])
@pytest.mark.parametrize("ranked", [True, False])
def test_softmax_flattens(op: str, opset: int, axis: int | None, ranked: bool) -> None:
    model, feeds = one(op, opset, ranked=ranked, **({} if axis is None else {"axis": axis}))
    prepared = assert_same(model, feeds)
    plain = axis == -1 or (ranked and axis == 3)
    assert operators(prepared) == ([op] if plain else ["Flatten", op, "Shape", "Reshape"])


def test_softmax_over_channels_whose_positions_are_one_stays_plain() -> None:
    x = X[:, :, :1, :1]
    model, feeds = one("Softmax", 9, {"x": x}, axis=1)
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = 1
    prepared = assert_same(model, feeds)
    assert operators(prepared) == ["Softmax"]
    assert prepared.graph[0].attributes["axis"].value == 1


@pytest.mark.parametrize("opset", [7, 11, 13, 17])
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("axes", [None, [1], [-1, 0]])
def test_reductions(op: str, opset: int, axes: list[int] | None) -> None:
    if axes and min(axes) < 0 and opset < 11:
        axes = [3, 0]
    feeds = {"x": np.abs(X)}
    attributes = (
        {"keepdims": 0} if axes is None or (op == "ReduceSum" and opset >= 13) else {"keepdims": 0, "axes": axes}
    )
    model, _ = one(op, opset, feeds, **attributes)
    prepared = assert_same(model, feeds, tolerance=1e-5)
    assert "axes" not in prepared.graph[-1].attributes


@pytest.mark.parametrize("opset", [7, 11])
def test_squeeze_and_unsqueeze(opset: int) -> None:
    assert_same(*one("Squeeze", opset, {"x": X[:1, :, :1]}, axes=[0, 2]))
    assert_same(*one("Squeeze", opset, {"x": X[:1, :, :1]}))
    assert_same(*one("Unsqueeze", opset, axes=[0, 3]))


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_split(opset: int) -> None:
    assert_same(*one("Split", opset, {"x": X[:, :, :, :4]}, outputs=["a", "b"], axis=3))
    if opset < 13:
        assert_same(*one("Split", opset, outputs=["a", "b"], axis=3, split=[2, 3]))
    else:
        assert_same(*one("Split", opset, outputs=["a", "b"], axis=3, stored={"s": np.array([2, 3])}))


@pytest.mark.parametrize("opset", [7, 9])
def test_slice(opset: int) -> None:
    assert_same(*one("Slice", opset, starts=[1, -3], ends=[3, 2**31 - 1], axes=[1, 3]))
    assert_same(*one("Slice", opset, starts=[0, 1], ends=[1, -1]))


@pytest.mark.parametrize("opset", [7, 10])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(opset: int, mode: str) -> None:
    pads = [0, 0, 1, 2, 0, 0, 2, 1]
    assert_same(*one("Pad", opset, pads=pads, mode=mode, **({"value": 1.5} if mode == "constant" else {})))
    assert_same(*one("Pad", opset, pads=[0, 0, -1, 0, 0, 0, 0, -2]))


@pytest.mark.parametrize("opset", [7, 10])
def test_clip(opset: int) -> None:
    x = np.array([-np.inf, -2, 0.5, 7, np.inf], np.float32)
    for bounds in ({"min": -1.0, "max": 6.0}, {"max": 6.0}, {"min": 0.0}, {}):
        assert_same(*one("Clip", opset, {"x": x}, **bounds))


def test_clip_of_an_operand_whose_type_is_unknown_until_run_time() -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["h"]), helper.make_node("Clip", ["h"], ["y"], min=0.0)]
    model = load(node_model(nodes, {"x": X}, 9))
    inline(model)
    upgrade(model)
    assert operators(model) == ["Mystery", "CastLike", "CastLike", "Clip"]


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_top_k(opset: int) -> None:
    if opset < 10:
        assert_same(*one("TopK", opset, outputs=["v", "i"], k=2, axis=3))
    else:
        assert_same(*one("TopK", opset, outputs=["v", "i"], axis=3, stored={"k": np.array([2])}))


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11])
def test_dropout(opset: int) -> None:
    prepared = assert_same(*one("Dropout", opset, ratio=0.3))
    assert not prepared.graph[0].attributes
    assert_same(*one("Dropout", opset, outputs=["y", "mask"], ratio=0.3))


def test_dropout_drops_a_mask_that_nobody_takes() -> None:
    nodes = [helper.make_node("Dropout", ["x"], ["h", "mask"]), helper.make_node("Neg", ["h"], ["y"])]
    prepared = assert_same(node_model(nodes, {"x": X}, 9), {"x": X})
    assert len(prepared.graph[0].outputs) == 1


@pytest.mark.parametrize("opset", [7, 8, 9, 13])
def test_batch_normalization(opset: int) -> None:
    prepared = assert_same(*one("BatchNormalization", opset, stored=PARAMETERS, epsilon=1e-3))
    assert operators(prepared) == ["BatchNormalization"]
    if opset < 9:
        assert_same(*one("BatchNormalization", opset, stored=PARAMETERS, spatial=1))


@pytest.mark.parametrize("opset", [7, 8])
def test_batch_normalization_with_a_statistic_for_every_position(opset: int) -> None:
    stored = {k: (RNG.random((3, 4, 5)) + 0.5).astype(np.float32) for k in PARAMETERS}
    assert_same(*one("BatchNormalization", opset, stored=stored, spatial=0, epsilon=1e-3))


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_batch_normalization_that_trains_goes_on_training(opset: int) -> None:
    model, feeds = one("BatchNormalization", opset, outputs=["y", "m", "v", "sm", "sv"], stored=PARAMETERS)
    del model.graph.output[1:]
    prepared = assert_same(model, feeds, tolerance=1e-5)
    assert prepared.graph[0].attributes["training_mode"].value == 1


def test_outputs_that_only_training_gives_are_refused() -> None:
    model, _ = one("BatchNormalization", 9, outputs=["y", "m", "v", "sm", "sv"], stored=PARAMETERS)
    with pytest.raises(ModelError, match=r"BatchNormalization \(node 'node'\) of opset 9"):
        prepare(load(model))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("opset", [18, 20])
def test_group_normalization_has_one_scale_a_group(opset: int, dtype: Any) -> None:
    x = RNG.standard_normal((2, 6, 4, 3)).astype(dtype)
    scale, bias = RNG.standard_normal((2, 3)).astype(dtype)
    model, feeds = one(
        "GroupNormalization", opset, {"x": x}, stored={"s": scale, "b": bias}, num_groups=3, epsilon=1e-3
    )
    groups = x.reshape(2, 3, -1)
    z = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-3)
    expected = (z * scale[:, None] + bias[:, None]).reshape(x.shape).astype(dtype)
    assert "GroupNormalization" not in operators(assert_same(model, feeds, [expected], tolerance=1e-5))


def test_group_normalization_of_opset_21_stays() -> None:
    stored = {k: np.ones(6, np.float32) for k in "sb"}
    model, feeds = one("GroupNormalization", 21, {"x": X.reshape(2, 6, -1)}, stored=stored, num_groups=3)
    prepared = assert_same(model, feeds)
    assert prepared.opset_imports[""] == 21
    assert operators(prepared) == ["GroupNormalization"]


@pytest.mark.parametrize("opset", [7, 8])
@pytest.mark.parametrize("attributes", [{}, {"across_channels": 1}, {"normalize_variance": 0}])
def test_experimental_mean_variance_normalization(opset: int, attributes: dict[str, int]) -> None:
    assert_same(*one("MeanVarianceNormalization", opset, **attributes), tolerance=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 3], [1, 1, 1.5, 2.7]])
@pytest.mark.parametrize("opset", [7, 8, 9])
def test_upsample(opset: int, mode: str, scales: list[float]) -> None:
    if opset < 9:
        assert_same(*one("Upsample", opset, scales=[float(s) for s in scales], mode=mode))
    else:
        stored = {"s": np.array(scales, np.float32)}
        assert_same(*one("Upsample", opset, stored=stored, mode=mode))
        assert_same(*one("Upsample", opset, {"x": X, **stored}, mode=mode))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 3], [1, 1, 0.5, 0.7], [1, 1, 1.5, 0.6], [1, 1, 0.55, 2.4]])
@pytest.mark.parametrize("known", [True, False])
def test_resize_10(mode: str, scales: list[float], known: bool) -> None:
    given = {"s": np.array(scales, np.float32)}
    x = RNG.standard_normal((2, 3, 7, 9)).astype(np.float32)
    if known:
        assert_same(*one("Resize", 10, {"x": x}, stored=given, mode=mode))
    else:
        assert_same(*one("Resize", 10, {"x": x, **given}, mode=mode))


@pytest.mark.parametrize("opset", [9, 10])
def test_scatter(opset: int) -> None:
    feeds = {"x": X[0, 0], "i": np.array([[1, 0], [2, 3]]), "u": np.ones((2, 2), np.float32)}
    assert operators(assert_same(*one("Scatter", opset, feeds, axis=0))) == ["ScatterElements"]


def test_roi_align_has_no_half_pixel_shift() -> None:
    feeds = {"x": X, "r": np.array([[0.3, 0.4, 3.1, 2.7]], np.float32), "b": np.array([1])}
    assert_same(*one("RoiAlign", 10, feeds, output_height=2, output_width=2, sampling_ratio=2))


@pytest.mark.parametrize("mode", [None, "bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str | None) -> None:
    feeds = {"x": X, "g": RNG.uniform(-1, 1, (2, 3, 3, 2)).astype(np.float32)}
    assert_same(*one("GridSample", 16, feeds, **({"mode": mode} if mode else {})), tolerance=1e-5)


@pytest.mark.parametrize("attributes", [{}, {"axis": 2}, {"axis": 1, "inverse": 1}])
def test_dft(attributes: dict[str, int]) -> None:
    assert_same(*one("DFT", 17, {"x": X[..., :1]}, **attributes), tolerance=1e-5)


def test_constants_have_the_type_of_the_data() -> None:
    assert_same(*one("Clip", 7, {"x": X.astype(np.float16)}, min=-0.5))
    assert_same(*one("Pad", 10, {"x": X.astype(np.float64)}, pads=[0, 1] * 4, value=0.1))


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_of_opset_7(op: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    stored = {
        "w": RNG.standard_normal((1, gates * 4, 5)).astype(np.float32),
        "r": RNG.standard_normal((1, gates * 4, 4)).astype(np.float32),
    }
    assert_same(*one(op, 7, {"x": X[0]}, stored=stored, hidden_size=4))


EXPERIMENTAL: list[tuple[str, dict[str, Any]]] = [
    ("Affine", {"alpha": 2.0, "beta": 0.5}),
    ("Crop", {"border": [1, 1, 2, 0]}),
    ("Crop", {"border": [1, 1, 0, 0], "scale": [2, 3]}),
    ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}),
    ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
    ("Scale", {"scale": 3.0}),
    ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
    ("ThresholdedRelu", {"alpha": 0.5}),
]


@pytest.mark.parametrize("opset", [6, 9])
@pytest.mark.parametrize(("op", "attributes"), EXPERIMENTAL)
def test_experimental_operators(op: str, attributes: dict[str, Any], opset: int) -> None:
    assert_same(*one(op, opset, **attributes))


def test_dynamic_slice() -> None:
    stored = {"s": np.array([1]), "e": np.array([3]), "a": np.array([2])}
    assert_same(*one("DynamicSlice", 9, stored=stored))
