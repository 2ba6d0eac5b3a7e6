from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check

rng = np.random.default_rng(0)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(
    ("shape", "size"), [((2, 12, 2, 3), 2), ((1, 9, 1, 1), 3), ((2, 3, 2, 2), 1), ((0, 8, 2, 3), 2)]
)
def test_depth_to_space(shape: tuple[int, ...], size: int, mode: str) -> None:
    check("DepthToSpace", {"x": rng.standard_normal(shape)}, {"blocksize": size, "mode": mode})


def test_depth_to_space_orders_by_depth_first_unless_told() -> None:
    check("DepthToSpace", {"x": rng.standard_normal((1, 8, 2, 2))}, {"blocksize": 2})


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 4, 6), 2), ((1, 1, 3, 3), 3), ((2, 3, 2, 2), 1), ((0, 2, 4, 2), 2)]
)
def test_space_to_depth(shape: tuple[int, ...], size: int) -> None:
    check("SpaceToDepth", {"x": rng.standard_normal(shape)}, {"blocksize": size})
