"""What users of other libraries complain about, and what is right: each stands for its kind."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import onnx_ig
from onnx_ig import NoGradientPathError, OnnxIgWarning, OptionError
from onnx_ig.runtime.memory import meter
from tests.cases.models import attribute, model

rng = np.random.default_rng(31)
quiet = pytest.mark.filterwarnings("ignore::onnx_ig.OnnxIgWarning")
TWO_TABLES = (
    '<ir_version: 8, opset_import: ["": 17]> g (int64[N,T] ids, float[N,T] attention_mask) => (float[N,2] y) '
    "<float[5,2] a = {{0.3, -1.0, 0.5, 0.2, -0.7, 0.9, 1.1, 0.4, -0.2, 0.6}}, "
    "float[5,2] b = {{1.0, 0.1, -0.4, 0.8, 0.3, -0.6, 0.2, 0.7, -0.9, 0.5}}, int64[1] k = {{1}}> "
    "{{ p = Gather(a, ids) q = Gather(b, ids) s = {sum} t = Tanh(s) m = Unsqueeze(attention_mask, k2) u = Mul(t, m) "
    "y = ReduceSum <keepdims = 0> (u, k) }}"
)


def embedding(total: str) -> onnx.ModelProto:
    return parser.parse_model(
        TWO_TABLES.format(sum=total).replace("int64[1] k = {1}", "int64[1] k = {1}, int64[1] k2 = {2}")
    )


@quiet
def test_two_tables_of_one_input_and_a_mask_that_is_held() -> None:
    """Ids are never interpolated, the mask follows the steps, and both tables count."""
    ids = rng.integers(0, 5, (3, 4))
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], np.float32)
    explainer = onnx_ig.Explainer(embedding("Add(p, q)"))
    a = explainer.attribute({"ids": ids, "attention_mask": mask}, target=0)
    assert a["ids"].shape == (3, 4)
    assert a.full["ids"].shape == (3, 4, 4)
    assert not a["ids"][mask == 0].any()
    np.testing.assert_allclose(a["ids"].sum(1), a.prediction, rtol=1e-4)
    held = np.zeros((3, 4), bool)
    held[:, 0] = True
    b = explainer.attribute({"ids": ids, "attention_mask": mask}, target=0, held={"ids": held})
    assert not b["ids"][:, 0].any()
    np.testing.assert_allclose(b.convergence_delta, 0, atol=1e-5)


@quiet
def test_two_routes_to_an_embedding_agree() -> None:
    ids = rng.integers(0, 5, (3, 4))
    feeds = {"ids": ids, "attention_mask": np.ones((3, 4), np.float32)}
    network = embedding("Add(p, q)")
    by_ids = onnx_ig.Explainer(network).attribute(feeds, target=1).full["ids"]
    inside = onnx_ig.Explainer(network, inputs=["p", "q"]).attribute(feeds, target=1)
    np.testing.assert_allclose(by_ids, np.concatenate([inside["p"], inside["q"]], -1), atol=1e-6)


def test_bytes_are_refused_with_the_values_behind_them() -> None:
    picture = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (uint8[N,4] x) => (float[N,4] y) { f = Cast <to = 1> (x) y = Tanh(f) }'
    )
    x = np.array([[1, 2, 3, 250]], np.uint8)
    a = onnx_ig.Explainer(picture, inputs="f").attribute(x, target=0, n_steps=200)
    np.testing.assert_allclose(a["f"], [[np.tanh(1), 0, 0, 0]], atol=1e-4)


@pytest.mark.parametrize("body", ["a = Floor(x) y = Mul(a, a)", "a = Sign(x) y = Identity(a)"])
def test_zero_everywhere_is_an_error_that_names_the_cause(body: str) -> None:
    network = model(body, outputs=2)
    with pytest.raises(NoGradientPathError, match=r"Floor|Sign") as error:
        onnx_ig.Explainer(network)
    assert error.value.zeros
    with pytest.warns(OnnxIgWarning, match="is zero"):
        onnx_ig.add_gradients(network)


def test_an_input_equal_to_its_baseline_is_told() -> None:
    with pytest.warns(OnnxIgWarning, match="equals its baseline"):
        attribute(model("y = Mul(x1, x2)"), [[0, 0]])


def test_a_baseline_that_scores_is_told() -> None:
    with pytest.warns(OnnxIgWarning, match="not near zero"):
        attribute(model("a = Add(x1, five) y = Add(a, x2)"), [[1, 0]])


def test_missed_completeness_is_told_with_the_remedy() -> None:
    with pytest.warns(OnnxIgWarning, match="n_steps=4"):
        attribute(model("a = Mul(x1, x1) b = Mul(a, a) y = Mul(b, a)"), [[2, 0]], n_steps=2, quadrature="riemann_left")


@pytest.mark.parametrize(
    ("target", "message"), [(7, "out of range"), ((0, 0), "one index"), (np.array([1, 2]), r"\[1, 1\]|samples")]
)
def test_targets_are_checked_before_anything_runs(target: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        attribute(model("y = Softmax(x)", outputs=2), [[1, 2]], target=target)


def test_detections_after_suppression_are_refused_by_name() -> None:
    suppressed = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,5,4] boxes, float[1,1,5] scores) => (float[K,3] y) '
        "{ kept = NonMaxSuppression(boxes, scores) y = Cast <to = 1> (kept) }"
    )
    with pytest.raises(onnx_ig.OnnxIgError, match="NonMaxSuppression"):
        onnx_ig.Explainer(suppressed)


@quiet
def test_a_model_that_ties_rows_gives_each_its_own_answer() -> None:
    tied = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,3] x) => (float[N,3] y) <int64[1] k = {0}> '
        "{ m = ReduceMean <axes = [0], keepdims = 1> (x) a = Sub(x, m) b = Add(a, x) y = Tanh(b) }"
    )
    x = rng.standard_normal((4, 3)).astype(np.float32)
    explainer = onnx_ig.Explainer(tied)
    together = explainer.attribute(x, target=0)
    assert together.notes
    for i in range(4):
        np.testing.assert_allclose(explainer.attribute(x[i : i + 1], target=0)["x"][0], together["x"][i], rtol=1e-5)


@quiet
def test_counts_and_progress() -> None:
    seen: list[tuple[int, int]] = []
    a = attribute(model("y = Mul(x1, x2)"), rng.standard_normal((4, 2)), n_steps=10, progress=lambda *c: seen.append(c))
    assert a.gradients == 40
    assert a.forwards >= 8
    assert seen[-1] == (40, 40)


@quiet
def test_repeated_calls_leave_memory_flat() -> None:
    """By what is resident now: the most there ever was would hide what grows below it."""
    explainer = onnx_ig.Explainer(model("a = Tanh(x1) y = Mul(a, x2)"))
    x, used = rng.standard_normal((2000, 2)), meter()
    assert used is not None
    for n in range(10):
        explainer.attribute(x[: 2000 - 37 * n], target=0, n_steps=20)
    gc.collect()
    before = used()
    for n in range(50):
        explainer.attribute(x[: 2000 - 37 * (n % 10)], target=0, n_steps=15 + n % 6)
    gc.collect()
    assert used() - before < 10e6


def test_a_baseline_without_a_score_is_told() -> None:
    """x / |x| is 0 / 0 at zero: the attributions are numbers, and their sum has nothing to be compared with."""
    text = "g (float[N,3] x) => (float[N,3] y) { s = Mul(x, x) t = Sqrt(s) y = Div(x, t) }"
    explainer = onnx_ig.Explainer(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}'))
    x = np.ones((2, 3), np.float32)
    with pytest.warns(OnnxIgWarning, match="own score is not finite for 2 of 2 samples.*another baseline="):
        a = explainer.attribute(x)
    assert np.isfinite(a["x"]).all()
    assert np.isnan(a.convergence_delta).all()


@pytest.mark.parametrize("method", ["integrated_gradients", "gradient", "gradient_x_input"])
def test_zeros_of_a_saturated_output_come_with_their_reason(method: str) -> None:
    """A sample at its baseline and one whose score moves are no reason to warn; one whose score stays as it is is."""
    saturated = model("y = Relu(x)", features=1)
    with pytest.warns(OnnxIgWarning, match=r"attributions of 1 of 2 samples are all zero.*output="):
        result = attribute(saturated, [[-3.0], [0.5]], method)
    assert result["x"][0] == 0
    at_baseline = attribute(model("y = Identity(x)", features=1), [[0.0], [1.0]], method)
    np.testing.assert_array_equal(at_baseline["x"] != 0, [[method == "gradient"], [True]])
