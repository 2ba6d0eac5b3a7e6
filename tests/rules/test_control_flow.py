"""Control flow in combination: with functions, lists, shared weights, and twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_ig
from tests.gradcheck import Runner, check_model
from tests.rules.control_flow import check_text, names_of, parse

rng = np.random.default_rng(0)


@pytest.mark.parametrize("start", [0.4, 1.5, 40.0])
def test_a_loop_without_a_count(start: float) -> None:
    text = """
    g (T[2] x) => (T[2] y)
    {
      axes = Constant<value = int64[1] {0}>()
      limit = Constant<value = float {20}>()
      bound = CastLike(limit, x)
      first = ReduceSum<keepdims = 0>(x, axes)
      go = Less(first, bound)
      y = Loop (, go, x) <body = b (int64 i, bool c, T[2] s) => (bool c2, T[2] s2) {
        e = Sin(s)
        d = Add(s, s)
        s2 = Add(d, e)
        total = ReduceSum<keepdims = 0>(s2, axes)
        c2 = Less(total, bound)
      }>
    }
    """
    check_text(text, {"x": np.array([start, 0.3])})


@pytest.mark.parametrize("c", [True, False])
def test_branches_that_give_lists(c: bool) -> None:
    text = """
    g (T[2,3] x, bool c) => (T[N,3] y)
    {
      list = If (c) <then_branch = t () => (seq(T[]) a) { e = Exp(x) a = SequenceConstruct(x, e) },
                     else_branch = f () => (seq(T[]) b) { b = SplitToSequence<axis = 0>(x) }>
      y = ConcatFromSequence<axis = 0>(list)
    }
    """
    check_text(text, {"x": rng.standard_normal((2, 3)), "c": c})


@pytest.mark.parametrize("c", [True, False])
def test_a_weight_read_in_both_branches_and_outside(c: bool) -> None:
    text = """
    g (T[2,3] x, T[3] w, bool c) => (T[2,3] y)
    {
      z = Mul(x, w)
      p = If (c) <then_branch = t () => (T[2,3] a) { m = Mul(z, w) a = Tanh(m) },
                  else_branch = f () => (T[2,3] b) {
                    b = If (c) <then_branch = tt () => (T[2,3] u) { u = Identity(w) },
                                else_branch = ff () => (T[2,3] v) { v = Add(z, w) }> }>
      y = Mul(p, w)
    }
    """
    check_text(text, {"x": rng.standard_normal((2, 3)), "w": rng.standard_normal(3), "c": c})


@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("c", [True, False])
def test_a_loop_and_a_scan_in_a_branch_in_a_branch(c: bool, n: int) -> None:
    text = """
    g (T[S,3] x, T[3] w, bool c, int64 n) => (T[3] y)
    {
      y = If (c) <
        then_branch = t () => (T[3] a) {
          z = Mul(w, w)
          a = If (c) <
            then_branch = tt () => (T[3] u) {
              v = Tanh(z)
              u, rest = Loop (n, , v, n) <body = b (int64 i, bool d, T[3] s, int64 k) => (bool d2, T[3] s2, int64 k2) {
                d2 = Identity(d)
                row = Gather(x, i)
                m = Mul(s, row)
                s2 = Add(m, v)
                k2 = Add(k, i)
              }>
            },
            else_branch = tf () => (T[3] q) { q = Identity(z) }>
        },
        else_branch = f () => (T[3] e) {
          h = Exp(w)
          e = Scan <num_scan_inputs = 1, body = sb (T[3] r, T[3] p) => (T[3] r2) { o = Mul(r, p) r2 = Add(o, h) }> (h, x)
        }>
    }
    """
    check_text(text, {"x": rng.standard_normal((2, 3)), "w": rng.standard_normal(3), "c": c, "n": n}, wrt=["x", "w"])


FUNCTIONS = """
g (T[S,3] x, T[3] w) => (T[3] y)
{
  y = local.outer (x, w)
}
<domain: "local", opset_import: ["" : 20]>
inner (s, row, w) => (s2)
{
  m = Mul (s, w)
  a = Add (m, row)
  s2 = Tanh (a)
}
<domain: "local", opset_import: ["" : 20, "local" : 1]>
outer (x, w) => (y)
{
  axes = Constant<value = int64[1] {0}>()
  n = Shape<start = 0, end = 1>(x)
  trips = Squeeze(n, axes)
  y = Loop (trips, , w) <body = b (int64 i, bool c, T[3] s) => (bool c2, T[3] s2) {
    c2 = Identity(c)
    row = Gather(x, i)
    s2 = local.inner (s, row, w)
  }>
}
"""


def test_a_loop_in_a_function_whose_body_calls_a_function() -> None:
    models = {d: parse(FUNCTIONS, d, more={"local": 1}) for d in (np.float64, np.float32)}
    check_model(models, {"x": rng.standard_normal((4, 3)), "w": rng.standard_normal(3)}, of="y")


RECURRENT = """
g (T[S,N,3] x, T[N,3] s0, T[3,3] w) => (T[N,3] y)
{
  y = Scan <num_scan_inputs = 1, body = b (T[N,3] s, T[N,3] u) => (T[N,3] s2) {
    p = MatMul(s, w)
    q = Add(p, u)
    s2 = Tanh(q)
  }> (s0, x)
}
"""
COUNTED = """
g (T[N,3] x, T[3,3] w, int64 n) => (T[N,3] y)
{
  y = Loop (n, , x) <body = b (int64 i, bool c, T[N,3] s) => (bool c2, T[N,3] s2) {
    c2 = Identity(c)
    p = MatMul(s, w)
    s2 = Tanh(p)
  }>
}
"""


def renamed(model: onnx.ModelProto, names: dict[str, str]) -> onnx.ModelProto:
    """The model with some values renamed in every scope."""

    def visit(graph: onnx.GraphProto) -> None:
        for value in (*graph.input, *graph.output, *graph.value_info):
            value.name = names.get(value.name, value.name)
        for node in graph.node:
            node.input[:] = [names.get(n, n) for n in node.input]
            node.output[:] = [names.get(n, n) for n in node.output]
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)

    visit(model.graph)
    return model


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        (RECURRENT, {"x": rng.standard_normal((3, 2, 3)), "s0": rng.standard_normal((2, 3))}),
        (COUNTED, {"x": rng.standard_normal((2, 3)), "n": np.asarray(3)}),
    ],
)
def test_second_derivatives(text: str, feeds: dict[str, Any]) -> None:
    feeds = {**feeds, "w": rng.standard_normal((3, 3)) * 0.5}
    first = onnx_ig.add_gradients(parse(text), of="y", wrt=["x", "w"])
    names = {"grad_y": "cotangent", "grad_x": "first_x", "grad_w": "first_w"}
    cotangent = rng.standard_normal(Runner(parse(text))(feeds)[0].shape)
    model = renamed(first, names)
    assert len(set(names_of(model))) == len(names_of(model))
    check_model({np.float64: model}, {**feeds, "cotangent": cotangent}, of="first_x", wrt=["x", "w", "cotangent"])
