from __future__ import annotations

import numpy as np
import pytest

import onnx_ig
from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import Runner, gradients_of
from tests.rules.control_flow import check_text, names_of, parse

rng = np.random.default_rng(0)
X = rng.standard_normal((2, 3)) * 0.5
W = rng.standard_normal((3, 3)) * 0.5

RECURRENT = """
g (T[N,3] x, T[3,3] w, int64 n) => (T[N,3] y, T[M,N,3] ys)
{
  go = Constant<value = bool {1}>()
  y, ys = Loop (n, go, x) <body = b (int64 i, bool c, T[N,3] s) => (bool c2, T[N,3] s2, T[N,3] z) {
    c2 = Identity(c)
    p = MatMul(s, w)
    s2 = Tanh(p)
    z = Mul(s2, s)
  }>
}
"""


@pytest.mark.parametrize("n", [0, 1, 4])
def test_trip_count_fed(n: int) -> None:
    check_text(RECURRENT, {"x": X, "w": W, "n": n})


@pytest.mark.parametrize("n", [1, 4])
def test_scan_outputs(n: int) -> None:
    check_text(RECURRENT, {"x": X, "w": W, "n": n}, of="ys")


def test_zero_trips_pass_the_cotangent_through() -> None:
    cotangent = rng.standard_normal((2, 3))
    feeds = {"x": X, "w": W, "n": np.asarray(0)}
    gradient = gradients_of(parse(RECURRENT), feeds, "y", ["x", "w"], cotangent)
    np.testing.assert_array_equal(gradient["x"], cotangent)
    assert not gradient["w"].any()


EARLY_EXIT = """
g (T[3] x) => (T[3] y, int64 count)
{
  most = Constant<value = int64 {20}>()
  go = Constant<value = bool {1}>()
  zero = Constant<value = int64 {0}>()
  axes = Constant<value = int64[1] {0}>()
  limit = ReduceSum<keepdims = 0>(x, axes)
  y, count = Loop (most, go, x, zero) <body = b (int64 i, bool c, T[3] s, int64 k) => (bool c2, T[3] s2, int64 k2) {
    ss = Mul(s, s)
    s2 = Add(s, ss)
    total = ReduceSum<keepdims = 0>(s2, axes)
    bound = Mul(limit, limit)
    big = Mul(bound, bound)
    c2 = Less(total, big)
    one = Constant<value = int64 {1}>()
    k2 = Add(k, one)
  }>
}
"""


@pytest.mark.parametrize(("x", "trips"), [([0.5, 0.6, 0.7], 3), ([0.2, 0.3, 0.4], 1)])
def test_early_exit_at_a_condition_computed_in_the_body(x: list[float], trips: int) -> None:
    assert Runner(parse(EARLY_EXIT))({"x": np.asarray(x)})[1] == trips
    check_text(EARLY_EXIT, {"x": np.asarray(x)}, wrt=["x"])


def test_iteration_number_selects_rows_of_an_outer_value() -> None:
    text = """
    g (T[N,3] x, T[3] s0) => (T[3] y)
    {
      n = Shape<start = 0, end = 1>(x)
      axes = Constant<value = int64[1] {0}>()
      trips = Squeeze(n, axes)
      go = Constant<value = bool {1}>()
      y = Loop (trips, go, s0) <body = b (int64 i, bool c, T[3] s) => (bool c2, T[3] s2) {
        c2 = Identity(c)
        row = Gather(x, i)
        sq = Mul(row, s)
        s2 = Add(sq, row)
      }>
    }
    """
    check_text(text, {"x": rng.standard_normal((4, 3)), "s0": rng.standard_normal(3)})


def test_only_later_iterations_depend_on_the_input() -> None:
    text = """
    g (T[3] x) => (T[3] y)
    {
      three = Constant<value = int64 {3}>()
      go = Constant<value = bool {1}>()
      zero = Sub(x, x)
      start = Shape(zero)
      a0 = ConstantOfShape(start)
      a1 = CastLike(a0, x)
      y, other = Loop (three, go, a1, a1) <
        body = b (int64 i, bool c, T[3] s, T[3] r) => (bool c2, T[3] s2, T[3] r2) {
          c2 = Identity(c)
          e = Exp(r)
          s2 = Add(s, e)
          r2 = Mul(e, x)
        }>
    }
    """
    check_text(text, {"x": np.array([0.3, -0.2, 0.5])})


def test_loop_in_a_loop_and_an_if_in_it() -> None:
    text = """
    g (T[3] x, T[3] w) => (T[3] y)
    {
      three = Constant<value = int64 {3}>()
      go = Constant<value = bool {1}>()
      y = Loop (three, go, x) <body = outer (int64 i, bool c, T[3] s) => (bool c2, T[3] s2) {
        c2 = Identity(c)
        u = Mul(s, w)
        one = Constant<value = int64 {1}>()
        trips = Add(i, one)
        v = Loop (trips, , u) <body = inner (int64 j, bool d, T[3] t) => (bool d2, T[3] t2) {
          d2 = Identity(d)
          first = Equal(j, one)
          h = If (first) <then_branch = a () => (T[3] p) { p = Mul(t, s) },
                          else_branch = e () => (T[3] q) { q = Exp(t) }>
          t2 = Tanh(h)
        }>
        s2 = Add(v, u)
      }>
    }
    """
    augmented = onnx_ig.add_gradients(parse(text), of="y", wrt=["x", "w"])
    names = names_of(augmented)
    assert len(names) == len(set(names))
    check_text(text, {"x": np.array([0.3, -0.2, 0.5]), "w": np.array([0.7, 1.2, -0.4])})


def test_swapped_states_and_a_result_given_twice() -> None:
    text = """
    g (T[3] x, T[3] w) => (T[3] y, T[M,3] ys)
    {
      three = Constant<value = int64 {3}>()
      a, b, ys = Loop (three, , x, w) <
        body = b (int64 i, bool c, T[3] s, T[3] r) => (bool c2, T[3] r1, T[3] s2, T[3] z) {
        c2 = Identity(c)
        r1 = Identity(r)
        s2 = Mul(s, r)
        z = Identity(s2)
      }>
      y = Mul(a, b)
    }
    """
    feeds = {"x": np.array([0.3, -0.2, 0.5]), "w": np.array([0.7, 1.2, -0.4])}
    check_text(text, feeds)
    check_text(text, feeds, of="ys")


def test_the_forward_runs_once_and_keeps_its_states() -> None:
    model = parse(RECURRENT)
    augmented = onnx_ig.add_gradients(model, of="y", wrt="x")
    loops = [n for n in augmented.graph.node if n.op_type == "Loop"]
    assert len(loops) == 2  # the forward is run once
    assert len(loops[0].output) == 3  # its two outputs, and the state in every iteration


def test_nothing_is_kept_where_a_count_is_enough() -> None:
    text = """
    g (T[3] x, T[3] w, int64 n) => (T[3] y)
    {
      y = Loop (n, , x) <body = b (int64 i, bool c, T[3] s) => (bool c2, T[3] s2) {
        c2 = Identity(c)
        s2 = Mul(s, w)
      }>
    }
    """
    augmented = onnx_ig.add_gradients(parse(text), of="y", wrt="x")
    assert [len(n.output) for n in augmented.graph.node if n.op_type == "Loop"] == [1, 1]
    check_text(text, {"x": X[0], "w": W[0], "n": 3})


def test_a_state_that_grows_is_refused_by_name() -> None:
    text = """
    g (T[1,3] x, int64 n) => (T[1,3] y)
    {
      axes = Constant<value = int64[1] {0}>()
      grown, y = Loop (n, , x, x) <
        body = b (int64 i, bool c, T[P,3] past, T[1,3] s) => (bool c2, T[Q,3] next, T[1,3] s2) {
          c2 = Identity(c)
          next = Concat<axis = 0>(past, s)
          s2 = ReduceSum<keepdims = 1>(next, axes)
        }>
    }
    """
    with pytest.raises(UnsupportedOperatorError, match="'past' changes shape between iterations"):
        onnx_ig.add_gradients(parse(text), of="y", wrt="x")


def test_a_stored_weight_that_only_the_body_reads() -> None:
    text = """
    g (T[2] x, int64 n) => (T[2] y) <T[2] w = {0.5, -0.7}>
    {
      y = Loop (n, , x) <body = b (int64 i, bool c, T[2] s) => (bool c2, T[2] s2) {
        c2 = Identity(c)
        p = Mul(s, w)
        s2 = Tanh(p)
      }>
    }
    """
    model = parse(text)
    x, w = np.array([0.3, -1.2]), np.array([0.5, -0.7])
    found = gradients_of(model, {"x": x, "n": np.asarray(1)}, "y", ["w"], np.ones(2))
    np.testing.assert_allclose(found["w"], x * (1 - np.tanh(x * w) ** 2))


ROWS = """
g (T[S,N,3] x, T[N,3] s0) => (T[N,3] y)
{
  axes = Constant<value = int64[1] {0}>()
  n = Shape<start = START, end = END>(x)
  trips = Squeeze(n, axes)
  y = Loop (trips, , s0) <body = b (int64 i, bool c, T[N,3] s) => (bool c2, T[N,3] s2) {
    c2 = Identity(c)
    one = Constant<value = int64 {1}>()
    last = Sub(trips, one)
    mirrored = Sub(last, i)
    row = Gather<axis = AXIS>(x, i)
    again = Gather<axis = AXIS>(x, mirrored)
    both = Mul(row, again)
    sum = Add(s, both)
    s2 = Tanh(sum)
  }>
}
"""


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("trips", [0, 1, 4])
def test_rows_of_an_outer_value_read_by_iteration(axis: int, trips: int) -> None:
    at = axis % 3
    text = ROWS.replace("AXIS", str(axis)).replace("START", str(at)).replace("END", str(at + 1))
    shape = [2, 3]
    shape.insert(at, trips)
    check_text(text, {"x": rng.standard_normal(shape), "s0": rng.standard_normal((2, 3))})


def test_rows_are_put_back_behind_the_loop() -> None:
    text = ROWS.replace("AXIS", "0").replace("START", "0").replace("END", "1")
    augmented = onnx_ig.add_gradients(parse(text), of="y", wrt="x")
    backward = [n for n in augmented.graph.node if n.op_type == "Loop"][-1]
    scattered = {"ScatterND", "ScatterElements"}
    body = next(a.g for a in backward.attribute if a.name == "body")
    assert not scattered & {n.op_type for n in body.node}
    assert scattered & {n.op_type for n in augmented.graph.node}
