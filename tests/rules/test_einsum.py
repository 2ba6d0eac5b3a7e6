from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ji", [(2, 3)]),
        ("ij->i", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i->i", [(3,)]),
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("i,i->", [(3,), (3,)]),
        ("i,j->ij", [(3,), (2,)]),
        ("ij,j->i", [(2, 3), (3,)]),
        ("ij,kl->ik", [(2, 3), (4, 5)]),
        ("ii->i", [(3, 3)]),
        ("ii->", [(3, 3)]),
        ("iij->ij", [(3, 3, 2)]),
        ("iji,jk->ik", [(3, 2, 3), (2, 4)]),
        ("iii->i", [(2, 2, 2)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk", [(6, 2, 3, 4), (6, 1, 4, 5)]),
        ("i...,j->ij...", [(2, 3, 4), (5,)]),
        ("i...j,j...->i...", [(2, 3, 4), (4, 1)]),
        ("...->...", [(2, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("...i->i...", [(2, 4, 3)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij,jk->ik", [(2, 3), (1, 4)]),
        (" i j , j k -> i k ", [(2, 3), (3, 4)]),
        ("ij,jk->ik", [(0, 3), (3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    check("Einsum", {f"x{i}": rng.standard_normal(s) for i, s in enumerate(shapes)}, {"equation": equation})


def test_einsum_by_a_scalar() -> None:
    check("Einsum", {"a": rng.standard_normal(()), "b": rng.standard_normal((2, 3))}, {"equation": ",ij->ji"})


def test_labels_of_length_one_broadcast() -> None:
    """Shape inference takes the length of the first operand, so only unknown lengths can be told."""
    inputs = {"a": rng.standard_normal((1, 3)), "b": rng.standard_normal((2, 1))}
    check("Einsum", inputs, {"equation": "ij,ij->ij"}, shapes=["dynamic", "unranked"])
