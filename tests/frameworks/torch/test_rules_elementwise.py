"""Element-wise rules, reductions, softmax, normalisations and losses against PyTorch's autograd in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.gradcheck import gradients_of, node_model

torch = pytest.importorskip("torch")
functional = torch.nn.functional
pytestmark = pytest.mark.framework
rng = np.random.default_rng(11)
x = rng.standard_normal((4, 3, 5))
positive = rng.uniform(0.2, 3, (4, 3, 5))
inside = rng.uniform(-0.9, 0.9, (4, 3, 5))
row = rng.standard_normal(5)


def compare(
    op: str, feeds: dict[str, np.ndarray], function: Callable[..., Any], attributes: dict[str, Any] | None = None,
    *, opset: int = 20, wrt: list[str] | None = None, outputs: tuple[str, ...] = ("y",), rtol: float = 1e-10,
) -> None:  # fmt: skip
    """The gradients of one node are those of `function` of the same arrays."""
    tensors = {n: torch.tensor(a, requires_grad=a.dtype.kind == "f") for n, a in feeds.items()}
    y = function(*tensors.values())
    cotangent = rng.standard_normal(tuple(y.shape))
    wrt = wrt or [n for n, a in feeds.items() if a.dtype.kind == "f"]
    expected = torch.autograd.grad(y, [tensors[n] for n in wrt], torch.tensor(cotangent))
    got = gradients_of(node_model(op, feeds, attributes, opset=opset, outputs=outputs), feeds, "y", wrt, cotangent)
    for name, gradient in zip(wrt, expected, strict=True):
        np.testing.assert_allclose(got[name], gradient.numpy(), rtol=rtol, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("op", "function", "points"),
    [
        ("Abs", "abs", x), ("Acos", "acos", inside), ("Acosh", "acosh", positive + 1), ("Asin", "asin", inside),
        ("Asinh", "asinh", x), ("Atan", "atan", x), ("Atanh", "atanh", inside), ("Cos", "cos", x), ("Cosh", "cosh", x),
        ("Erf", "erf", x), ("Exp", "exp", x), ("Log", "log", positive), ("Neg", "neg", x),
        ("Reciprocal", "reciprocal", positive), ("Sigmoid", "sigmoid", x), ("Sin", "sin", x), ("Sinh", "sinh", x),
        ("Sqrt", "sqrt", positive), ("Tan", "tan", inside), ("Tanh", "tanh", x), ("Floor", "floor", x),
        ("Round", "round", x), ("Sign", "sign", x),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:the gradient of 'x' is zero")
def test_functions(op: str, function: str, points: np.ndarray) -> None:
    compare(op, {"x": points}, getattr(torch, function))


KINKS = np.array([-6.0, -3, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6, 30, -30])


@pytest.mark.parametrize(
    ("op", "function", "attributes", "opset"),
    [
        ("Relu", functional.relu, {}, 20),
        ("LeakyRelu", functional.leaky_relu, {}, 20),
        ("Elu", lambda t: functional.elu(t, 0.7), {"alpha": 0.7}, 20),
        ("Selu", functional.selu, {}, 20),
        ("Celu", lambda t: functional.celu(t, 0.5), {"alpha": 0.5}, 28),
        ("Gelu", functional.gelu, {}, 20),
        ("Gelu", lambda t: functional.gelu(t, approximate="tanh"), {"approximate": "tanh"}, 20),
        ("HardSigmoid", functional.hardsigmoid, {"alpha": 1 / 6}, 20),
        ("HardSwish", functional.hardswish, {}, 20),
        ("Mish", functional.mish, {}, 20),
        ("Softplus", lambda t: functional.softplus(t, threshold=100), {}, 20),
        ("Softsign", functional.softsign, {}, 22),
        ("Swish", functional.silu, {}, 24),
        ("ThresholdedRelu", lambda t: functional.threshold(t, 1, 0), {"alpha": 1.0}, 20),
        ("Shrink", functional.hardshrink, {}, 20),
        ("Shrink", functional.softshrink, {"bias": 0.5}, 20),
    ],
)
@pytest.mark.parametrize("points", [x, KINKS], ids=["smooth", "kinks"])
def test_activations(
    op: str, function: Callable[..., Any], attributes: dict[str, Any], opset: int, points: np.ndarray
) -> None:
    """PyTorch's conventions at the kinks are ours for these."""
    single = bool(attributes) or op == "Selu"  # attributes are float32, so are Selu's defaults
    compare(op, {"x": points}, function, attributes, opset=opset, rtol=1e-6 if single else 1e-10)


def test_prelu() -> None:
    compare("PRelu", {"x": x, "slope": rng.standard_normal((3, 1))}, lambda t, s: functional.prelu(t, s.reshape(3)))


@pytest.mark.parametrize(
    ("op", "function"),
    [("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Div", "div"), ("Max", "maximum"), ("Min", "minimum")],
)
def test_binary(op: str, function: str) -> None:
    compare(op, {"a": x, "b": row}, getattr(torch, function))
    compare(op, {"a": np.array([1.0, 2, 3]), "b": np.array([1.0, 3, 2])}, getattr(torch, function))  # with a tie


def test_power() -> None:
    compare("Pow", {"a": positive, "b": row}, torch.pow)
    compare("Pow", {"a": np.array([-2.0, 0, 0, 3]), "b": np.array([3.0, 2, 1, 0])}, torch.pow, wrt=["a"])
    compare("Pow", {"a": np.array([0.0, 0, 2]), "b": np.array([2.0, 1, 3])}, torch.pow)


def test_remainder() -> None:
    compare("Mod", {"a": x, "b": row}, torch.fmod, {"fmod": 1})


def test_where() -> None:
    compare("Where", {"c": x > 0, "a": x, "b": row}, torch.where)


def test_clip() -> None:
    compare("Clip", {"x": x, "low": np.array(-0.5), "high": np.array(0.7)}, torch.clamp)


REDUCTIONS: list[tuple[str, Callable[..., Any]]] = [
    ("ReduceSum", torch.sum),
    ("ReduceMean", torch.mean),
    ("ReduceMax", torch.amax),
    ("ReduceMin", torch.amin),
    ("ReduceL1", lambda t, d, keepdim: torch.linalg.vector_norm(t, 1, d, keepdim)),
    ("ReduceL2", lambda t, d, keepdim: torch.linalg.vector_norm(t, 2, d, keepdim)),
    ("ReduceSumSquare", lambda t, d, keepdim: (t * t).sum(d, keepdim)),
    ("ReduceLogSumExp", torch.logsumexp),
]


@pytest.mark.parametrize(("op", "function"), REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(op: str, function: Callable[..., Any], keepdims: int) -> None:
    """Ties, which amax splits evenly, and zero vectors included."""
    for points in (x, np.array([[[1.0, 1, 0]], [[0, 0, 0]], [[-2, -2, -2]]])):
        feeds = {"x": points, "axes": np.array([1, -1])}
        compare(op, feeds, lambda t, a: function(t, a.tolist(), keepdim=bool(keepdims)), {"keepdims": keepdims})


@pytest.mark.parametrize("points", [x, np.array([[2.0, 3, 5], [2, 0, 5], [0, 3, 0]])], ids=["smooth", "zeros"])
def test_products(points: np.ndarray) -> None:
    feeds = {"x": points, "axes": np.array([1])}
    compare("ReduceProd", feeds, lambda t, a: torch.prod(t, 1, keepdim=True))
    if points is not x:
        compare("CumProd", {"x": points, "axis": np.array(1)}, lambda t, a: torch.cumprod(t, 1), opset=26)


def test_cumulative_sum() -> None:
    compare("CumSum", {"x": x, "axis": np.array(1)}, lambda t, a: torch.cumsum(t, 1))


@pytest.mark.parametrize("axis", [0, -1])
def test_softmax(axis: int) -> None:
    masked = np.where(x > 1, -np.inf, x)
    for points in (x, masked):
        compare("Softmax", {"x": points}, lambda t: functional.softmax(t, axis), {"axis": axis})
    compare("LogSoftmax", {"x": x}, lambda t: functional.log_softmax(t, axis), {"axis": axis})


@pytest.mark.parametrize("training", [False, True])
def test_batch_normalization(training: bool) -> None:
    def function(t: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
        m, v = mean.detach(), var.detach()
        return functional.batch_norm(t, m.clone(), v.clone(), scale, bias, training=training, eps=1e-3)

    feeds = {"x": x, "scale": positive[0, :, 0], "bias": row[:3], "mean": row[1:4], "var": positive[1, :, 0]}
    attributes = {"epsilon": 1e-3, "training_mode": int(training)}
    outputs = ("y", "m", "v") if training else ("y",)
    wrt = ["x", "scale", "bias"]
    compare("BatchNormalization", feeds, function, attributes, wrt=wrt, outputs=outputs, rtol=1e-6)


def test_layer_normalization() -> None:
    feeds = {"x": x, "scale": positive[0], "bias": x[1]}
    compare(
        "LayerNormalization", feeds, lambda t, s, b: functional.layer_norm(t, (3, 5), s, b, 1e-3),
        {"axis": 1, "epsilon": 1e-3}, rtol=1e-6,
    )  # fmt: skip


def test_instance_and_group_normalization() -> None:
    feeds = {"x": x, "scale": positive[0, :, 0], "bias": row[:3]}
    compare(
        "InstanceNormalization", feeds, lambda t, s, b: functional.instance_norm(t, weight=s, bias=b, eps=1e-3),
        {"epsilon": 1e-3}, rtol=1e-6,
    )  # fmt: skip
    wide = {"x": rng.standard_normal((2, 6, 4)), "scale": positive[0, 0][:1].repeat(6), "bias": rng.standard_normal(6)}
    compare(
        "GroupNormalization", wide, lambda t, s, b: functional.group_norm(t, 3, s, b, 1e-3),
        {"epsilon": 1e-3, "num_groups": 3, "stash_type": 11}, opset=21, rtol=1e-6,
    )  # fmt: skip


def test_rms_normalization() -> None:
    compare(
        "RMSNormalization", {"x": x, "scale": row}, lambda t, s: functional.rms_norm(t, (5,), s, 1e-3),
        {"epsilon": 1e-3}, opset=23, rtol=1e-6,
    )  # fmt: skip


def test_local_response_normalization() -> None:
    compare(
        "LRN", {"x": rng.standard_normal((2, 6, 3, 3))}, lambda t: functional.local_response_norm(t, 3, 0.7, 0.6, 1.3),
        {"size": 3, "alpha": 0.7, "beta": 0.6, "bias": 1.3}, rtol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p: int) -> None:
    compare("LpNormalization", {"x": x}, lambda t: functional.normalize(t, p, -1), {"p": p})


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [1, -100])
def test_losses(reduction: str, ignored: int) -> None:
    target = rng.integers(0, 3, (4, 5))
    target[0] = ignored
    feeds = {"x": x, "t": target, "w": positive[0, :, 0]}
    options: dict[str, Any] = {"reduction": reduction, "ignore_index": ignored}
    for op, name in (("NegativeLogLikelihoodLoss", "nll_loss"), ("SoftmaxCrossEntropyLoss", "cross_entropy")):
        function = getattr(functional, name)
        compare(op, feeds, lambda t, y, w, f=function: f(t, y, w.detach(), **options), options, wrt=["x"])
