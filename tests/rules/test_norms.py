from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check, check_model, gradients_of, node_model

rng = np.random.default_rng(8)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_lp_normalization(p: int, axis: int) -> None:
    check("LpNormalization", {"x": rng.standard_normal((2, 3, 4))}, {"p": p, "axis": axis})
    check("LpNormalization", {"x": rng.standard_normal((2, 1, 1))}, {"p": p, "axis": axis}, opset=22, shapes=["batch"])
    check("LpNormalization", {"x": np.zeros((2, 0, 1))}, {"p": p}, shapes=["static"])


@pytest.mark.parametrize("p", [1, 2])
def test_zero_vectors_are_not_normalised(p: int) -> None:
    feeds = {"x": np.array([[0.0, 0.0], [3.0, 4.0]])}
    got = gradients_of(node_model("LpNormalization", feeds, {"p": p}), feeds, "y", ["x"], np.array([[1.0, 2], [1, 0]]))
    n = 7.0 if p == 1 else 5.0
    other = [1 - 3 / 7, -3 / 7] if p == 1 else [1 - 0.36, -0.48]
    np.testing.assert_allclose(got["x"], [[0, 0], [other[0] / n, other[1] / n]], rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("shape", [(2, 4, 3, 3), (1, 1, 2, 2)])
def test_local_response_normalization(size: int, shape: tuple[int, ...]) -> None:
    attributes = {"size": size, "alpha": 0.7, "beta": 0.6, "bias": 1.3}
    feeds = {"x": rng.standard_normal(shape)}
    if size % 2:
        check("LRN", feeds, attributes)
    else:  # ONNX Runtime has no even sizes: float64 and the reference only
        check_model({np.float64: node_model("LRN", feeds, attributes)}, feeds, of="y")


def test_local_response_normalization_with_its_defaults() -> None:
    check("LRN", {"x": 30 * rng.standard_normal((2, 6, 2, 2))}, {"size": 5}, shapes=["batch"])


@pytest.mark.parametrize("axes", [None, [1], [0, 2], [-1, 1]])
def test_mean_variance_normalization(axes: list[int] | None) -> None:
    check("MeanVarianceNormalization", {"x": rng.standard_normal((2, 3, 2, 4))}, {} if axes is None else {"axes": axes})


def test_mean_variance_normalization_of_a_constant() -> None:
    feeds = {"x": np.full((1, 1, 2, 2), 3.0, np.float32)}
    model = node_model("MeanVarianceNormalization", feeds, dtype=np.float32)
    got = gradients_of(model, feeds, "y", ["x"], np.array([[[[1, 1], [1, 1]]]], np.float32))["x"]
    assert (got == 0).all()
