from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig import add_gradients
from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(6)


def around(*shape: int) -> np.ndarray:
    """Weights near 1."""
    return rng.uniform(0.5, 1.5, shape)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4), (2, 3, 2, 2), (1, 1, 3), (0, 3, 2)])
def test_batch_normalization(shape: tuple[int, ...]) -> None:
    n = shape[1]
    inputs = {
        "x": rng.standard_normal(shape), "scale": around(n), "bias": around(n), "mean": around(n), "var": around(n),
    }  # fmt: skip
    check("BatchNormalization", inputs, {"epsilon": 0.01})
    check("BatchNormalization", inputs, constants=["scale", "bias", "mean", "var"])


def test_batch_normalization_of_a_vector() -> None:
    inputs = {"x": rng.standard_normal(5), "scale": around(1), "bias": around(1), "mean": around(1), "var": around(1)}
    check("BatchNormalization", inputs, shapes=["static", "unranked"])


def test_batch_normalization_with_statistics_of_another_type() -> None:
    x = rng.standard_normal((4, 3)).astype(np.float16)
    single = {n: around(3).astype(np.float32) for n in ("scale", "bias", "mean", "var")}
    feeds = {"x": x, **single}
    model = node_model("BatchNormalization", feeds, dtype=np.float16)
    for value, name in zip(model.graph.input, feeds, strict=True):
        value.type.tensor_type.elem_type = 10 if name == "x" else 1
    got = gradients_of(model, feeds, "y", list(feeds), np.ones((4, 3), np.float16))
    factor = single["scale"] / np.sqrt(single["var"] + 1e-5)
    assert {n: g.dtype for n, g in got.items()} == {n: a.dtype for n, a in feeds.items()}
    np.testing.assert_allclose(got["x"], np.tile(factor, (4, 1)), rtol=2e-3)
    np.testing.assert_allclose(got["mean"], -4 * factor, rtol=1e-5)


@pytest.mark.parametrize("of", ["y", "running_mean", "running_var"])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4)])
def test_batch_normalization_in_training_mode(of: str, shape: tuple[int, ...]) -> None:
    n = shape[1]
    inputs = {
        "x": rng.standard_normal(shape), "scale": around(n), "bias": around(n), "mean": around(n), "var": around(n),
    }  # fmt: skip
    wrt = {"y": ["x", "scale", "bias"], "running_mean": ["x", "mean"], "running_var": ["x", "var"]}[of]
    check(
        "BatchNormalization", inputs, {"training_mode": 1, "momentum": 0.7},
        outputs=["y", "running_mean", "running_var"], of=of, wrt=wrt,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "scale", "axis"),
    [((2, 3, 4), (4,), -1), ((2, 3, 4), (4,), 2), ((2, 3, 4), (3, 4), 1), ((2, 3, 4), (3, 4), -2), ((2, 3), (2, 3), 0),
     ((2, 3, 4), (1, 4), 1), ((5,), (5,), -1), ((2, 1), (1,), -1), ((0, 3), (3,), -1)],
)  # fmt: skip
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalization(shape: tuple[int, ...], scale: tuple[int, ...], axis: int, bias: bool) -> None:
    inputs = {"x": rng.standard_normal(shape), "scale": around(*scale), **({"bias": around(*scale)} if bias else {})}
    check("LayerNormalization", inputs, {"axis": axis, "epsilon": 0.01})


def _statistics(x: np.ndarray, axes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"m": x.mean(axes, keepdims=True), "r": 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-5)}


@pytest.mark.parametrize("of", ["m", "r"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [1, -1])
def test_statistics_of_layer_normalization(of: str, dtype: Any, axis: int) -> None:
    """They are float32 whatever the type of x."""
    x = rng.standard_normal((2, 3, 4))
    axes = (1, 2) if axis == 1 else (2,)
    cotangent = rng.standard_normal(_statistics(x, axes)[of].shape)
    feeds = {"x": x.astype(dtype), "scale": np.ones(x.shape[axis:], dtype)}
    model = node_model("LayerNormalization", feeds, {"axis": axis}, outputs=["y", "m", "r"], dtype=dtype)
    got = gradients_of(model, feeds, of, ["x"], cotangent.astype(np.float32))["x"]
    expected, step = np.zeros_like(x), 1e-6
    for index in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[index] += step
        behind[index] -= step
        change = _statistics(ahead, axes)[of] - _statistics(behind, axes)[of]
        expected[index] = (change * cotangent).sum() / (2 * step)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("runtime", ["generic", "tensorrt"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_layer_normalization_far_from_zero(runtime: str, dtype: Any) -> None:
    """A mean a thousand times the deviation: as accurate as x - m, and as the runtime's own r where that is used."""
    x = (1000 + np.array([[0.0, 1, 3, 4]])).astype(dtype)
    g = np.array([[1.0, 2, 0, -1]], dtype)
    feeds = {"x": x, "scale": np.ones(4, dtype)}
    model = node_model("LayerNormalization", feeds, dtype=dtype)
    got = gradients_of(model, feeds, "y", ["x"], g, runtime=runtime)["x"]
    exact = {n: a.astype(np.float64) for n, a in feeds.items()}
    expected = gradients_of(node_model("LayerNormalization", exact), exact, "y", ["x"], g.astype(np.float64))["x"]
    assert got.dtype == dtype
    accuracy = 1e-3 if dtype == np.float16 else 2e-5 if runtime == "generic" else 1e-6
    np.testing.assert_allclose(got, expected, atol=accuracy)


def test_runtimes_that_know_one_output_of_layer_normalization() -> None:
    model = node_model("LayerNormalization", {"x": np.ones((2, 3)), "scale": np.ones(3)}, dtype=np.float32)
    for runtime, outputs in (("cpu", 3), ("tensorrt", 1), ("openvino", 1)):
        nodes = add_gradients(model, of="y", wrt="x", runtime=runtime).graph.node
        assert [len(n.output) for n in nodes if n.op_type == "LayerNormalization"] == [outputs]


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 2, 2), (1, 1, 5), (2, 3, 1)])
def test_instance_normalization(shape: tuple[int, ...]) -> None:
    inputs = {"x": rng.standard_normal(shape), "scale": around(shape[1]), "bias": around(shape[1])}
    check("InstanceNormalization", inputs, {"epsilon": 0.01})
    check("InstanceNormalization", inputs, {"epsilon": 0.01}, opset=22, shapes=["batch"])


@pytest.mark.parametrize(("opset", "parameters"), [(20, 2), (21, 4), (25, 4)])
@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4), (1, 4, 2, 2)])
def test_group_normalization(opset: int, parameters: int, shape: tuple[int, ...]) -> None:
    inputs = {"x": rng.standard_normal(shape), "scale": around(parameters), "bias": around(parameters)}
    attributes = {"num_groups": 2, "epsilon": 0.01, **({"stash_type": 11} if opset >= 21 else {})}
    check("GroupNormalization", inputs, attributes, opset=opset)


@pytest.mark.parametrize(
    ("shape", "scale", "axis"),
    [((2, 3, 4), (4,), -1), ((2, 3, 4), (3, 4), 1), ((2, 3, 4), (1,), 2), ((5,), (5,), 0), ((0, 3), (3,), -1)],
)
def test_rms_normalization(shape: tuple[int, ...], scale: tuple[int, ...], axis: int) -> None:
    inputs = {"x": rng.standard_normal(shape), "scale": around(*scale)}
    check("RMSNormalization", inputs, {"axis": axis, "epsilon": 0.01}, opset=23)


@pytest.mark.parametrize("op", ["LayerNormalization", "InstanceNormalization", "GroupNormalization"])
@pytest.mark.parametrize("size", [1e-15, 1e15])
def test_extreme_scales_stay_finite(op: str, size: float) -> None:
    """A constant row, a row of tiny and one of huge spread: the gradient is finite in float32."""
    x = np.array([[[3, 3, 3, 3], [-1, 1, -1, 1]]], np.float32) * np.float32(size)
    n = 4 if op == "LayerNormalization" else 2
    feeds = {"x": x, "scale": np.ones(n, np.float32), "bias": np.zeros(n, np.float32)}
    attributes = {"num_groups": 2} if op == "GroupNormalization" else {}
    model = node_model(op, feeds, attributes, opset=21, dtype=np.float32)
    got = gradients_of(model, feeds, "y", ["x"], np.arange(8, dtype=np.float32).reshape(1, 2, 4))["x"]
    assert np.isfinite(got).all()
