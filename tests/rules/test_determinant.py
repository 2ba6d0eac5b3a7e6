from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (2, 3, 3), (2, 1, 4, 4), (2, 6, 6), (0, 3, 3)]
)
def test_det(shape: tuple[int, ...]) -> None:
    check("Det", {"x": rng.standard_normal(shape)})


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("shapes", ["static", "unranked"])
def test_singular_matrices(size: int, shapes: str) -> None:
    """A matrix of rank M - 1 has cofactors and no inverse."""
    x = rng.standard_normal((size, size))
    x[-1] = x[0]
    check("Det", {"x": x}, shapes=[shapes])
    got = gradients_of(node_model("Det", {"x": x}, shapes=shapes), {"x": x}, "y", ["x"], np.array(1.0))["x"]
    assert np.abs(got).max() > 1e-3
