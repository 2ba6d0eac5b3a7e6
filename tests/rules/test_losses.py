from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import check, gradients_of, node_model

rng = np.random.default_rng(9)
OPS = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


def inputs_of(shape: tuple[int, ...], weighted: bool, target_type: Any = np.int64) -> dict[str, np.ndarray]:
    target = rng.integers(0, shape[1], (shape[0], *shape[2:])).astype(target_type)
    weight = {"w": rng.uniform(0.5, 2, shape[1])} if weighted else {}
    return {"x": rng.standard_normal(shape), "t": target, **weight}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", None])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2, 2), (1, 1)])
def test_loss(op: str, reduction: str | None, weighted: bool, shape: tuple[int, ...]) -> None:
    check(op, inputs_of(shape, weighted), {} if reduction is None else {"reduction": reduction})


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("ignored", [1, -1, -100])
def test_entries_that_are_ignored(op: str, reduction: str, weighted: bool, ignored: int) -> None:
    inputs = inputs_of((5, 3, 2), weighted)
    inputs["t"][0], inputs["t"][1, 0], inputs["t"][2:, 1] = ignored, ignored, 0
    check(op, inputs, {"reduction": reduction, "ignore_index": ignored}, shapes=["static", "unranked"])


@pytest.mark.parametrize("op", OPS)
def test_narrow_targets(op: str) -> None:
    check(op, inputs_of((4, 3), True, np.int32), constants=["t", "w"], shapes=["batch"])


@pytest.mark.parametrize("op", OPS)
def test_everything_ignored(op: str) -> None:
    feeds = {"x": np.ones((2, 3)), "t": np.zeros(2, np.int64)}
    model = node_model(op, feeds, {"ignore_index": 0})
    assert (gradients_of(model, feeds, "y", ["x"], np.ones(()))["x"] == 0).all()


@pytest.mark.parametrize("of", ["y", "p"])
def test_log_probabilities_of_cross_entropy(of: str) -> None:
    inputs = inputs_of((4, 3, 2), True)
    wrt = ["x", "w"] if of == "y" else ["x"]
    check("SoftmaxCrossEntropyLoss", inputs, {"reduction": "sum"}, outputs=["y", "p"], of=of, wrt=wrt)


def test_classes_that_are_masked() -> None:
    feeds = {"x": np.array([[0.0, -np.inf, 1.0]]), "t": np.array([2]), "w": np.ones(3)}
    got = gradients_of(node_model("SoftmaxCrossEntropyLoss", feeds), feeds, "y", ["x", "w"], np.ones(()))
    p = 1 / (1 + np.e)
    np.testing.assert_allclose(got["x"], [[p, 0, -p]], rtol=1e-12)
    assert np.isfinite(got["w"]).all()
