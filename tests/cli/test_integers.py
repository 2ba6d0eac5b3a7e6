"""Bytes and quantised models on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from onnx_ig.runtime.result import load_result

Run = Callable[..., Result]

pytestmark = pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning")


def save(path: str, nodes: list[onnx.NodeProto], given: onnx.ValueInfoProto, stored: dict[str, np.ndarray]) -> None:
    graph = helper.make_graph(
        nodes, "g", [given], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])],
        [numpy_helper.from_array(a, n) for n, a in stored.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


@pytest.fixture
def bytes_model(folder: Path) -> str:
    """picture uint8 [N, 3, 4, 4] -> the sum of its pixels."""
    nodes = [
        helper.make_node("Cast", ["picture"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f", "axes"], ["y"], keepdims=0),
    ]
    given = helper.make_tensor_value_info("picture", TensorProto.UINT8, ["N", 3, 4, 4])
    save("bytes.onnx", nodes, given, {"axes": np.array([1, 2, 3])})
    return "bytes.onnx"


@pytest.fixture
def rounded_model(folder: Path) -> str:
    """x [N, 3] through QuantizeLinear and DequantizeLinear -> the sum."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]),
        helper.make_node("ReduceSum", ["f", "axes"], ["y"], keepdims=0),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    save("rounded.onnx", nodes, given, {"axes": np.array([1]), "s": np.float32(0.1), "z": np.uint8(0)})
    return "rounded.onnx"


def test_a_photograph_as_bytes(bytes_model: str, run: Run) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    Image.fromarray(pixels).save("p.png")
    record = json.loads(run("attribute", bytes_model, "p.png", "--no-plot", "--json").stdout)
    assert record["results"][0]["prediction"] == pytest.approx(pixels.sum())
    run("attribute", bytes_model, "p.png", "--no-plot", "--save", "a.npz", "--baseline", "white")
    found = load_result("a.npz")["picture"][0]
    np.testing.assert_allclose(found, pixels.transpose(2, 0, 1) - 255.0, rtol=1e-5)


def test_what_is_done_with_roundings(rounded_model: str, run: Run) -> None:
    assert "note: straight-through estimate" in run("inspect", rounded_model).stdout
    assert run("check", rounded_model).stdout.endswith("ok\n")
    for command in (["attribute", rounded_model, "x=[[1, 2, 3]]", "--no-plot"], ["check", rounded_model]):
        message = run(*command, "--quantized", "refuse", status=1).stderr
        assert "quantized='straight-through'" in message
    for command in ("rewrite", "add-gradients"):
        assert "rounds" in run(command, rounded_model, "-o", "o.onnx", "--quantized", "refuse", status=1).stderr
        assert "wrote o.onnx" in run(command, rounded_model, "-o", "o.onnx").stdout
