from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check

rng = np.random.default_rng(0)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (2, 3)), ((2, 3), (3,)), ((3, 1), (1, 4)), ((2, 1, 3), (4, 1)), ((), (2, 2)), ((0, 3), (3,))]
)
def test_arithmetic(op: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check(op, {"a": rng.standard_normal(a), "b": rng.standard_normal(b)})


def test_exp() -> None:
    check("Exp", {"x": rng.standard_normal((2, 3))})
