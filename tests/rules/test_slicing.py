from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check

rng = np.random.default_rng(0)
FAR = 2**62

CASES = [
    # starts, ends, axes, steps
    ([1], [3], [0], None),
    ([1, 2], [3, 4], [0, 1], [1, 1]),
    ([1, 2], [3, 4], None, None),
    ([-3], [-1], [-1], None),
    ([-100], [100], [1], [1]),
    ([2], [2], [0], [1]),
    ([3], [1], [0], [1]),
    ([100], [200], [0], [1]),
    ([0], [FAR], [1], [2]),
    ([1], [FAR], [1], [3]),
    ([-1], [-FAR], [1], [-1]),
    ([-1], [-FAR], [1], [-2]),
    ([100], [0], [1], [-3]),
    ([-2, 1], [-FAR, FAR], [0, 1], [-1, 2]),
    ([0, 1], [3, 3], [1, 0], [2, 1]),
    ([1], [1], [1], [-1]),
    ([4], [0], [0], [-7]),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), CASES)
def test_slice(starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None) -> None:
    operands = {
        "x": rng.standard_normal((4, 5)),
        "starts": np.array(starts),
        "ends": np.array(ends),
        "axes": None if axes is None else np.array(axes),
        "steps": None if steps is None else np.array(steps),
    }
    given = [name for name, v in operands.items() if name != "x" and v is not None]
    check("Slice", operands, constants=given)
    computed = ["static", "unranked"]
    check("Slice", operands, constants=[name for name in given if name == "axes"], shapes=computed)
    check("Slice", operands, constants=[name for name in given if name != "starts"], shapes=["batch"])
    check("Slice", operands, shapes=computed)


def test_slice_with_small_integers() -> None:
    operands = {"x": rng.standard_normal((4, 5)), **{
        name: np.array(v, np.int32) for name, v in {"starts": [1], "ends": [5], "axes": [1], "steps": [2]}.items()
    }}  # fmt: skip
    check("Slice", operands)
    check("Slice", operands, constants=["axes"])


@pytest.mark.parametrize("step", [1, 2, -1])
def test_slice_of_nothing(step: int) -> None:
    x = rng.standard_normal((0, 3))
    for axis in (0, 1):
        operands = {"x": x, "starts": np.array([0]), "ends": np.array([2]), "axes": np.array([axis]),
                    "steps": np.array([step])}  # fmt: skip
        check("Slice", operands, constants=["starts", "ends", "axes", "steps"])
