"""Targets: what they may be, and what they are refused for before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_ig
from onnx_ig.errors import OptionError
from onnx_ig.runtime.session import Session
from tests.explain.nets import smooth
from tests.explain.test_arguments import X, explainer, parsed

pytestmark = pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning")

SQUARES = "m (float[N,12] x) => (float[N] y) <int64[1] a = {1}> { h = Mul(x, x)  y = ReduceSum<keepdims=0>(h, a) }"
MAPS = "m (float[N,2,3] x) => (float[N,2,3] y) { y = Mul(x, x) }"
OPEN = "m (float[N,T] x) => (float[N,T] y) { y = Mul(x, x) }"
GRID = "m (float[3,4] x) => (float[3,4] y) { h = Transpose(x)  z = MatMul(x, h)  y = MatMul(z, x) }"
"""Rows that influence each other: no batch axis."""


def squares() -> onnx.ModelProto:
    return parsed(SQUARES)


@pytest.mark.parametrize(("target", "same"), [(-1, 3), ((-4,), 0), (np.array([-1, 0, 1]), np.array([3, 0, 1]))])
def test_negative_indices_count_from_the_end(target: Any, same: Any) -> None:
    found, expected = (explainer().attribute(X, n_steps=4, target=t) for t in (target, same))
    np.testing.assert_array_equal(found["x"], expected["x"])
    np.testing.assert_array_equal(found.target, expected.target)


@pytest.mark.parametrize(
    "target", [0, (), (0,), "predicted", None, np.zeros(3, int), np.ones(3), np.ones(1), np.float32(1)]
)
def test_an_output_of_one_value_a_sample(target: Any) -> None:
    found = explainer(squares()).attribute(X, n_steps=2, target=target)
    np.testing.assert_allclose(found["x"], X**2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("target", [0, (), (0,), None])
def test_a_served_output_of_one_value_a_sample(target: Any) -> None:
    served = onnx_ig.runtime.load(onnx_ig.rewrite(squares(), n_steps=2, target=target).SerializeToString())
    np.testing.assert_allclose(served.run(X)["x"], X**2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4)])
def test_a_cotangent_of_one_row_stands_for_all(shape: tuple[int, ...]) -> None:
    row = np.array([1, -2, 0.5, 0], np.float32)
    found = explainer().attribute(X, n_steps=4, target=np.broadcast_to(row, shape))
    each = [explainer().attribute(X, n_steps=4, target=k)["x"] for k in range(4)]
    np.testing.assert_allclose(found["x"], sum(w * a for w, a in zip(row, each, strict=True)), rtol=1e-3, atol=1e-5)


BAD = {
    "99": (smooth, 99, r"99 is out of range; .* shape \[3, 4\], .* axis 1 goes from -4 to 3"),
    "-5": (smooth, -5, r"-5 is out of range; .* shape \[3, 4\]"),
    "list": (smooth, [0, 99], r"99 is out of range; .* shape \[3, 4\]"),
    "one bad row": (smooth, np.array([0, 1, 4]), r"4 is out of range"),
    "rows": (smooth, np.array([0, 1]), r"shape \[3, 1\], not \[2\]"),
    "empty": (smooth, (), r"\[3, 4\]; give one index"),
    "rank": (smooth, (1, 2), r"\[3, 4\]; give one index"),
    "cotangent": (smooth, np.ones((2, 4)), r"\[3, 4\] or, for all samples alike, \[4\], not \[2, 4\]"),
    "NaN": (smooth, np.full((3, 4), np.nan), "NaN"),
    "wide": (smooth, 2**70, "64 bits"),
    "scalar": (squares, 1, r"\[3\]; give 0 or \(\)"),
    "scalar -1": (squares, -1, r"\[3\]; give 0 or \(\)"),
    "scalar rows": (squares, np.array([0, 1, 0]), r"\[3\]; give 0 or \(\)"),
    "maps": (lambda: parsed(MAPS), 1, r"\[3, 2, 3\]; give a tuple of 2 indices"),
    "maps, axis": (lambda: parsed(MAPS), (1, 3), r"3 is out of range; .*axis 2 goes from -3 to 2"),
    "open": (lambda: parsed(OPEN), (0, 0), r"\[3, \?\]; give one index"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_target_is_refused_before_anything_runs(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, target, message = BAD[case]
    made = explainer(make())

    def run(*_: Any) -> Any:
        raise AssertionError("a model ran")

    monkeypatch.setattr(Session, "run", run)
    x = X[:, :6].reshape(3, 2, 3) if case.startswith("maps") else X
    with pytest.raises(OptionError, match=message):
        made.attribute(x, target=target)


def test_what_the_file_does_not_tell_is_checked_when_the_output_is_there() -> None:
    with pytest.raises(OptionError, match=r"12 is out of range; .* shape \[3, 12\]"):
        explainer(parsed(OPEN)).attribute(X, target=12)


@pytest.mark.parametrize(
    ("model", "target", "message"),
    [
        (smooth, 4, r"4 is out of range; .*'y' has the shape \[N,4\].* from -4 to 3"),
        (smooth, (0, 0), "give one index"),
        (squares, -1, r"give 0 or \(\)"),
        (lambda: parsed(MAPS), 0, "give a tuple of 2 indices"),
        (lambda: parsed(OPEN), -1, "counts from the end of axis 1"),
    ],
)
def test_bad_targets_of_one_file_models(model: Any, target: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        onnx_ig.rewrite(model(), target=target)


def test_several_targets_of_a_model_without_a_batch_lead() -> None:
    """There are no samples for them to stand behind: [K, ...], each as it is alone."""
    x = X[:, :4]
    model = parsed(GRID)
    targets = [(0, 1), (2, 3)]
    found = explainer(model).attribute(x, n_steps=8, target=targets)
    assert found["x"].shape == (2, 3, 4)
    assert found.prediction.shape == found.convergence_delta.shape == (1, 2)
    for k, one in enumerate(targets):
        alone = explainer(model).attribute(x, n_steps=8, target=one)
        np.testing.assert_array_equal(found["x"][k], alone["x"])
        np.testing.assert_array_equal(found.prediction[:, k], alone.prediction)


def test_several_targets_of_scalars() -> None:
    model = parsed(
        "m (float a, float b) => (float[2] y) <int64[1] z = {0}> {"
        " p = Mul(a, b)  q = Add(a, b)  r = Unsqueeze(p, z)  s = Unsqueeze(q, z)  y = Concat<axis=0>(r, s) }"
    )
    found = explainer(model).attribute({"a": np.float32(2), "b": np.float32(3)}, target=[0, 1])
    np.testing.assert_allclose(found["a"], [3, 2], rtol=1e-5)


def test_several_targets_stand_behind_samples_on_another_axis() -> None:
    model = parsed("m (float[T,N,2] x) => (float[T,N,2] y) { y = Mul(x, x) }")
    x = X[:, :8].reshape(3, 4, 2)
    found = explainer(model, batch_axes={"x": 1}).attribute(x, n_steps=2, target=[(0, 1), (2, 0)])
    assert found["x"].shape == (3, 4, 2, 2)
    np.testing.assert_allclose(found["x"][0, :, 0, 1], x[0, :, 1] ** 2, rtol=1e-4)
    assert np.count_nonzero(found["x"]) == 8


@pytest.mark.parametrize("target", [0, 1])
def test_pictures_of_one_of_several_targets_without_a_batch(target: int) -> None:
    pytest.importorskip("matplotlib")
    found = explainer(parsed(GRID)).attribute(X[:, :4], n_steps=8, target=[(0, 1), (2, 3)])
    figure = found.plot(kind="heat_map", target=target)
    drawn = figure.axes[0].images[0].get_array()
    assert np.shape(drawn)[:2] == (3, 4)
