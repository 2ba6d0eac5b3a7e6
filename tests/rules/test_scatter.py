from __future__ import annotations

import numpy as np
import pytest

from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(0)
REDUCTIONS = ["none", "add", "mul", "max", "min"]


def operands(data: tuple[int, ...], indices: object, updates: tuple[int, ...]) -> dict[str, np.ndarray]:
    given = np.array(indices, np.int64)
    return {"data": rng.standard_normal(data), "indices": given, "updates": rng.standard_normal(updates)}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("axis", "data", "indices"),
    [
        (None, (3, 2), [[0, 1], [-1, 0]]),
        (1, (3, 4), [[0, -1, 2]]),
        (-1, (3, 4), [[1], [0], [3]]),
        (0, (1,), [0]),
        (0, (3, 2), np.zeros((0, 2))),
    ],
)
def test_scatter_elements(axis: int | None, data: tuple[int, ...], indices: object, reduction: str) -> None:
    attributes = {"reduction": reduction} if axis is None else {"reduction": reduction, "axis": axis}
    check("ScatterElements", operands(data, indices, np.shape(indices)), attributes)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("data", "indices", "updates"),
    [
        ((3, 2), [[0], [2]], (2, 2)),
        ((3, 2), [[0, 1], [2, 0]], (2,)),
        ((3, 2), [[[1, 1]]], (1, 1)),
        ((3, 2), [1], (2,)),
        ((3, 2), np.zeros((0, 1)), (0, 2)),
    ],
)
def test_scatter_nd(data: tuple[int, ...], indices: object, updates: tuple[int, ...], reduction: str) -> None:
    check("ScatterND", operands(data, indices, updates), {"reduction": reduction})


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_duplicates_accumulate(reduction: str) -> None:
    check("ScatterElements", operands((3,), [1, 1, -2, 0], (4,)), {"reduction": reduction})
    check("ScatterND", operands((3, 2), [[1], [1], [0]], (3, 2)), {"reduction": reduction})


@pytest.mark.parametrize("wrt", [["data"], ["updates"]])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_one_operand_only(reduction: str, wrt: list[str]) -> None:
    check("ScatterElements", operands((3, 2), [[0, 1]], (1, 2)), {"reduction": reduction}, wrt=wrt)


@pytest.mark.parametrize("zeros", [1, 2])
def test_products_with_zeros(zeros: int) -> None:
    """Products are smooth at zero; a division by the update would not be."""
    given = operands((2,), [0, 0, 0, 1], (4,))
    given["updates"][:zeros] = 0.0
    check("ScatterElements", given, {"reduction": "mul"})
    given["data"][0] = 0.0
    check("ScatterElements", given, {"reduction": "mul"})


def test_ties_share_evenly() -> None:
    given = {"data": np.array([1.0, 2.0]), "indices": np.array([0, 0, 1]), "updates": np.array([1.0, 1.0, 1.0])}
    model = node_model("ScatterElements", given, {"reduction": "max"})
    got = gradients_of(model, given, "y", ["data", "updates"], np.array([3.0, 5.0]))
    np.testing.assert_allclose(got["data"], [1.0, 5.0])
    np.testing.assert_allclose(got["updates"], [1.0, 1.0, 0.0])


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(("axis", "past", "update"), [(None, (2, 3, 4, 2), (2, 3, 2, 2)), (1, (2, 4, 3), (2, 2, 3)),
                                                      (-1, (2, 4), (2, 1)), (1, (1, 4), (1, 4))])  # fmt: skip
def test_tensor_scatter(axis: int | None, past: tuple[int, ...], update: tuple[int, ...], mode: str) -> None:
    attributes = {"mode": mode} if axis is None else {"mode": mode, "axis": axis}
    given = {"past": rng.standard_normal(past), "update": rng.standard_normal(update)}
    check("TensorScatter", given, attributes, opset=24)
    if update != past:
        starts = np.array([3, 1] if mode == "circular" else [1, 0])
        check("TensorScatter", {**given, "starts": starts}, attributes, opset=24)
