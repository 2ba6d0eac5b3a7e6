from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_ig import add_gradients
from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import check, gradients_of, graph_model, node_model

rng = np.random.default_rng(2)
x = rng.standard_normal((2, 3))


def test_identity() -> None:
    check("Identity", {"x": x})


@pytest.mark.parametrize("to", [TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16])
def test_cast_between_floats_keeps_the_type_of_the_operand(to: int) -> None:
    feeds = {"x": x}
    model = node_model("Cast", feeds, {"to": to})
    dtype = {TensorProto.DOUBLE: np.float64, TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}[to]
    got = gradients_of(model, feeds, "y", ["x"], np.full(x.shape, 0.25, dtype))["x"]
    assert got.dtype == np.float64
    assert (got == 0.25).all()


def test_cast_like() -> None:
    feeds = {"x": x, "like": np.zeros(1)}
    check("CastLike", feeds, wrt=["x"])
    assert (gradients_of(node_model("CastLike", feeds), feeds, "y", ["x"], np.ones_like(x))["x"] == 1).all()


@pytest.mark.parametrize("opset", [20, 22])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"ratio": np.array(0.3)},
        {"ratio": np.array(0.3), "training": np.array(False)},
        {"ratio": None, "training": np.array(False)},
        {"ratio": np.array(0.0), "training": np.array(True)},
    ],
)
def test_dropout_at_inference(more: dict, opset: int) -> None:
    check("Dropout", {"x": x, **more}, wrt=["x"], constants=list(more), opset=opset)
    check("Dropout", {"x": x, **more}, wrt=["x"], constants=list(more), opset=opset, outputs=["y", "kept"])


@pytest.mark.parametrize(
    ("stored", "reason"), [(["ratio", "training"], "training_mode is true"), (["ratio"], "computed at run time")]
)
def test_dropout_in_training_is_refused(stored: list[str], reason: str) -> None:
    feeds = {"x": x, "ratio": np.array(0.3), "training": np.array(True)}
    with pytest.raises(UnsupportedOperatorError, match=reason):
        add_gradients(node_model("Dropout", feeds, constants=stored), of="y", wrt="x")


@pytest.mark.parametrize("between", [TensorProto.INT32, TensorProto.FLOAT])
def test_bits_read_as_another_type_are_refused(between: int) -> None:
    nodes = [helper.make_node("BitCast", ["x"], ["b"], to=between), helper.make_node("BitCast", ["b"], ["y"], to=1)]
    opsets = [helper.make_opsetid("", 26)]
    model = graph_model(nodes, {"x": x.astype(np.float32)}, ["y"], opsets=opsets, dtype=np.float32)
    with pytest.raises(UnsupportedOperatorError, match="reads the bits"):
        add_gradients(model)
