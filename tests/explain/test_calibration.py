"""Fixed steps chosen on examples, and one-file models that take them."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

import onnx_ig
from onnx_ig import Explainer
from onnx_ig.errors import OnnxIgWarning, OptionError
from onnx_ig.quadrature import Calibration
from tests.explain.nets import made_of, perceptron, smooth
from tests.sessions import single_threaded

X = np.random.default_rng(3).standard_normal((30, 12)).astype(np.float32)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the baseline's own score", OnnxIgWarning)
        warnings.filterwarnings("ignore", r"attributions of \d+ of \d+ samples miss", OnnxIgWarning)
        yield


def explainer(model: Any, method: str = "integrated_gradients") -> Explainer:
    return Explainer(model, method, session_options=single_threaded())


@pytest.mark.parametrize(
    ("model", "rules"),
    [
        (perceptron(seed=1, softmax=True), {"riemann_middle", "placed"}),
        (smooth(seed=1), {"gausslegendre"}),
    ],
)
def test_the_examples_are_within_the_tolerance(model: Any, rules: set[str]) -> None:
    tool = explainer(model)
    found = tool.calibrate(X, tolerance=0.05)
    assert found.quadrature in rules
    assert found.met >= 0.95
    result = tool.attribute(X, n_steps=found)
    assert result.n_steps == found.n_steps == len(found.weights)
    assert result.quadrature == found.quadrature
    assert (result.relative_delta <= 0.05).mean() >= 0.95
    np.testing.assert_allclose(result.relative_delta.max(), found.delta)
    assert found.weights.sum() == pytest.approx(1)
    assert f"{found.n_steps} steps" in str(found)


def test_fewer_steps_would_not_do() -> None:
    tool = explainer(perceptron(seed=1))
    found = tool.calibrate(X, tolerance=0.02)
    fewer = tool.attribute(X, n_steps=found.n_steps // 2, quadrature="riemann_middle")
    assert (fewer.relative_delta <= 0.02).mean() < 0.95


def test_new_samples_fare_as_the_examples_did() -> None:
    tool = explainer(perceptron(seed=1))
    found = tool.calibrate(X, tolerance=0.05)
    others = np.random.default_rng(9).standard_normal((200, 12)).astype(np.float32)
    assert (tool.attribute(others, n_steps=found).relative_delta <= 0.05).mean() > 0.8


@pytest.mark.parametrize("loop", ["batched", "looped"])
def test_a_one_file_model_takes_it(loop: str, tmp_path: Path) -> None:
    model = perceptron(seed=1, softmax=True)
    tool = explainer(model)
    found = tool.calibrate(X, tolerance=0.05)
    onnx_ig.rewrite(model, n_steps=found, loop=loop, save_as=tmp_path / "m.onnx")
    served = onnx_ig.runtime.load(tmp_path / "m.onnx")
    wanted = tool.attribute(X, n_steps=found)
    np.testing.assert_allclose(served.run(X)["x"], wanted["x"], rtol=1e-4, atol=1e-6)
    manifest = served.manifest
    assert manifest.n_steps == found.n_steps
    assert manifest.quadrature == found.quadrature
    told = manifest.notes["calibration"]
    assert told == json.loads(json.dumps(found.notes()))
    assert told["relative_delta"] == found.delta
    assert told["samples"] == 30


def test_placed_steps_in_a_one_file_model(tmp_path: Path) -> None:
    ends = np.array([0, 0.5, 0.8, 0.9, 1])
    steps = Calibration("placed", (ends[1:] + ends[:-1]) / 2, np.diff(ends), 0.1, 0.1, 0.1, 1.0, 3)
    model = smooth(seed=1)
    onnx_ig.rewrite(model, n_steps=steps, save_as=tmp_path / "m.onnx")
    got = onnx_ig.runtime.load(tmp_path / "m.onnx").run(X)
    np.testing.assert_allclose(got["x"], explainer(model).attribute(X, n_steps=steps)["x"], rtol=1e-4, atol=1e-6)


def test_options_of_the_attribution_go_along() -> None:
    tool = explainer(perceptron(seed=1))
    found = tool.calibrate(X, tolerance=0.05, baselines=X[0], target=[0, 1])
    result = tool.attribute(X, n_steps=found, baselines=X[0], target=[0, 1])
    assert (result.relative_delta <= 0.05).mean() >= 0.95


def test_references() -> None:
    tool = explainer(perceptron(seed=1), "expected_gradients")
    found = tool.calibrate(X[:8], tolerance=0.05, references=X[10:13])
    assert found.met >= 0.95


def test_a_tolerance_that_is_missed_is_told() -> None:
    with pytest.warns(OnnxIgWarning, match=r"tolerance=0.0001 is met by \d+% of 30 samples with 20 steps"):
        found = explainer(perceptron(seed=1)).calibrate(X, tolerance=1e-4, n_steps=20)
    assert found.n_steps == 20


def test_a_score_that_comes_back_to_where_it_began() -> None:
    """x (x - 1) is 0 at both ends: the delta counts by the range of the path."""
    nodes = [
        helper.make_node("Sub", ["x", "one"], ["d"]),
        helper.make_node("Mul", ["x", "d"], ["m"]),
        helper.make_node("Exp", ["m"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["y"]),
    ]
    weights = {"one": np.float32(1), "w": np.ones((2, 1), np.float32)}
    tool = explainer(made_of(nodes, ["N", 2], ["N", 1], weights))
    found = tool.calibrate(np.ones((4, 2), np.float32), tolerance=0.01)
    assert found.met == 1
    assert found.n_steps < 20
    assert np.isfinite(found.delta)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tolerance": None}, "tolerance=None"),
        ({"tolerance": 0}, "tolerance=0"),
        ({"tolerance": np.nan}, "tolerance=nan"),
        ({"tolerance": "x"}, "tolerance='x'"),
        ({"tolerance": 1e-20}, "float32"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"n_steps": None}, "n_steps=None"),
        ({"n_steps": 2.5}, "n_steps=2.5"),
        ({"quadrature": "riemann_left"}, "quadrature='riemann_left'"),
    ],
)
def test_what_cannot_be_calibrated_to(given: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=re.escape(told)):
        explainer(smooth(seed=1)).calibrate(X, **given)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_few_steps_at_most(most: int) -> None:
    with pytest.warns(OnnxIgWarning, match="is met by 0%"):
        found = explainer(perceptron(seed=1)).calibrate(X[:1], tolerance=1e-3, n_steps=most)
    assert found.n_steps == most
    json.loads(json.dumps(found.notes(), allow_nan=False))


def test_one_example() -> None:
    found = explainer(smooth(seed=1)).calibrate(X[:1], tolerance=0.05)
    assert (found.met, found.samples) == (1, 1)


@pytest.mark.parametrize("method", ["gradient", "gradient_x_input", "deeplift"])
def test_methods_without_steps_take_none(method: str) -> None:
    model = smooth(seed=1)
    found = explainer(model).calibrate(X, tolerance=0.05)
    with pytest.raises(
        OptionError, match=f"a calibration chooses steps along a straight line, and {method} takes none"
    ):
        onnx_ig.rewrite(model, method, n_steps=found)
    with pytest.raises(OptionError, match="a calibration chooses"):
        explainer(model, method).attribute(X, n_steps=found)


@pytest.mark.parametrize("loop", ["batched", "looped"])
def test_a_session_alone_reaches_what_the_manifest_says(loop: str, tmp_path: Path) -> None:
    model = perceptron(seed=1, softmax=True)
    found = explainer(model).calibrate(X, tolerance=0.05)
    onnx_ig.rewrite(model, n_steps=found, loop=loop, save_as=tmp_path / "m.onnx")
    served = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    names = [o.name for o in served.get_outputs()]
    given = dict(zip(names, served.run(None, {"x": X}), strict=True))
    told = json.loads(served.get_modelmeta().custom_metadata_map["onnx_ig.manifest"])["notes"]["calibration"]
    forward = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = np.arange(len(X)), given["attributed_target"][:, 0]
    at, start = forward.run(None, {"x": X})[0][rows], forward.run(None, {"x": 0 * X})[0][rows]
    missed = np.abs(given["x_attribution"].sum(1) - (at - start))
    np.testing.assert_allclose(missed, np.abs(given["convergence_delta"][:, 0]), atol=1e-5)
    shares = missed / np.abs(at - start)
    assert (shares <= 0.05).mean() >= 0.95
    np.testing.assert_allclose(shares.max(), told["relative_delta"], rtol=1e-3, atol=1e-5)


def test_it_does_not_go_with_a_tolerance() -> None:
    tool = explainer(smooth(seed=1))
    found = tool.calibrate(X, tolerance=0.05)
    with pytest.raises(OptionError, match="calibration"):
        tool.attribute(X, n_steps=found, tolerance=0.01)
    with pytest.raises(OptionError, match="tolerance"):
        tool.calibrate(X, tolerance=2)
