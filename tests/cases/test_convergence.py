"""Convergence: known values to a tolerance, doublings down to rounding, and why a delta is no error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx_ig
from tests.cases.models import attribute, model

pytestmark = pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")

F = "a = Relu(x1) b = Relu(x2) c = Sub(a, one) d = Sub(c, b) y = Relu(d)"
KNOWN: list[tuple[str, int, list[float], dict[str, Any], list[float]]] = [
    (F, 2, [3, 1], {}, [1.5, -0.5]),
    ("a = Sub(one, x1) b = Relu(a) y = Sub(one, b)", 1, [2], {}, [1]),
    ("y = Min(x1, x2)", 2, [1, 2], {}, [1, 0]),
    ("a = Mul(x1, x1) b = Mul(x2, x2) c = Mul(b, x2) y = Mul(a, c)", 2, [2, 3], {}, [43.2, 64.8]),
    ("a = Mul(x1, x2) y = Mul(a, x3)", 3, [2, 3, 5], {}, [10, 10, 10]),
    ("a = Sqrt(x1) b = Sqrt(x2) y = Add(a, b)", 2, [4, 9], {}, [2, 3]),
    ("a = Add(x1, x2) y = Sigmoid(a)", 2, [1, 3], {}, [0.1205, 0.36151]),
    (
        "a = Mul(x1, five) b = Mul(x2, x2) c = Sin(x3) d = Add(a, b) y = Add(d, c)", 3, [1, 2, 3],
        {"baselines": np.array([0.5, 1, 1])}, [2.5, 3, -0.70035],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "features", "x", "options", "wanted"), KNOWN)
@pytest.mark.parametrize("tolerance", [0.01, 0.001])
def test_known_values_to_a_tolerance(
    body: str, features: int, x: list[float], options: dict[str, Any], wanted: list[float], tolerance: float
) -> None:
    got = attribute(model(body, features), [x], tolerance=tolerance, **options)
    assert abs(got.convergence_delta[0]) <= tolerance * abs(got.prediction[0] - got.baseline_prediction[0]) + 1e-12
    error = np.linalg.norm(got["x"][0] - wanted)
    assert error <= got.error_estimate[0] + 1e-4  # type: ignore[index]
    assert error <= 3 * tolerance * np.linalg.norm(wanted) + 1e-4
    assert got.gradients < 100


def test_a_path_that_is_infinite_at_its_start_takes_what_it_needs() -> None:
    """Fifty uniform steps miss 0.8 % of a square root."""
    got = attribute(model("y = Sqrt(x1)", features=1), [[4]], tolerance=1e-3)
    np.testing.assert_allclose(got["x"], [[2]], rtol=1.1e-3)


def test_doublings_on_a_smooth_function_go_down_to_rounding() -> None:
    network = model("a = Add(x1, x2) b = Sigmoid(a) c = Exp(x1) y = Mul(b, c)", kind="double")
    found = [attribute(network, [[1, 2], [2, -3]], n_steps=n) for n in (2, 4, 8, 16, 32)]
    deltas = np.array([np.abs(r.convergence_delta) for r in found])
    estimates = np.array([r.error_estimate for r in found])
    assert ((deltas[1:] < 0.2 * deltas[:-1]) | (deltas[1:] < 1e-12)).all()
    assert (estimates[1:] < 0.7 * estimates[:-1]).all()
    assert (deltas[-1] < 1e-12).all()


def test_the_delta_understates_and_the_estimate_does_not() -> None:
    """Two kinks whose errors cancel in the sum: the delta is 0, the attributions are off."""
    network = model("a = Sub(x1, one) b = Relu(a) c = Sub(x2, one) d = Relu(c) y = Sub(b, d)")
    got = attribute(network, [[3, 3]], n_steps=10)
    assert abs(got.convergence_delta[0]) < 1e-12
    error = np.linalg.norm(got["x"][0] - [2, -2])
    assert error > 0.01
    assert got.error_estimate[0] >= error  # type: ignore[index]
    finer = attribute(network, [[3, 3]], tolerance=0.001)
    assert np.linalg.norm(finer["x"][0] - [2, -2]) < 0.2 * error


def test_deltas_and_estimates_are_of_each_sample() -> None:
    network = model(F)
    rows = [[3, 1], [1, 3], [-10, -5], [5, 2]]
    together = attribute(network, rows, n_steps=20)
    assert together.convergence_delta.shape == together.error_estimate.shape == (4,)  # type: ignore[union-attr]
    for i, row in enumerate(rows):
        alone = attribute(network, [row], n_steps=20)
        np.testing.assert_allclose(alone.convergence_delta, together.convergence_delta[i : i + 1], atol=1e-12)
        np.testing.assert_allclose(alone.error_estimate, together.error_estimate[i : i + 1], atol=1e-12)  # type: ignore[index]


def test_what_was_evaluated_is_counted() -> None:
    session_runs: list[int] = []
    got = onnx_ig.Explainer(model(F)).attribute(
        np.array([[3.0, 1.0], [5.0, 2.0]]),
        target=0,
        tolerance=0.01,
        progress=lambda done, of: session_runs.append(done),
    )
    assert got.gradients == got.gradient_counts.sum()  # type: ignore[union-attr]
    assert got.forwards == got.forward_counts.sum()  # type: ignore[union-attr]
    assert session_runs[-1] == 2
