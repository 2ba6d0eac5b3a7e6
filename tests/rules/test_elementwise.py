from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from onnx_ig import OnnxIgWarning, add_gradients
from tests.gradcheck import Runner, check, gradients_of, graph_model, node_model

rng = np.random.default_rng(0)


def slope(op: str, x: list[float], attributes: dict | None = None, *, dtype: type = np.float64, **more: np.ndarray):
    """The derivative at every x."""
    point = np.array(x, dtype)
    feeds = {"x": point, **{n: np.asarray(v, dtype) for n, v in more.items()}}
    model = node_model(op, feeds, attributes, dtype=dtype)
    return gradients_of(model, feeds, "y", ["x"], np.ones_like(point))["x"]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (2, 3)), ((2, 3), (3,)), ((3, 1), (1, 4)), ((2, 1, 3), (4, 1)), ((), (2, 2)), ((0, 3), (3,))]
)
def test_arithmetic(op: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check(op, {"a": rng.standard_normal(a), "b": rng.uniform(0.5, 2, b)})


def test_division_by_a_stored_number() -> None:
    check("Div", {"a": rng.standard_normal((2, 3)), "b": np.array([2.0, -4.0, 0.5])}, constants=["b"])


@pytest.mark.parametrize("op", ["Sum", "Mean"])
def test_variadic(op: str) -> None:
    check(op, {"a": rng.standard_normal((2, 3)), "b": rng.standard_normal(3), "c": rng.standard_normal((4, 1, 1))})
    check(op, {"a": rng.standard_normal((2, 3))})


@pytest.mark.parametrize("op", ["Exp", "Neg", "Abs", "Reciprocal", "Sqrt", "Log", "Erf"])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 2), (1,)])
def test_functions(op: str, shape: tuple[int, ...]) -> None:
    check(op, {"x": rng.uniform(0.3, 2, shape)})
    if op not in ("Sqrt", "Log"):
        check(op, {"x": -rng.uniform(0.3, 2, shape)}, shapes=["batch"])


def test_abs_has_slope_zero_at_zero() -> None:
    assert slope("Abs", [-2, -0.0, 0, 3]).tolist() == [-1, 0, 0, 1]


@pytest.mark.parametrize("power", [2.0, 3.0, 1.0, 0.0, 0.5, -1.0, -2.5, 1.7])
@pytest.mark.parametrize("stored", [True, False])
def test_power_of_positive_base(power: float, stored: bool) -> None:
    exponent = np.array(power) if stored else np.array([[power], [power + 1]])
    check("Pow", {"a": rng.uniform(0.3, 2, (2, 3)), "b": exponent}, constants=["b"] if stored else [])


@pytest.mark.parametrize("exponent", [np.array(3), np.array([[2], [-3]], np.int32), np.array(0), np.array([2.0, 3, 0])])
@pytest.mark.parametrize("stored", [True, False])
def test_power_of_negative_base(exponent: np.ndarray, stored: bool) -> None:
    check("Pow", {"a": -rng.uniform(0.3, 2, (2, 3)), "b": exponent}, wrt=["a"], constants=["b"] if stored else [])


@pytest.mark.parametrize("stored", [True, False])
def test_power_at_zero(stored: bool) -> None:
    a, b = np.zeros(5), np.array([0.0, 1, 2, 3, 4.5])
    for index, expected in enumerate([0, 1, 0, 0, 0]):
        feeds = {"a": a[:1], "b": b[index : index + 1]}
        model = node_model("Pow", feeds, constants=["b"] if stored else [])
        got = gradients_of(model, {"a": a[:1]} if stored else feeds, "y", ["a"], np.ones(1))["a"]
        assert got.tolist() == [expected]


def test_exponent_of_a_base_that_is_not_positive_gets_zero() -> None:
    feeds = {"a": np.array([-2.0, 0, 0, 0, 2, 1e300]), "b": np.array([3.0, 2, 0, -1, 3, -1])}
    got = gradients_of(node_model("Pow", feeds), feeds, "y", ["b"], np.ones(6))["b"]
    np.testing.assert_allclose(got, [0, 0, 0, 0, 8 * np.log(2), 1e-300 * np.log(1e300)], rtol=1e-12)


@pytest.mark.parametrize(
    ("op", "points"),
    [("Sqrt", [0, -1]), ("Log", [0, -1]), ("Reciprocal", [0]), ("Exp", [1e4]), ("Pow", [0, -1])],
)
def test_branch_that_is_not_used_contributes_nothing_where_it_is_singular(op: str, points: list[float]) -> None:
    feeds = {"x": np.array(points, float), **({"b": np.array(-0.5)} if op == "Pow" else {})}
    got = gradients_of(node_model(op, feeds), feeds, "y", list(feeds), np.zeros(len(points)))
    assert all((g == 0).all() for g in got.values())


def test_divisor_that_is_not_used_contributes_nothing_at_zero() -> None:
    feeds = {"a": np.array([0.0, 1]), "b": np.zeros(2)}
    got = gradients_of(node_model("Div", feeds), feeds, "y", ["a", "b"], np.zeros(2))
    assert got["a"].tolist() == [0, 0]
    assert got["b"].tolist() == [0, 0]


def test_real_singularities_stay_infinite() -> None:
    assert slope("Sqrt", [0]).tolist() == [np.inf]
    assert slope("Log", [0]).tolist() == [np.inf]
    assert slope("Reciprocal", [0]).tolist() == [-np.inf]


@pytest.mark.parametrize(("op", "x"), [("Reciprocal", 300.0), ("Sqrt", 6e4), ("Erf", 300.0), ("Abs", 6e4)])
def test_float16_does_not_overflow(op: str, x: float) -> None:
    got = slope(op, [x], dtype=np.float16)
    assert got.dtype == np.float16
    assert np.isfinite(got).all()
    expected = {"Reciprocal": -1 / 9e4, "Sqrt": 0.5 / 6e4**0.5, "Erf": 0.0, "Abs": 1.0}[op]
    np.testing.assert_allclose(got, [expected], rtol=2e-2)


@pytest.mark.parametrize("b", [np.array([[0.7, -0.4, 2.3]]), np.array(1.3)])
@pytest.mark.parametrize(("fmod", "opset"), [(1, 20), (1, 28), (0, 28)])
def test_remainder(b: np.ndarray, fmod: int, opset: int) -> None:
    inputs = {"a": np.array([[3.1, -2.2, 0.9], [-5.3, 7.7, 4.4]]), "b": b}
    check("Mod", inputs, {"fmod": fmod}, opset=opset)


def test_remainder_by_infinity_and_by_an_unused_zero() -> None:
    feeds = {"a": np.array([3.5, 1.0]), "b": np.array([np.inf, 0.0])}
    got = gradients_of(node_model("Mod", feeds, {"fmod": 1}), feeds, "y", ["a", "b"], np.array([1.0, 0.0]))
    assert got["a"].tolist() == [1, 0]
    assert got["b"].tolist() == [0, 0]


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round", "Sign"])
def test_steps_have_zero_derivative_and_say_so(op: str) -> None:
    feeds = {"x": np.array([0.3, -1.7])}
    with pytest.warns(OnnxIgWarning, match=op):
        augmented = add_gradients(node_model(op, feeds), of="y", wrt="x")
    assert Runner(augmented)({**feeds, "grad_y": np.ones(2)})[1].tolist() == [0, 0]


@pytest.mark.parametrize("op", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
def test_comparisons_end_a_path(op: str) -> None:
    nodes = [
        helper.make_node(op, ["x", "limit"], ["flag"], name="compare"),
        helper.make_node("Cast", ["flag"], ["one"], to=11),
        helper.make_node("Mul", ["x", "one"], ["y"]),
    ]
    inputs = {"x": np.array([2.0, -1.0, 3.0]), "limit": np.array(2.0)}
    expected = Runner(graph_model(nodes[:2], inputs, ["one"], constants=["limit"]))({"x": inputs["x"]})[0]
    model = graph_model(nodes, inputs, ["y"], constants=["limit"])
    got = gradients_of(model, {"x": inputs["x"]}, "y", ["x"], np.ones(3))["x"]
    assert got.tolist() == expected.tolist()
