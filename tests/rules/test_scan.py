from __future__ import annotations

import numpy as np
import pytest

import onnx_ig
from tests.rules.control_flow import check_text, parse

rng = np.random.default_rng(0)

CUMULATIVE = """
g (T[S,N,3] x, T[N,3] s0, T[3,3] w) => (T[N,3] y, T[S,N,3] ys)
{
  y, ys = Scan <num_scan_inputs = 1, body = b (T[N,3] s, T[N,3] u) => (T[N,3] s2, T[N,3] z) {
    p = MatMul(s, w)
    q = Add(p, u)
    s2 = Tanh(q)
    z = Mul(s2, u)
  }> (s0, x)
}
"""


@pytest.mark.parametrize("of", ["y", "ys"])
@pytest.mark.parametrize("length", [1, 4])
def test_states_inputs_and_outer_values(of: str, length: int) -> None:
    feeds = {
        "x": rng.standard_normal((length, 2, 3)),
        "s0": rng.standard_normal((2, 3)),
        "w": rng.standard_normal((3, 3)),
    }
    check_text(CUMULATIVE, feeds, of=of)


@pytest.mark.parametrize("directions", [(0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 1)])
def test_axes_and_directions(directions: tuple[int, int, int]) -> None:
    first, second, out = directions
    text = f"""
    g (T[2,S,3] x, T[S,2,3] u, T[2,3] s0) => (T[2,3] y, T[2,3,S] ys)
    {{
      y, ys = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [{first}, {second}],
                    scan_output_axes = [-1], scan_output_directions = [{out}],
                    body = b (T[2,3] s, T[2,3] a, T[2,3] b) => (T[2,3] s2, T[2,3] z) {{
        m = Mul(a, s)
        s2 = Add(m, b)
        z = Exp(s2)
      }}> (s0, x, u)
    }}
    """
    feeds = {
        "x": rng.standard_normal((2, 4, 3)),
        "u": rng.standard_normal((4, 2, 3)),
        "s0": rng.standard_normal((2, 3)),
    }
    check_text(text, feeds, of="y")
    check_text(text, feeds, of="ys")


def test_a_map_without_states() -> None:
    text = """
    g (T[S,3] x, T[3] w) => (T[S,3] y)
    {
      y = Scan <num_scan_inputs = 1, body = b (T[3] u) => (T[3] z) { m = Mul(u, w) z = Exp(m) }> (x)
    }
    """
    check_text(text, {"x": rng.standard_normal((4, 3)), "w": rng.standard_normal(3)})


def test_a_state_that_only_adds_up_is_not_kept() -> None:
    text = """
    g (T[S,3] x, T[3] s0) => (T[3] y)
    {
      y = Scan <num_scan_inputs = 1, body = b (T[3] s, T[3] u) => (T[3] s2) { s2 = Add(s, u) }> (s0, x)
    }
    """
    augmented = onnx_ig.add_gradients(parse(text), of="y", wrt="x")
    assert [len(n.output) for n in augmented.graph.node if n.op_type == "Scan"] == [1, 2]
    check_text(text, {"x": rng.standard_normal((4, 3)), "s0": rng.standard_normal(3)})


def test_states_of_other_types_and_a_scan_in_a_scan() -> None:
    text = """
    g (T[S,R,3] x, T[3] s0) => (T[3] y)
    {
      zero = Constant<value = int64 {0}>()
      k, y = Scan <num_scan_inputs = 1, body = b (int64 k, T[3] s, T[R,3] u) => (int64 k2, T[3] s2) {
        one = Constant<value = int64 {1}>()
        k2 = Add(k, one)
        f = CastLike(k2, s)
        h = Scan <num_scan_inputs = 1, body = d (T[3] t, T[3] v) => (T[3] t2) { e = Mul(t, v) t2 = Tanh(e) }> (s, u)
        s2 = Div(h, f)
      }> (zero, s0, x)
    }
    """
    check_text(text, {"x": rng.standard_normal((4, 2, 3)), "s0": rng.standard_normal(3)})
