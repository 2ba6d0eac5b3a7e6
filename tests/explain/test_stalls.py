"""Completeness that no steps bring about is seen early; what would still converge goes on."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_ig import Explainer
from onnx_ig.errors import OnnxIgWarning
from onnx_ig.explain.stalls import Stall
from onnx_ig.refinement import Array, Bisected, Need, Nested
from onnx_ig.runtime.result import Attribution
from tests.explain.nets import made_of, perceptron
from tests.sessions import single_threaded

Curve = Callable[[Array], Array]

pytestmark = pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning")

X = np.random.default_rng(0).uniform(0.5, 1.5, (12, 5))


def followed(score: Curve, slope: Curve, most: int = 1000, tolerance: float = 0.01) -> tuple[int, bool, float]:
    """(gradients, whether it was ended, delta relative to the change) of one path, as `refine` goes along it."""
    before, after = score(np.array([0.0, 1.0]))
    rule = Bisected(np.linspace(0, 1, 5), before, after)
    stall = Stall()
    while True:
        rule.put(slope(rule.pending)[:, None], score(rule.pending))
        if len(rule.pending):
            continue
        missed = float(rule.total().sum()) - (after - before)
        relative = abs(missed / (after - before))
        if relative <= tolerance or rule.count >= most:
            return rule.count, False, relative
        if stall.seen(rule, missed):
            return rule.count, True, relative
        rule.refine(Need(completeness=True, agreement=False), most - rule.count)


def test_a_staircase_whose_gradient_goes_straight_through() -> None:
    """Roundings to 1/64 of a slope that is half of it, as a clip range that is too narrow makes it."""
    count, ended, relative = followed(lambda a: np.round(64 * a + 3 * np.sin(40 * a)) / 64, lambda a: 0.8 + 0 * a)
    assert ended
    assert count < 150
    assert relative > 0.1


@pytest.mark.parametrize("at", [0.3, 0.5001, 0.87])
def test_a_jump_is_told_once_its_gap_is_as_narrow_as_numbers_are(at: float) -> None:
    count, ended, _ = followed(lambda a: a + (a > at), lambda a: 1 + 0 * a)
    assert ended
    assert 50 < count < 200


@pytest.mark.parametrize("width", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("at", [0.3, 0.5001, 0.87])
def test_a_ridge_that_is_not_yet_found_goes_on(width: float, at: float) -> None:
    """Until then the delta stays where it is, and all slopes agree."""
    count, ended, _ = followed(
        lambda a: a + 1 / (1 + np.exp(-np.clip((a - at) / width, -500, 500))),
        lambda a: 1 + 1 / (4 * width * np.cosh(np.clip((a - at) / width / 2, -300, 300)) ** 2),
    )
    assert not ended
    assert count < 200


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_score_that_changes_beside_a_zero_baseline_goes_on(scale: float) -> None:
    """As a normalisation does, at the scale of its epsilon."""
    _, ended, relative = followed(lambda a: a / 4 + a / (a + scale), lambda a: 1 / 4 + scale / (a + scale) ** 2)
    assert not ended
    assert relative <= 0.01


@pytest.mark.parametrize("waves", [3, 10, 25])
@pytest.mark.parametrize("height", [0.05, 0.3])
def test_waves_that_are_not_yet_followed_go_on(waves: int, height: float) -> None:
    k = 2 * np.pi * (waves + 0.3)
    _, ended, relative = followed(
        lambda a: a + height * np.abs(np.sin(k * a)),
        lambda a: 1 + height * k * np.cos(k * a) * np.sign(np.sin(k * a)),
    )
    assert not ended
    assert relative <= 0.01


def test_nested_rules_and_few_levels_tell_nothing() -> None:
    rule = Nested(np.array([0, 1.0]), 0.0, 2.0)
    rule.put(np.ones((7, 1)), rule.pending)
    stall = Stall()
    assert not any(stall.seen(rule, -1.0) for _ in range(9))
    jump = Bisected(np.linspace(0, 1, 5), 0.0, 2.0)
    jump.put(np.ones((4, 1)), jump.pending)
    assert not any(stall.seen(jump, -1.0) for _ in range(9))


def floored(steps: float, kinks: bool) -> onnx.ModelProto:
    """y = sum(Floor(steps * x) / steps + s(x)): half of what the score does is not in its gradient."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["z"]),
        helper.make_node("Floor", ["z"], ["f"]),
        helper.make_node("Div", ["f", "k"], ["g"]),
        helper.make_node("Abs" if kinks else "Tanh", ["x"], ["s"]),
        helper.make_node("Add", ["g", "s"], ["u"]),
        helper.make_node("ReduceSum", ["u", "axes"], ["y"], keepdims=1),
    ]
    return made_of(nodes, ["N", 5], ["N", 1], {"k": steps, "axes": np.int64([1])}, TensorProto.DOUBLE)


def quantised() -> onnx.ModelProto:
    """A perceptron whose activations are rounded to 16 steps and cut where they are largest."""
    model = perceptron(features=5, seed=4)
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type == "Relu":
            name = node.output[0]
            node.output[0] = f"{name}:wide"
            nodes.append(helper.make_node("QuantizeLinear", [f"{name}:wide", "scale", "zero"], [f"{name}:q"]))
            nodes.append(helper.make_node("DequantizeLinear", [f"{name}:q", "scale", "zero"], [name]))
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    return made_of(nodes, ["N", 5], ["N", 4], {**weights, "scale": np.float32(0.3), "zero": np.uint8(0)})


def attributed(model: onnx.ModelProto, x: Array, **options: object) -> tuple[Attribution, str]:
    """The answer, and what is said of its tolerance."""
    tool = Explainer(model, session_options=single_threaded())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", OnnxIgWarning)
        result = tool.attribute(x, tolerance=0.01, target=0, **options)  # type: ignore[arg-type]
    return result, "".join(str(w.message) for w in told if "tolerance=" in str(w.message))


@pytest.mark.parametrize("kinks", [False, True])
@pytest.mark.parametrize("steps", [2.0, 20.0])
def test_jumps_beside_the_path_end_early_with_the_reason(steps: float, kinks: bool) -> None:
    result, told = attributed(floored(steps, kinks), X)
    assert result.gradient_counts.max() < 400
    assert "is not met for 12 of 12 samples (worst" in told
    assert "12 of them ended early" in told
    assert "the gradient is not that of the function along the path" in told
    assert "n_steps" not in told


def test_roundings_end_early_with_the_reason() -> None:
    """And no sooner than gradients up to the cap would have met the tolerance."""
    x = np.random.default_rng(5).standard_normal((30, 5)).astype(np.float32)
    result, told = attributed(quantised(), x)
    met = result.relative_delta <= 0.01
    assert 0 < met.sum() < 30
    assert np.median(result.gradient_counts[~met]) < 150
    assert "more steps do not help" in told
    slow, _ = attributed(quantised(), x, n_steps=4000)
    assert met.sum() >= (slow.relative_delta <= 0.01).sum()


def test_a_cap_and_an_early_end_are_told_apart() -> None:
    result, told = attributed(floored(2.0, True), X, n_steps=20)
    assert result.gradient_counts.max() == 20
    assert "within 20 gradients each" in told
    assert "n_steps=40 or a larger tolerance may do" in told
    assert "ended early" not in told
