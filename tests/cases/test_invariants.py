"""What the methods claim: completeness, symmetry, and independence of how the work is split."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import onnx_ig
from onnx_ig.quadrature import QUADRATURES, nodes_and_weights
from tests.cases.models import attribute, model, served

pytestmark = pytest.mark.filterwarnings("ignore::onnx_ig.OnnxIgWarning")

rng = np.random.default_rng(21)
SMOOTH = model("a = Mul(x1, x2) b = Tanh(a) c = Sigmoid(x3) d = Mul(b, c) y = Add(d, x1)", features=3)
LINEAR = model("a = Mul(x1, five) b = Mul(x3, two) c = Sub(a, b) y = Add(c, x2)", features=3)
SYMMETRIC = ("riemann_middle", "riemann_trapezoid", "gausslegendre")
X, START = rng.standard_normal((6, 3)), rng.standard_normal((6, 3))


@pytest.mark.parametrize("method", ["integrated_gradients", "interior_gradients", "deeplift"])
def test_completeness(method: str) -> None:
    a = attribute(SMOOTH, X, method, baselines=START)
    np.testing.assert_allclose(a["x"].sum(1), a.prediction - a.baseline_prediction, atol=1e-9)
    np.testing.assert_allclose(a.convergence_delta, 0, atol=1e-9)


def test_methods_without_completeness_say_so() -> None:
    for method in ("gradient", "gradient_x_input", "guided_backprop"):
        assert np.isnan(attribute(SMOOTH, X, method).convergence_delta).all()


@pytest.mark.parametrize("method", ["integrated_gradients", "deeplift"])
def test_nothing_moves_nothing_is_attributed(method: str) -> None:
    assert not attribute(SMOOTH, X, method, baselines=X)["x"].any()


def test_a_dummy_input_gets_nothing() -> None:
    dummy = model("a = Tanh(x1) y = Mul(a, x3)", features=3)
    assert not attribute(dummy, X)["x"][:, 1].any()


def test_symmetric_inputs_get_the_same() -> None:
    network = model("a = Add(x1, x2) b = Mul(x1, x2) c = Tanh(a) y = Add(c, b)")
    got = attribute(network, [[0.7, 0.7], [-2, -2]])["x"]
    np.testing.assert_allclose(got[:, 0], got[:, 1], rtol=1e-12)


def test_linearity() -> None:
    f, g = "a = Tanh(x1) u = Mul(a, x2)", "b = Exp(x2) v = Mul(b, x1)"
    parts = [
        attribute(model(f"{f} y = Identity(u)"), X[:, :2])["x"],
        attribute(model(f"{g} y = Identity(v)"), X[:, :2])["x"],
    ]
    both = attribute(model(f"{f} {g} w = Mul(u, two) z = Mul(v, five) y = Add(w, z)"), X[:, :2])["x"]
    np.testing.assert_allclose(both, 2 * parts[0] + 5 * parts[1], rtol=1e-10)


@pytest.mark.parametrize("quadrature", SYMMETRIC)
def test_antisymmetry(quadrature: str) -> None:
    forth = attribute(SMOOTH, X, baselines=START, quadrature=quadrature, n_steps=7)["x"]
    back = attribute(SMOOTH, START, baselines=X, quadrature=quadrature, n_steps=7)["x"]
    np.testing.assert_allclose(forth, -back, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("quadrature", QUADRATURES)
@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_a_linear_model_is_exact_at_any_number_of_steps(quadrature: str, n: int) -> None:
    if quadrature == "riemann_trapezoid" and n < 2:
        with pytest.raises(onnx_ig.OptionError, match="at least 2"):
            nodes_and_weights(quadrature, n)
        return
    assert nodes_and_weights(quadrature, n)[1].sum() == pytest.approx(1, abs=1e-12)
    got = attribute(LINEAR, X, baselines=START, quadrature=quadrature, n_steps=n)["x"]
    np.testing.assert_allclose(got, (X - START) * [5, 1, -2], rtol=1e-10)


@pytest.mark.parametrize("size", [1, 2, 7, 50, 1000])
def test_the_split_does_not_matter(size: int) -> None:
    whole = attribute(SMOOTH, X, baselines=START, internal_batch_size=300)
    split = attribute(SMOOTH, X, baselines=START, internal_batch_size=size)
    np.testing.assert_allclose(split["x"], whole["x"], rtol=1e-9)
    np.testing.assert_allclose(split.convergence_delta, whole.convergence_delta, atol=1e-12)


def test_other_rows_and_repetition_do_not_matter() -> None:
    explainer = onnx_ig.Explainer(SMOOTH)
    whole = explainer.attribute(X, START, target=0)["x"]
    for i in range(len(X)):
        alone = explainer.attribute(X[i : i + 1], START[i : i + 1], target=0)["x"]
        np.testing.assert_allclose(alone[0], whole[i], rtol=1e-9)
    np.testing.assert_array_equal(explainer.attribute(X, START, target=0)["x"], whole)


def test_float64_keeps_its_accuracy() -> None:
    """exp(x) from 0: (e^x - 1) to 1e-14, which alphas in float32 would spoil."""
    network = model("y = Exp(x1)", features=1)
    x = np.array([[0.3], [1.7], [-2.0]])
    np.testing.assert_allclose(attribute(network, x)["x"], np.expm1(x), rtol=1e-13)
    np.testing.assert_allclose(served(network, x), np.expm1(x), rtol=1e-13)


def test_a_path_of_points_and_alphas() -> None:
    path = START[:1] + np.linspace(0, 1, 41)[:, None] * (X[:1] - START[:1])
    line = attribute(SMOOTH, X[:1], baselines=START[:1], n_steps=40, quadrature="riemann_middle")
    points = attribute(SMOOTH, X[:1], "path_integrated_gradients", path=path)
    np.testing.assert_allclose(points["x"], line["x"], rtol=1e-9)
    alphas = attribute(SMOOTH, X[:1], "path_integrated_gradients", path=np.linspace(0, 1, 41))
    plain = attribute(SMOOTH, X[:1], n_steps=40, quadrature="riemann_middle")
    np.testing.assert_allclose(alphas["x"], plain["x"], rtol=1e-9)
    corner = np.stack([np.zeros(3), [X[0, 0], 0, 0], [X[0, 0], X[0, 1], 0], X[0]])
    steps = np.concatenate([np.linspace(a, b, 200, endpoint=False) for a, b in itertools.pairwise(corner)] + [X[:1]])
    bent = attribute(SMOOTH, X[:1], "path_integrated_gradients", path=steps)
    np.testing.assert_allclose(bent.convergence_delta, 0, atol=1e-4)
    assert np.abs(bent["x"] - plain["x"]).max() > 1e-3
    with pytest.raises(onnx_ig.OptionError, match="end at the input"):
        attribute(SMOOTH, X[:1], "path_integrated_gradients", path=path[:-1])


def test_interior_gradients_follow_the_score() -> None:
    a = attribute(SMOOTH, X, "interior_gradients", n_steps=9, quadrature="riemann_right", gradients=True)
    assert a.curves["scores"].shape == a.curves["norms:x"].shape == (6, 9)
    np.testing.assert_allclose(a.curves["scores"][:, -1], a.prediction, rtol=1e-12)
    full = a.curves["gradients:x"]
    assert full.shape == (6, 9, 3)
    np.testing.assert_allclose(np.linalg.norm(full, axis=2), a.curves["norms:x"], rtol=1e-12)
    np.testing.assert_allclose(full.mean(1) * X, a["x"], rtol=1e-9)


def test_several_targets_are_each_alone() -> None:
    network: Any = model("y = Softmax(x)", features=3, outputs=3)
    several = attribute(network, X, target=[0, 2, "predicted"])
    assert several["x"].shape == (6, 3, 3)
    for k, target in enumerate((0, 2, "predicted")):
        alone = attribute(network, X, target=target)
        np.testing.assert_allclose(several["x"][:, k], alone["x"], rtol=1e-12)
        np.testing.assert_allclose(several.convergence_delta[:, k], alone.convergence_delta, atol=1e-15)
    each = attribute(network, X, target=np.array([0, 1, 2, 0, 1, 2]))
    np.testing.assert_allclose(each["x"][1], attribute(network, X[1:2], target=1)["x"][0], rtol=1e-9)
    weighted = attribute(network, X, target=np.tile([0.5, 0.0, -2.0], (6, 1)))
    parts = [attribute(network, X, target=t)["x"] for t in (0, 2)]
    np.testing.assert_allclose(weighted["x"], 0.5 * parts[0] - 2 * parts[1], rtol=1e-9, atol=1e-12)
