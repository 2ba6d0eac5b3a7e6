"""Every adapter, at every old opset it concerns, against ONNX Runtime on the original."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, parser

from onnx_ig.errors import ModelError
from onnx_ig.graph.inline import inline
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.upgrade import ADAPTERS, upgrade
from tests.graph.compare import assert_same, node_model, operators

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
REDUCTIONS = sorted(o for o in ADAPTERS if o.startswith("Reduce"))


def one(op: str, opset: int, feeds: dict[str, np.ndarray] | None = None, outputs: Any = ("y",), **kwargs: Any) -> Any:
    """A model of one node; what is not of `node_model` is an attribute."""
    options = {k: kwargs.pop(k) for k in ("stored", "ranked") if k in kwargs}
    feeds = {"x": X} if feeds is None else feeds
    node = helper.make_node(op, [*feeds, *options.get("stored", {})], list(outputs), name="node", **kwargs)
    return node_model(node, feeds, opset, **options), feeds


# The changelog ---------------------------------------------------------------------------------------------------

NEUTRAL = {
    ("Clip", 6): "bounds without default became the extremes of float32: clip() gives those",
    ("GRU", 3): "the default direction lost a typing error",
    ("Erf", 13): "integers, which nobody computes it on, were dropped",
    ("Dropout", 12): "a type variable changed its meaning",
}


def incompatible(old: onnx.defs.OpSchema, new: onnx.defs.OpSchema) -> bool:
    """Whether a valid node of `old` can be invalid, or say something else, under `new`."""
    for name, attribute in old.attributes.items():
        if name not in new.attributes:
            return True
        if attribute.type != new.attributes[name].type or (not attribute.required and new.attributes[name].required):
            return True
        before, after = attribute.default_value, new.attributes[name].default_value
        if before.SerializeToString() != after.SerializeToString():
            return True
    if any(name not in old.attributes and a.required for name, a in new.attributes.items()):
        return True
    if new.deprecated and not old.deprecated:
        return True
    if len(new.inputs) < len(old.inputs) or new.min_input > old.min_input or len(new.outputs) < len(old.outputs):
        return True
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in new.type_constraints}
    return any(
        set(c.allowed_type_strs) - allowed[c.type_param_str]
        for c in old.type_constraints
        if c.type_param_str in allowed
    )


def changes() -> list[tuple[str, int]]:
    history = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            history[schema.name].append(schema)
    found = []
    for name, schemas in history.items():
        schemas.sort(key=lambda s: s.since_version)
        for old, new in pairwise(schemas):
            if new.since_version <= 20 and incompatible(old, new):
                found.append((name, new.since_version))
    return found


def test_every_incompatible_step_of_the_changelog_has_an_adapter() -> None:
    consumed = {"consumed_inputs"}
    for name, version in changes():
        old, new = (onnx.defs.get_schema(name, v) for v in (version - 1, version))
        if set(old.attributes) - set(new.attributes) == consumed and old.min_input == new.min_input:
            same = {k: a.default_value.SerializeToString() for k, a in new.attributes.items()}
            if same == {k: a.default_value.SerializeToString() for k, a in old.attributes.items() if k not in consumed}:
                continue
        covered = any(until >= version for until, _ in ADAPTERS.get(name, ()))
        assert covered or (name, version) in NEUTRAL, (name, version)


def test_what_is_called_neutral_is_a_change() -> None:
    assert not set(NEUTRAL) - set(changes())


# One by one ------------------------------------------------------------------------------------------------------


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


PARAMETERS = {k: (RNG.random(3) + 0.5).astype(np.float32) for k in ("scale", "bias", "mean", "var")}


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


# Opsets that ONNX Runtime has no kernels for: literals ------------------------------------------------------------

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


# Scan-8 ----------------------------------------------------------------------------------------------------------

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


# The model around the nodes --------------------------------------------------------------------------------------


def test_an_opset_from_the_future_is_refused() -> None:
    model, _ = one("Relu", onnx.defs.onnx_opset_version() + 1)
    with pytest.raises(ModelError, match="install a newer onnx"):
        prepare(load(model))


@pytest.mark.parametrize(("opset", "expected"), [(7, 20), (13, 20), (20, 20), (21, 21), (22, 22)])
def test_which_opset_comes_out(opset: int, expected: int) -> None:
    assert assert_same(*one("Relu", opset)).opset_imports == {"": expected}


def test_the_standard_domain_spelled_out() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1, domain="ai.onnx")
    model = node_model(node, {"x": X}, 0, imports=[helper.make_opsetid("ai.onnx", 11)])
    prepared = assert_same(model, {"x": X})
    assert prepared.opset_imports == {"": 20}
    assert "Flatten" in operators(prepared)


def test_without_an_import_of_the_standard_domain_the_latest_is_meant() -> None:
    model = node_model(
        helper.make_node("Softmax", ["x"], ["y"]), {"x": X}, 0, imports=[helper.make_opsetid("ai.onnx.ml", 2)]
    )
    prepared = assert_same(model, {"x": X})
    assert operators(prepared) == ["Softmax"]
    assert prepared.opset_imports[""] == 20


def test_without_any_import_an_ancient_file_is_of_opset_1() -> None:
    model, feeds = one("Concat", 1, {"a": X, "b": X})
    del model.opset_import[:]
    model.ir_version = 2
    assert_same(model, feeds, [np.concatenate([X, X], 1)])


def test_subgraphs_come_up_too() -> None:
    model = parser.parse_model("""
        <ir_version: 7, opset_import: ["" : 11]>
        g (float[N,3,4] x, bool c) => (float[N,3,4] y)
        { y = If (c) <then_branch = t () => (float[N,3,4] a) { a = Softmax<axis = 1>(x) },
                      else_branch = e () => (float[N,3,4] b) { k = Constant<value = float {2.0}>() b = Mul(x, k) }> }
    """)
    for c in (True, False):
        prepared = assert_same(model, {"x": X[0, :, :3, :4], "c": np.array(c)})
    assert "Flatten" in operators(prepared)


def test_functions_of_another_opset_come_up_as_what_they_were_written_for() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[N,3,4] x) => (float[N,3,4] y, float[N,3,4] z) { y = mine.soft<k = 2>(x) z = Softmax<axis = 1>(x) }
        <domain: "mine", opset_import: ["" : 11, "mine" : 3]>
        soft <k> (a) => (b) { h = Softmax<axis = 1>(a) b = mine.inner<k: int = @k>(h) }
        <domain: "mine", opset_import: ["" : 12]>
        inner <k> (a) => (b) { b = LogSoftmax<axis: int = @k>(a) }
    """)
    x = X[0]
    feeds = {"x": np.stack([x, x])[:, :, :4].reshape(2, 3, -1)[:, :, :4].copy()}

    def softmax(v: np.ndarray, axes: Any) -> np.ndarray:
        e = np.exp(v - v.max(axes, keepdims=True))
        return e / e.sum(axes, keepdims=True)

    expected = [np.log(softmax(softmax(feeds["x"], (1, 2)), 2)), softmax(feeds["x"], 1)]
    prepared = assert_same(model, feeds, expected, tolerance=1e-5)
    assert not prepared.functions
    assert prepared.opset_imports == {"": 20}


def test_nodes_of_other_domains_stay() -> None:
    nodes = [
        helper.make_node("Gelu", ["x"], ["h"], domain="com.microsoft"),
        helper.make_node("Clip", ["h"], ["y"], min=0.0),
    ]
    imports = [helper.make_opsetid("", 9), helper.make_opsetid("com.microsoft", 1)]
    model = load(node_model(nodes, {"x": X}, 9, imports=imports))
    inline(model)
    upgrade(model)
    assert [(n.domain, n.op_type) for n in model.graph] == [("com.microsoft", "Gelu"), ("", "Clip")]
    assert model.graph[1].inputs[1].dtype == ir.DataType.FLOAT  # type: ignore[union-attr]


def test_layer_normalization_that_the_runtime_wrote_below_opset_17() -> None:
    stored = {k: np.ones(5, np.float32) for k in "sb"}
    assert_same(*one("LayerNormalization", 12, stored=stored, epsilon=1e-3), tolerance=1e-5)


def test_new_nodes_are_named_after_the_old_one() -> None:
    prepared = assert_same(*one("Softmax", 9, axis=1))
    assert [n.name for n in prepared.graph] == ["node_Flatten", "node_Softmax", "node_Shape", "node_Reshape"]
    assert prepared.graph.outputs[0].name == "y"


def test_types_of_constants_are_int64() -> None:
    prepared = assert_same(*one("Slice", 7, starts=[0], ends=[1], axes=[1]))
    assert {v.dtype for v in prepared.graph.initializers.values()} == {ir.DataType(TensorProto.INT64)}
