from __future__ import annotations

import numpy as np
import pytest

import onnx_ig
from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import Runner, gradients_of
from tests.rules.control_flow import check_text, names_of, parse

rng = np.random.default_rng(0)
X = rng.standard_normal((2, 3))

BRANCHES = """
g (T[N,3] x, T[3] w, bool c) => (T[N,3] y)
{
  y = If (c) <then_branch = t () => (T[N,3] a) { xx = Mul(x, x) a = Mul(xx, w) },
              else_branch = e () => (T[N,3] b) { b = Exp(x) }>
}
"""


@pytest.mark.parametrize("c", [True, False])
def test_the_branch_taken(c: bool) -> None:
    check_text(BRANCHES, {"x": X, "w": rng.standard_normal(3), "c": c})


def test_the_other_branch_gives_zero_to_what_only_it_reads() -> None:
    feeds = {"x": X, "w": np.ones(3), "c": np.asarray(False)}
    gradient = gradients_of(parse(BRANCHES), feeds, "y", ["w"], np.ones((2, 3)))
    assert not gradient["w"].any()


@pytest.mark.parametrize("c", [True, False])
def test_outputs_taken_from_outside_and_several_outputs(c: bool) -> None:
    text = """
    g (T[2,3] x, bool c) => (T[2,3] y)
    {
      z = Mul(x, x)
      p, q = If (c) <then_branch = t () => (T[2,3] a, T[2,3] b) { a = Identity(z) b = Mul(z, x) },
                     else_branch = e () => (T[2,3] a2, T[2,3] b2) { b2 = Exp(x) a2 = Add(b2, z) }>
      y = Mul(p, q)
    }
    """
    check_text(text, {"x": X, "c": c})


NESTED = """
g (T[N,3] x, bool c, bool d) => (T[M] y)
{
  p = If (c) <
    then_branch = t () => (T[N,3] a) {
      s = Mul(x, x)
      a = If (d) <then_branch = tt () => (T[N,3] u) { u = Mul(s, x) },
                  else_branch = te () => (T[N,3] v) { v = Exp(s) }>
    },
    else_branch = e () => (T[1,N,3] b) { k = Constant<value = int64[1] {0}>() b = Unsqueeze(x, k) }>
  r = Mul(p, p)
  flat = Constant<value = int64[1] {-1}>()
  y = Reshape(r, flat)
}
"""


@pytest.mark.parametrize("feed", [(True, True), (True, False), (False, True)])
def test_nested_with_branches_of_different_shapes(feed: tuple[bool, bool]) -> None:
    check_text(NESTED, {"x": X, "c": feed[0], "d": feed[1]})


def test_condition_computed_from_the_input() -> None:
    text = """
    g (T[3] x) => (T[3] y)
    {
      zero = Constant<value = int64[1] {0}>()
      s = ReduceSum<keepdims = 0>(x, zero)
      n = Sub(s, s)
      c = Greater(s, n)
      y = If (c) <then_branch = t () => (T[3] a) { a = Mul(x, s) }, else_branch = e () => (T[3] b) { b = Exp(x) }>
    }
    """
    check_text(text, {"x": np.array([0.5, 1.0, -0.3])}, {"x": np.array([-0.5, -1.0, 0.3])})


def test_weights_of_a_branch_are_stored_once_and_names_are_unique() -> None:
    weight = ", ".join(str(v) for v in rng.standard_normal(40 * 40).round(3))
    text = f"""
    g (T[2,40] x, bool c) => (T[2,40] y)
    {{
      y = If (c) <then_branch = t () => (T[2,40] a) <T[40,40] w = {{{weight}}}> {{ a = MatMul(x, w) }},
                  else_branch = e () => (T[2,40] b) {{ b = Exp(x) }}>
    }}
    """
    model = parse(text)
    augmented = onnx_ig.add_gradients(model, of="y", wrt="x")
    assert augmented.ByteSize() < 1.2 * model.ByteSize()
    names = names_of(augmented)
    assert len(names) == len(set(names))
    check_text(text, {"x": rng.standard_normal((2, 40)), "c": True})


RANDOM = """
g (T[4,4] x, bool c) => (T[4,4] y)
{
  y = If (c) <then_branch = t () => (T[4,4] a) { r = RandomNormal<shape = [4, 4], dtype = DTYPE>() a = Mul(x, r) },
              else_branch = e () => (T[4,4] b) { b = Exp(x) }>
}
"""


def test_random_numbers_of_the_forward_are_those_of_the_backward() -> None:
    augmented = onnx_ig.add_gradients(parse(RANDOM), of="y", wrt="x")
    x = rng.standard_normal((4, 4))
    y, gradient = Runner(augmented)({"x": x, "c": np.asarray(True), "grad_y": np.ones((4, 4))})
    np.testing.assert_allclose(gradient, y / x)


def test_a_branch_that_draws_is_not_run_again() -> None:
    with pytest.raises(UnsupportedOperatorError, match="random numbers"):
        onnx_ig.add_gradients(parse(RANDOM), of="y", wrt="x", runtime="tensorrt")


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("text", [BRANCHES, NESTED])
def test_the_branch_taken_run_again_gives_the_same(text: str, c: bool) -> None:
    model = parse(text)
    feeds = {"x": X, "w": rng.standard_normal(3), "c": np.asarray(c), "d": np.asarray(True)}
    feeds = {i.name: feeds[i.name] for i in model.graph.input}
    cotangent = rng.standard_normal(Runner(model)(feeds)[0].shape)
    kept = gradients_of(model, feeds, "y", ["x"], cotangent)
    again = gradients_of(model, feeds, "y", ["x"], cotangent, runtime="openvino")
    np.testing.assert_allclose(kept["x"], again["x"], rtol=1e-12)


def test_the_branch_taken_runs_once() -> None:
    augmented = onnx_ig.add_gradients(parse(BRANCHES), of="y", wrt="x")
    backward = augmented.graph.node[-2]
    branch = next(a.g for a in backward.attribute if a.name == "else_branch")
    assert backward.op_type == "If"
    assert "Exp" not in {n.op_type for n in branch.node}


def test_an_operator_without_rule_in_a_branch_is_named() -> None:
    text = """
    g (T[4,4] x, bool c) => (T[4,4] y)
    {
      y = If (c) <then_branch = t () => (T[4,4] a) { a = RandomNormalLike(x) },
                  else_branch = e () => (T[4,4] b) { b = strange.Mystery(x) }>
    }
    """
    with pytest.raises(UnsupportedOperatorError, match="Mystery"):
        onnx_ig.add_gradients(parse(text, more={"strange": 1}), of="y", wrt="x")
