"""Loops that carry, fill and read sequences, as TorchScript writes lists."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_ig import add_gradients
from onnx_ig.errors import UnsupportedOperatorError
from tests.rules.control_flow import check_text, parse

rng = np.random.default_rng(0)

APPENDED = """
g (T[3] x, T[3] w, int64 n) => (T[M] y)
{
  list = SequenceEmpty<dtype = DTYPE>()
  s, whole = Loop (n, , x, list) <
    body = b (int64 i, bool c, T[3] s, seq(T[]) part) => (bool c2, T[3] s2, seq(T[]) part2) {
      c2 = Identity(c)
      m = Mul(s, w)
      s2 = Tanh(m)
      part2 = SequenceInsert(part, s2)
    }>
  joined = ConcatFromSequence<axis = 0>(whole)
  y = Mul(joined, joined)
}
"""

READ = """
g (T[N,3] x, T[3] w) => (T[3] y)
{
  pieces = SplitToSequence<axis = 0, keepdims = 0>(x)
  n = SequenceLength(pieces)
  y = Loop (n, , w) <body = b (int64 i, bool c, T[3] s) => (bool c2, T[3] s2) {
    c2 = Identity(c)
    row = SequenceAt(pieces, i)
    m = Mul(row, s)
    s2 = Tanh(m)
  }>
}
"""

BOTH = """
g (T[N,3] x, T[3] w) => (T[N,3] y)
{
  pieces = SplitToSequence<axis = 0, keepdims = 1>(x)
  n = SequenceLength(pieces)
  list = SequenceEmpty<dtype = DTYPE>()
  whole = Loop (n, , list) <body = b (int64 i, bool c, seq(T[]) part) => (bool c2, seq(T[]) part2) {
    c2 = Identity(c)
    row = SequenceAt(pieces, i)
    one = Constant<value = int64 {1}>()
    first = Less(i, one)
    v = If (first) <then_branch = t () => (T[1,3] p) { p = Mul(row, w) }, else_branch = e () => (T[1,3] q) { q = Exp(row) }>
    part2 = SequenceInsert(part, v)
  }>
  y = ConcatFromSequence<axis = 0>(whole)
}
"""


@pytest.mark.parametrize("n", [1, 4])
def test_a_list_filled_in_a_loop_and_joined_behind_it(n: int) -> None:
    check_text(APPENDED, {"x": rng.standard_normal(3), "w": rng.standard_normal(3), "n": n})


@pytest.mark.parametrize("n", [1, 4])
def test_a_tensor_split_before_a_loop_and_read_in_it(n: int) -> None:
    check_text(READ, {"x": rng.standard_normal((n, 3)), "w": rng.standard_normal(3)})


def test_pieces_read_changed_in_a_branch_and_collected() -> None:
    check_text(BOTH, {"x": rng.standard_normal((3, 3)), "w": rng.standard_normal(3)})


def test_a_carried_list_whose_earlier_contents_are_needed_is_refused() -> None:
    text = """
    g (T[3] x, int64 n) => (T[3] y)
    {
      list = SequenceConstruct(x)
      y, whole = Loop (n, , x, list) <
        body = b (int64 i, bool c, T[3] s, seq(T[]) part) => (bool c2, T[3] s2, seq(T[]) part2) {
          c2 = Identity(c)
          before = SequenceAt(part, i)
          s2 = Mul(before, s)
          part2 = SequenceInsert(part, s2)
        }>
    }
    """
    with pytest.raises(UnsupportedOperatorError, match="'part', which is no tensor"):
        add_gradients(parse(text), of="y", wrt="x")
