from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_ig import OnnxIgWarning, add_gradients
from tests.gradcheck import Runner, gradients_of, graph_model


@pytest.mark.parametrize("op", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
def test_draws_do_not_follow_their_operand(op: str) -> None:
    nodes = [helper.make_node(op, ["x"], ["draw"], name="draw"), helper.make_node("Add", ["x", "draw"], ["y"])]
    feeds = {"x": np.full((2, 3), 0.5, np.float32)}
    got = gradients_of(graph_model(nodes, feeds, ["y"], dtype=np.float32), feeds, "y", ["x"], feeds["x"])["x"]
    assert (got == 0.5).all()


@pytest.mark.parametrize(("op", "attributes"), [("Bernoulli", {}), ("RandomNormalLike", {"seed": 1.0})])
def test_draws_alone_give_zero_and_say_so(op: str, attributes: dict[str, Any]) -> None:
    nodes = [helper.make_node(op, ["x"], ["y"], name="draw", **attributes)]
    feeds = {"x": np.full((2, 3), 0.5, np.float32)}
    with pytest.warns(OnnxIgWarning, match=op):
        augmented = add_gradients(graph_model(nodes, feeds, ["y"], dtype=np.float32), of="y", wrt="x")
    assert (Runner(augmented)({**feeds, "grad_y": feeds["x"]})[1] == 0).all()
