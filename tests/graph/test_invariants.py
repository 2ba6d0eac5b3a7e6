from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_ig
from onnx_ig.graph.prepare import prepare
from tests.gradcheck import Runner
from tests.rules.control_flow import check_text, parse

LOOP = """
g (T[N,3] x, T[3,3] w, int64 n) => (T[N,3] y, T[3,3] same)
{
  y, same = Loop (n, , x, w) <body = b (int64 i, bool c, T[N,3] s, T[3,3] v) => (bool c2, T[N,3] s2, T[3,3] v2) {
    c2 = Identity(c)
    v1 = Identity(v)
    p = MatMul(s, v)
    q = MatMul(p, v1)
    s2 = Tanh(q)
    v2 = Identity(v1)
  }>
}
"""
SCAN = """
g (T[S,N,3] x, T[N,3] s0, T[3,3] w) => (T[N,3] y, T[3,3] same)
{
  y, same = Scan <num_scan_inputs = 1, body = b (T[N,3] s, T[3,3] v, T[N,3] u) => (T[N,3] s2, T[3,3] v2) {
    p = MatMul(s, v)
    q = Add(p, u)
    s2 = Tanh(q)
    v2 = Identity(v)
  }> (s0, w, x)
}
"""
rng = np.random.default_rng(0)
FEEDS = {
    LOOP: {"x": rng.standard_normal((2, 3)), "w": rng.standard_normal((3, 3)) * 0.5, "n": 3},
    SCAN: {"x": rng.standard_normal((4, 2, 3)), "s0": rng.standard_normal((2, 3)), "w": rng.standard_normal((3, 3))},
}


@pytest.mark.parametrize("text", [LOOP, SCAN])
def test_a_weight_that_is_carried_unchanged_is_read_outside(text: str) -> None:
    model = parse(text)
    prepared = prepare(ir.from_proto(model))
    body = prepared.graph[-1].attributes["body"].as_graph()
    weight = next(v for v in prepared.graph.inputs if v.name == "w")
    assert {n.op_type for n in body if weight in n.inputs} == {"MatMul"}
    feeds = {n: np.asarray(a) for n, a in FEEDS[text].items()}
    for got, expected in zip(Runner(ir.to_proto(prepared))(feeds), Runner(model)(feeds), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("text", [LOOP, SCAN])
@pytest.mark.parametrize("of", ["y", "same"])
def test_gradients_are_those_of_the_carried_form(text: str, of: str) -> None:
    wrt = [n for n, a in FEEDS[text].items() if isinstance(a, np.ndarray)]
    check_text(text, FEEDS[text], of=of, wrt=wrt if of == "y" else ["w"])


def test_the_backward_keeps_no_copies_of_it() -> None:
    augmented = onnx_ig.add_gradients(parse(LOOP), of="y", wrt="x")
    assert len(augmented.graph.node[0].output) == 3  # the two final values, and the changing one in every iteration
