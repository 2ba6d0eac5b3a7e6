"""Inputs of integers: attributions start at the floats that the model makes of them, and are those of these floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_ig
from onnx_ig.errors import OptionError
from tests.graph.test_lookups import WAYS, bag, model_of, node

pytestmark = pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning")

rng = np.random.default_rng(6)
W = rng.standard_normal((12, 3)).astype(np.float32) * 0.005
PICTURES = rng.integers(0, 256, (2, 3, 4)).astype(np.uint8)
TAIL = [
    node("Flatten", ["f"], ["v"], axis=1),
    node("MatMul", ["v", "w"], ["h"]),
    node("Tanh", ["h"], ["y"]),
]


def of_bytes(way: str = "Cast", zero: int = 0) -> onnx.ModelProto:
    """Tanh of a linear map of bytes, as they are or (x - zero) / 2."""
    first = node("Cast", ["x"], ["f"], to=TensorProto.FLOAT)
    if way == "DequantizeLinear":
        first = node("DequantizeLinear", ["x", "s", "z"], ["f"])
    stored = {"w": W, "s": np.float32(0.5), "z": np.uint8(zero)}
    return model_of([first, *TAIL], stored, "x", TensorProto.UINT8, ("N", 3, 4))


def of_floats() -> onnx.ModelProto:
    return model_of([node("Identity", ["x"], ["f"]), *TAIL], {"w": W}, "x", TensorProto.FLOAT, ("N", 3, 4))


def floats_of(way: str, zero: int, x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32) - zero) * np.float32(0.5 if way == "DequantizeLinear" else 1.0)


WAYS_OF_BYTES = [("Cast", 0), ("DequantizeLinear", 0), ("DequantizeLinear", 128)]


@pytest.mark.parametrize(("way", "zero"), WAYS_OF_BYTES)
@pytest.mark.parametrize("baseline", [None, 0, 7, PICTURES[::-1], PICTURES[:1]])
def test_bytes(way: str, zero: int, baseline: Any) -> None:
    """Black is 0 as fed, whatever float that is."""
    explainer = onnx_ig.Explainer(of_bytes(way, zero))
    found = explainer.attribute(PICTURES, baseline, n_steps=9, target=1)
    start = np.broadcast_to(np.asarray(0 if baseline is None else baseline), PICTURES.shape)
    plain = onnx_ig.Explainer(of_floats())
    expected = plain.attribute(floats_of(way, zero, PICTURES), floats_of(way, zero, start), n_steps=9, target=1)
    np.testing.assert_allclose(found["x"], expected["x"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.baseline_prediction, expected.baseline_prediction, rtol=1e-4, atol=1e-6)
    assert found["x"].shape == PICTURES.shape
    assert found["x"].dtype == np.float32


@pytest.mark.parametrize("baseline", [0.5, 300, -1, [[1.5] * 4] * 3])
def test_baselines_that_are_no_bytes(baseline: Any) -> None:
    with pytest.raises(OptionError, match="fit into uint8"):
        onnx_ig.Explainer(of_bytes()).attribute(PICTURES, np.asarray(baseline))


def test_held_bytes_and_other_methods() -> None:
    held = np.zeros((2, 3, 4), bool)
    held[:, 1] = True
    explainer = onnx_ig.Explainer(of_bytes())
    assert not explainer.attribute(PICTURES, held={"x": held}, n_steps=9)["x"][:, 1].any()
    x = PICTURES.astype(np.float32)
    for method, options in (
        ("gradient", {}),
        ("gradient_x_input", {}),
        ("path_integrated_gradients", {"path": np.linspace(0, 1, 11)}),
        ("expected_gradients", {"references": PICTURES}),
        ("deeplift", {}),
    ):
        found = onnx_ig.Explainer(of_bytes(), method).attribute(PICTURES, target=1, **options)
        expected = onnx_ig.Explainer(of_floats(), method).attribute(
            x, target=1, **{k: v.astype(np.float32) for k, v in options.items()}
        )
        np.testing.assert_allclose(found["x"], expected["x"], rtol=1e-4, atol=1e-6, err_msg=method)
        np.testing.assert_allclose(found.convergence_delta, expected.convergence_delta, atol=1e-5, err_msg=method)


@pytest.mark.parametrize(("way", "zero"), WAYS_OF_BYTES)
@pytest.mark.parametrize("baselines", [0, 7, "input"])
@pytest.mark.parametrize("loop", ["batched", "looped"])
def test_one_file(way: str, zero: int, baselines: Any, loop: str) -> None:
    model = onnx_ig.rewrite(of_bytes(way, zero), baselines=baselines, n_steps=9, target=1, loop=loop)
    feeds = {"x": PICTURES}
    start = 0 if baselines == 0 else 7
    if baselines == "input":
        feeds["x_baseline"] = np.full_like(PICTURES, 7)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
    found = onnx_ig.Explainer(of_bytes(way, zero)).attribute(PICTURES, start, n_steps=9, target=1)
    np.testing.assert_allclose(outputs["x_attribution"], found["x"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(outputs["convergence_delta"][:, 0], found.convergence_delta, atol=1e-5)


def test_what_inspect_says() -> None:
    text = str(onnx_ig.inspect(of_bytes()))
    assert "attributed as the floats that it is cast to" in text
    assert onnx_ig.check(of_bytes(), PICTURES).ok


@pytest.mark.parametrize("way", WAYS)
def test_the_route_to_a_row_does_not_matter(way: str) -> None:
    """Gather, OneHot and comparisons with all classes select the same rows: equal attributions, of [N, T]."""
    ids = np.array([[1, 5, 0], [6, 2, 2]])
    tail = [node("Tanh", ["e"], ["a"]), node("ReduceMean", ["a", "axes"], ["y"], keepdims=0)]

    def attributions(name: str) -> Any:
        nodes, stored = WAYS[name]
        model = model_of([*nodes, *tail], {**stored, "axes": np.array([1])})
        return onnx_ig.Explainer(model).attribute(ids, n_steps=9, target=1)

    found, expected = attributions(way), attributions("Gather")
    assert found["ids"].shape == ids.shape
    np.testing.assert_allclose(found["ids"], expected["ids"], rtol=1e-5, atol=1e-6)
    assert abs(found.convergence_delta).max() < 1e-4


def test_bags() -> None:
    """Means of rows, then a product with themselves: the rows of a bag share its attribution by their size."""
    model = bag()
    model.graph.node.append(helper.make_node("Mul", ["y", "y"], ["y2"]))
    model.graph.output[0].name = "y2"
    ids = np.array([[1, 5, 0], [6, 2, 2]])
    table = next(numpy_helper.to_array(i) for i in model.graph.initializer if i.name == "t")
    rows = table[ids]
    mean = rows.mean(axis=1, keepdims=True)
    found = onnx_ig.Explainer(model).attribute(ids, n_steps=20, target=(0, 2))
    expected = np.zeros(rows.shape)
    expected[0, :, 2] = (mean * rows / 3)[0, :, 2]
    np.testing.assert_allclose(found["ids"], expected.sum(-1), rtol=1e-4, atol=1e-6)
