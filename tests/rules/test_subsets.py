from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check

rng = np.random.default_rng(0)


@pytest.mark.parametrize(("axis", "largest"), [(None, None), (0, 1), (1, 0), (-2, 0)])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_top_k(axis: int | None, largest: int | None, k: int) -> None:
    attributes = {name: v for name, v in {"axis": axis, "largest": largest}.items() if v is not None}
    given = {"x": rng.standard_normal((3, 4)), "k": np.array([k])}
    check("TopK", given, attributes, outputs=["y", "indices"], constants=["k"])
    check("TopK", given, attributes, outputs=["y", "indices"], shapes=["static", "unranked"])


@pytest.mark.parametrize("constants", [["condition"], []])
@pytest.mark.parametrize(
    "condition", [[True, False, True], [False, True], [True], [False, False, False], [True, True, True], []]
)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(axis: int | None, condition: list[bool], constants: list[str]) -> None:
    given = {"x": rng.standard_normal((3, 4)), "condition": np.array(condition, bool)}
    check("Compress", given, {} if axis is None else {"axis": axis}, constants=constants)


def test_compress_of_nothing() -> None:
    check("Compress", {"x": rng.standard_normal((0, 2)), "condition": np.array([False, True])}, {"axis": 1})


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_unique(axis: int | None, is_sorted: int) -> None:
    attributes = {"sorted": is_sorted} if axis is None else {"sorted": is_sorted, "axis": axis}
    given = {"x": rng.standard_normal((2, 3))}
    check("Unique", given, attributes)
    check("Unique", given, attributes, outputs=["y", "indices", "inverse", "counts"], shapes=["static"])
