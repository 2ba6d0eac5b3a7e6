"""Ids that are turned or cut before they are looked up are tokens all the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnx_ig
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.gradcheck import Runner

rng = np.random.default_rng(4)
TABLE = rng.standard_normal((9, 3)).astype(np.float32)
IDS = rng.integers(0, 9, (2, 5))
MOVES = {
    "turned": ("m = Transpose<perm = [1, 0]>(ids) e = Gather(table, m) r = Transpose<perm = [1, 0, 2]>(e)", IDS),
    "cut": ("m = Slice(ids, two, end, last) r = Gather(table, m)", IDS[:, 2:]),
    "cut and turned": (
        "c = Slice(ids, two, end, last) m = Transpose(c) e = Gather(table, m) r = Transpose<perm = [1, 0, 2]>(e)",
        IDS[:, 2:],
    ),
}


def model(nodes: str) -> onnx.ModelProto:
    built = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> g (int64[N,5] ids) => (float[N,3] y) '
        "<int64[1] two = {2}, int64[1] end = {100}, int64[1] last = {-1}, int64[1] one = {1}> "
        f"{{ {nodes} t = Tanh(r) y = ReduceSum<keepdims = 0>(t, one) }}"
    )
    built.graph.initializer.append(numpy_helper.from_array(TABLE, "table"))
    return built


@pytest.mark.parametrize("name", MOVES)
def test_every_id_has_its_attribution(name: str) -> None:
    """With a baseline of 0, tanh of each entry of its row in the column that is explained; 0 for ids that are cut off."""
    nodes, read = MOVES[name]
    given = model(nodes)
    result = onnx_ig.Explainer(given).attribute({"ids": IDS}, n_steps=20, target=1)
    expected = np.zeros(IDS.shape)
    expected[:, IDS.shape[1] - read.shape[1] :] = np.tanh(TABLE[read][..., 1])
    np.testing.assert_allclose(result["ids"], expected, atol=1e-5)
    np.testing.assert_array_equal(result.outputs["y"], Runner(given)({"ids": IDS})[0])


def test_columns_of_several_tables_stay_apart() -> None:
    """An id of one column may be out of the range of the table of another."""
    given = model(
        "m = Slice(ids, two, end, last) q = Gather(table, m) c = Slice(ids, one, two, one) "
        "f = Gather(small, c) r = Concat<axis = 1>(q, f)"
    )
    given.graph.initializer.append(numpy_helper.from_array(TABLE[:2], "small"))
    kept = prepare(load(given)).graph
    assert [n.inputs[1].name for n in kept if n.op_type == "Gather"] == ["m", "c"]
