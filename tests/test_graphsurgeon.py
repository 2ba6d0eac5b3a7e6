from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from onnx import parser

import onnx_ig
import onnx_ig.graphsurgeon
from onnx_ig import OptionError
from tests.gradcheck import Runner

TEXT = '<ir_version: 8, opset_import: ["": 13]> g (float[N,2] x, float[N,2] z) => (float[N,2] y) { a = Mul(x, x) y = Mul(a, z) }'


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gradients_in_place() -> None:
    graph = gs.import_onnx(parser.parse_model(TEXT))
    x = graph.inputs[0]
    (dx,) = graph.gradients(of="y", wrt=x)
    assert dx.name == "grad_x"
    assert [t.name for t in graph.inputs] == ["x", "z", "grad_y"]
    assert [t.name for t in graph.outputs] == ["y", "grad_x"]
    a = np.array([[1, 2]], np.float32)
    y, got = Runner(gs.export_onnx(graph))({"x": a, "z": 3 * a, "grad_y": np.ones_like(a)})
    assert y.tolist() == [[3, 24]]
    assert got.tolist() == [[6, 24]]


def test_graph_is_a_model_everywhere() -> None:
    model = onnx_ig.rewrite(gs.import_onnx(parser.parse_model(TEXT)), "gradient")
    assert [o.name for o in model.graph.output][:2] == ["y", "x_attribution"]


def test_a_failure_leaves_the_graph_alone() -> None:
    graph = gs.import_onnx(parser.parse_model(TEXT))
    before = [n.op for n in graph.nodes]
    with pytest.raises(OptionError, match="no value 'nothing'"):
        graph.gradients(of="nothing")
    assert [n.op for n in graph.nodes] == before
