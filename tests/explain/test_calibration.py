"""Fixed steps chosen on examples, and one-file models that take them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import onnx_ig
from onnx_ig import Explainer
from onnx_ig.errors import OnnxIgWarning, OptionError
from onnx_ig.quadrature import Calibration
from tests.explain.nets import perceptron, smooth

X = np.random.default_rng(3).standard_normal((30, 12)).astype(np.float32)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the baseline's own score", OnnxIgWarning)
        warnings.filterwarnings("ignore", r"attributions of \d+ of \d+ samples miss", OnnxIgWarning)
        yield


def explainer(model: Any, method: str = "integrated_gradients") -> Explainer:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return Explainer(model, method, session_options=options)


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


def test_it_does_not_go_with_a_tolerance() -> None:
    tool = explainer(smooth(seed=1))
    found = tool.calibrate(X, tolerance=0.05)
    with pytest.raises(OptionError, match="calibration"):
        tool.attribute(X, n_steps=found, tolerance=0.01)
    with pytest.raises(OptionError, match="tolerance"):
        tool.calibrate(X, tolerance=2)
