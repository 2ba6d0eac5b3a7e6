"""Attributions to a tolerance: completeness and two rules that agree, for as few gradients as each sample needs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_ig import Explainer
from onnx_ig.errors import OnnxIgWarning, OptionError
from onnx_ig.runtime import load_result
from onnx_ig.runtime.result import Attribution
from tests.explain.nets import convolutional, made_of, perceptron, smooth
from tests.sessions import single_threaded

X = np.random.default_rng(3).standard_normal((24, 12)).astype(np.float32)
NETS = {
    "kinks": perceptron(seed=1),
    "kinks, probabilities": perceptron(seed=1, softmax=True),
    "smooth": smooth(seed=1),
    "smooth, probabilities": smooth(seed=1, softmax=True),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the baseline's own score", OnnxIgWarning)
        warnings.filterwarnings("ignore", r"attributions of \d+ of \d+ samples miss", OnnxIgWarning)
        yield


def explainer(model: Any, method: str = "integrated_gradients", **given: Any) -> Explainer:
    return Explainer(model, method, session_options=single_threaded(), **given)


def errors(result: Attribution, reference: Attribution) -> np.ndarray:
    difference = (result["x"].astype(np.float64) - reference["x"]).reshape(len(result["x"]), -1)
    return np.asarray(np.linalg.norm(difference, axis=1))


def floor(tool: Explainer, result: Attribution, tolerance: float) -> np.ndarray:
    """The delta that is allowed, as documented."""
    path = tool.path_scores(result.feeds, result.target, np.linspace(0, 1, 200))
    change = abs(result.prediction - result.baseline_prediction)
    return np.maximum(tolerance * change, 0.05 * tolerance * np.ptp(path, axis=1) + 1e-5)


@pytest.mark.parametrize("name", NETS)
def test_the_tolerance_is_met_for_fewer_gradients_than_fifty(name: str) -> None:
    tool = explainer(NETS[name])
    result = tool.attribute(X, tolerance=0.01)
    assert (abs(result.convergence_delta) <= floor(tool, result, 0.01)).all()
    assert np.median(result.gradient_counts) < 30
    assert result.gradients == result.gradient_counts.sum()
    assert result.forwards == result.forward_counts.sum() == 9 * len(X)
    assert result.tolerance == 0.01
    assert result.n_steps is None


@pytest.mark.parametrize("name", NETS)
def test_the_estimate_covers_the_error_of_nine_in_ten(name: str) -> None:
    tool = explainer(NETS[name])
    reference = tool.attribute(X, n_steps=4096, quadrature="riemann_middle")
    for given in ({"tolerance": 0.01}, {"tolerance": 0.1}, {"n_steps": 20}, {"n_steps": 51}):
        result = tool.attribute(X, **given)
        assert (result.error_estimate >= errors(result, reference)).mean() >= 0.9


def test_a_smaller_tolerance_takes_more_and_errs_less() -> None:
    tool = explainer(NETS["kinks, probabilities"])
    reference = tool.attribute(X, n_steps=4096, quadrature="riemann_middle")
    loose, tight = (tool.attribute(X, tolerance=t) for t in (0.03, 0.003))
    assert tight.gradients > 1.5 * loose.gradients
    assert np.median(errors(tight, reference)) < 0.5 * np.median(errors(loose, reference))


def test_placed_gradients_beat_uniform_ones() -> None:
    """On probabilities, at the number of gradients that the tolerance took."""
    tool = explainer(NETS["kinks, probabilities"])
    reference = tool.attribute(X, n_steps=4096, quadrature="riemann_middle")
    result = tool.attribute(X, tolerance=0.01)
    uniform = tool.attribute(X, n_steps=int(np.ceil(result.gradient_counts.mean())))
    assert np.median(errors(result, reference)) < np.median(errors(uniform, reference))


@pytest.mark.parametrize("name", NETS)
def test_a_sample_does_not_depend_on_the_others_or_on_the_split(name: str) -> None:
    tool = explainer(NETS[name])
    together = tool.attribute(X, tolerance=0.02)
    scale = np.abs(together["x"]).max()
    for given in ({"internal_batch_size": 5}, {"memory_budget": "40MB"}):
        again = tool.attribute(X, tolerance=0.02, **given)  # type: ignore[arg-type]
        np.testing.assert_allclose(again["x"], together["x"], atol=1e-6 * scale)
        np.testing.assert_array_equal(again.gradient_counts, together.gradient_counts)
    alone = tool.attribute(X[4:5], tolerance=0.02)
    np.testing.assert_allclose(alone["x"], together["x"][4:5], atol=1e-6 * scale)


def test_a_linear_model_is_exact() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = np.arange(24, dtype=np.float32).reshape(12, 2)
    result = explainer(made_of(nodes, ["N", 12], ["N", 2], {"w": weights})).attribute(X, target=1, tolerance=0.001)
    np.testing.assert_allclose(result["x"], X * weights[:, 1], rtol=1e-5, atol=1e-6)
    assert (result.gradient_counts == 7).all()
    assert (result.error_estimate < 1e-3 * np.linalg.norm(result["x"], axis=1)).all()


def test_attributions_that_are_all_zero() -> None:
    """exp(x (x - 1)) comes back to where it began, and by symmetry no feature contributes: what is left is rounding."""
    nodes = [
        helper.make_node("Sub", ["x", "one"], ["d"]),
        helper.make_node("Mul", ["x", "d"], ["m"]),
        helper.make_node("Exp", ["m"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["y"]),
    ]
    model = made_of(nodes, ["N", 3], ["N", 1], {"one": np.float32(1), "w": np.float32([[1], [2], [-0.5]])})
    result = explainer(model).attribute(np.ones((2, 3), np.float32), tolerance=0.01)
    np.testing.assert_allclose(result["x"], 0, atol=1e-4)
    assert result.gradient_counts.max() < 30


def test_an_input_that_is_its_baseline() -> None:
    with pytest.warns(OnnxIgWarning, match="equals its baseline"):
        result = explainer(NETS["kinks"]).attribute(X, baselines=X, tolerance=0.01)
    assert not result["x"].any()
    assert not result.error_estimate.any()


def test_several_targets() -> None:
    tool = explainer(NETS["kinks"])
    both = tool.attribute(X[:4], target=[0, 2], tolerance=0.02)
    assert both.error_estimate.shape == both.convergence_delta.shape == (4, 2)
    single = [tool.attribute(X[:4], target=t, tolerance=0.02) for t in (0, 2)]
    for k, one in enumerate(single):
        np.testing.assert_allclose(both["x"][:, k], one["x"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(both.error_estimate[:, k], one.error_estimate, rtol=1e-4)
    np.testing.assert_array_equal(both.gradient_counts, sum(one.gradient_counts for one in single))


def test_references() -> None:
    tool = explainer(NETS["kinks"], "expected_gradients")
    references = X[10:13]
    result = tool.attribute(X[:4], references=references, tolerance=0.01)
    exact = tool.attribute(X[:4], references=references, n_steps=2000, quadrature="riemann_middle")
    assert (errors(result, exact) <= result.error_estimate).all()
    assert np.median(result.gradient_counts) < 3 * 30


def test_baselines_and_held_positions() -> None:
    tool = explainer(NETS["kinks"])
    held = {"x": np.arange(12) < 3}
    result = tool.attribute(X, baselines=X[0], held=held, tolerance=0.01)
    exact = tool.attribute(X, baselines=X[0], held=held, n_steps=4096, quadrature="riemann_middle")
    assert not result["x"][:, :3].any()
    assert (errors(result, exact) <= result.error_estimate).mean() >= 0.9


def test_a_fixed_batch_takes_steps_of_one_sample_together() -> None:
    model = perceptron(seed=1)
    wanted = explainer(model).attribute(X[:3], tolerance=0.01)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    got = explainer(model).attribute(X[:3], tolerance=0.01)
    np.testing.assert_allclose(got["x"], wanted["x"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got.gradient_counts, wanted.gradient_counts)


def test_a_model_without_a_batch() -> None:
    nodes = [helper.make_node("Softplus", ["x"], ["s"]), helper.make_node("ReduceSum", ["s"], ["y"], keepdims=0)]
    result = explainer(made_of(nodes, [4], [], {})).attribute(np.float32([1, -2, 3, 0.5]), tolerance=1e-4)
    assert abs(result.convergence_delta[0]) < 1e-4 * abs(result.prediction[0] - result.baseline_prediction[0])
    assert result["x"].shape == (4,)


def test_tokens_are_one_feature_each() -> None:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["e"]),
        helper.make_node("Relu", ["e"], ["r"]),
        helper.make_node("ReduceSum", ["r", "axes"], ["s"], keepdims=0),
        helper.make_node("Gemm", ["s", "w"], ["y"]),
    ]
    weights = {
        "table": rng.standard_normal((9, 6)).astype(np.float32),
        "axes": np.int64([1]),
        "w": rng.standard_normal((6, 2)).astype(np.float32),
    }
    model = made_of(nodes, ["N", "T"], ["N", 2], weights)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    ids = rng.integers(0, 9, (5, 7))
    baseline = np.full(7, 2)
    tool = explainer(model)
    result = tool.attribute(ids, baselines=baseline, tolerance=0.01)
    exact = tool.attribute(ids, baselines=baseline, n_steps=2000, quadrature="riemann_middle")
    assert result.full["x"].shape == (5, 7, 6)
    assert (errors(result, exact) <= result.error_estimate).mean() >= 0.8
    assert (result.relative_delta < 0.01).all()


def test_half_precision() -> None:
    wide = perceptron(seed=1)
    narrow = onnx.ModelProto()
    narrow.CopyFrom(wide)
    for weight in narrow.graph.initializer:
        weight.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight).astype(np.float16), weight.name)
        )
    for value in (*narrow.graph.input, *narrow.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    result = explainer(narrow).attribute(X[:6].astype(np.float16), tolerance=0.05)
    assert result["x"].dtype == np.float16
    wanted = explainer(wide).attribute(X[:6], n_steps=500)
    np.testing.assert_allclose(result["x"], wanted["x"], atol=0.1 * np.abs(wanted["x"]).max())


def test_curves_of_an_adaptive_answer() -> None:
    tool = explainer(NETS["kinks"])
    result = tool.attribute(X[:5], tolerance=0.01)
    alphas, scores, slopes = (result.curves[k] for k in ("alphas", "scores", "slopes"))
    for i, count in enumerate(result.gradient_counts):
        assert np.isfinite(alphas[i, :count]).all()
        assert np.isnan(alphas[i, count:]).all()
        at = np.concatenate([[0], alphas[i, :count], [1]])
        total = np.concatenate([slopes[i, :1], slopes[i, :count], slopes[i, count - 1 : count]])
        trapezoids = ((total[1:] + total[:-1]) / 2 * np.diff(at)).sum()
        np.testing.assert_allclose(trapezoids, result["x"][i].sum(), rtol=1e-4, atol=1e-4)
        wanted = tool.path_scores(X[i : i + 1], result.target[i : i + 1], alphas[i, :count])
        np.testing.assert_allclose(scores[i, :count], wanted[0], rtol=1e-4, atol=1e-4)


def test_a_cap_that_is_too_low_is_told() -> None:
    tool = explainer(NETS["kinks"])
    with pytest.warns(OnnxIgWarning, match=r"tolerance=0.0001 is not met for \d+ of 24 samples within 20 gradients"):
        result = tool.attribute(X, tolerance=1e-4, n_steps=20)
    assert result.gradient_counts.max() == 20


def test_other_notes_are_no_reason_of_a_missed_tolerance() -> None:
    """Rows that are tied together are noted too; the remedy is more gradients."""
    model = perceptron(seed=1)
    nodes = [
        helper.make_node("ReduceMean", ["x", "zero"], ["top"], keepdims=1),
        helper.make_node("Add", ["x", "top"], ["z"]),
    ]
    for node in model.graph.node:
        node.input[:] = ["z" if name == "x" else name for name in node.input]
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int64([0]), "zero"))
    with pytest.warns(OnnxIgWarning, match=r"estimated error [\d.e-]+\): n_steps=40 or a larger tolerance may do$"):
        result = explainer(model).attribute(X[:3], tolerance=1e-5, n_steps=20)
    assert result.notes


def test_values_that_do_not_fit_end_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = explainer(NETS["kinks"])
    with pytest.warns(OnnxIgWarning, match="fill their share of memory_budget"):
        result = tool.attribute(X, tolerance=1e-4, memory_budget=8 * 100 * 48)
    assert result.gradient_counts.max() == 100


def test_samples_enter_as_memory_allows() -> None:
    tool = explainer(convolutional())
    x = np.random.default_rng(0).standard_normal((6, 3, 8, 8)).astype(np.float32)
    wanted = tool.attribute(x, tolerance=0.02)
    little = tool.attribute(x, tolerance=0.02, memory_budget=8 * 130 * 3 * 64 * 4)  # of two samples' values
    np.testing.assert_allclose(little["x"], wanted["x"], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(little.gradient_counts, wanted.gradient_counts)


def test_progress_counts_samples() -> None:
    seen: list[tuple[int, int]] = []
    explainer(NETS["kinks"]).attribute(X, tolerance=0.02, progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (24, 24)


def test_what_was_spent_is_saved(tmp_path: Path) -> None:
    result = explainer(NETS["kinks"]).attribute(X, tolerance=0.02)
    again = load_result(result.save(tmp_path / "a.npz"))
    np.testing.assert_array_equal(again.error_estimate, result.error_estimate)
    np.testing.assert_array_equal(again.gradient_counts, result.gradient_counts)
    assert again.tolerance == 0.02


@pytest.mark.parametrize("steps", [9, 10, 15, 21])
@pytest.mark.parametrize("name", NETS)
def test_the_cap_is_never_passed(name: str, steps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnnxIgWarning)
        result = explainer(NETS[name]).attribute(X, tolerance=1e-4, n_steps=steps)
    assert result.gradient_counts.max() <= steps


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_too_few_for_two_rules(steps: int) -> None:
    with pytest.raises(OptionError, match=f"n_steps={steps}: with a tolerance at least 9"):
        explainer(NETS["kinks"]).attribute(X, tolerance=0.01, n_steps=steps)


def test_a_tolerance_finer_than_the_model_rounds() -> None:
    with pytest.raises(OptionError, match=r"tolerance=1e-20: the model computes in float32, which rounds by 1.2e-07"):
        explainer(NETS["kinks"]).attribute(X, tolerance=1e-20)
    wide = made_of([helper.make_node("Tanh", ["x"], ["y"])], ["N", 3], ["N", 3], {})
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    x = np.random.default_rng(0).standard_normal((4, 3))
    result = explainer(wide).attribute(x, target=0, tolerance=1e-9)
    assert (result.relative_delta < 1e-9).all()
    with pytest.raises(OptionError, match="float64"):
        explainer(wide).attribute(x, target=0, tolerance=1e-17)


@pytest.mark.parametrize("tolerance", [0, 1, -0.1, "0.01", True, np.nan])
def test_tolerances_that_are_none(tolerance: Any) -> None:
    with pytest.raises(OptionError, match="tolerance"):
        explainer(NETS["kinks"]).attribute(X, tolerance=tolerance)


@pytest.mark.parametrize(
    ("method", "options", "told"),
    [
        ("gradient", {}, "takes no steps"),
        ("interior_gradients", {}, "takes no steps"),
        ("integrated_gradients", {"quadrature": "riemann_left"}, "chosen by the model"),
        ("integrated_gradients", {"gradients": True}, "different steps"),
        ("integrated_gradients", {"n_steps": 0}, "n_steps"),
    ],
)
def test_what_does_not_go_with_a_tolerance(method: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        explainer(NETS["kinks"], method).attribute(X, tolerance=0.01, **options)


def test_fixed_steps_of_every_rule_still_sum_up() -> None:
    tool = explainer(NETS["smooth"])
    for quadrature in ("gausslegendre", "riemann_left", "riemann_right", "riemann_middle", "riemann_trapezoid"):
        for steps in (2, 3, 50):
            result = tool.attribute(X, n_steps=steps, quadrature=quadrature)
            assert np.isfinite(result.error_estimate).all()
            assert (result.gradient_counts == steps).all()
    assert np.isnan(tool.attribute(X, n_steps=1).error_estimate).all()


def test_curves_are_in_the_order_of_the_steps() -> None:
    result = explainer(NETS["smooth"], "interior_gradients").attribute(X, n_steps=7, gradients=True)
    plain = explainer(NETS["smooth"])
    wanted = plain.path_scores(X, result.target, result.curves["alphas"][0])
    np.testing.assert_allclose(result.curves["scores"], wanted, rtol=1e-5, atol=1e-5)
    slopes = (result.curves["gradients:x"] * X[:, None]).sum(axis=2)
    np.testing.assert_allclose(result.curves["slopes"], slopes, rtol=1e-4, atol=1e-5)
    norms = np.linalg.norm(result.curves["gradients:x"].reshape(24, 7, -1), axis=2)
    np.testing.assert_allclose(result.curves["norms:x"], norms, rtol=1e-4)
