"""Rules in float16: right type, and as near to float64 as the type allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import gradients_of, node_model

rng = np.random.default_rng(13)
x = rng.uniform(0.2, 0.9, (2, 3, 4))
channel = rng.uniform(0.5, 1.5, 3)
row = rng.uniform(0.5, 1.5, 4)
target = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])

UNARY = [
    "Neg", "Abs", "Reciprocal", "Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh",
    "Cosh", "Asinh", "Atanh", "Identity", "Relu", "LeakyRelu", "Elu", "Selu", "Gelu", "HardSigmoid", "HardSwish",
    "Softplus", "Sigmoid", "Tanh", "Softsign", "Mish", "Softmax", "LogSoftmax", "LpNormalization",
]  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "PRelu"]
REDUCTIONS = ["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Prod"]
CASES: list[tuple[str, dict[str, np.ndarray], dict[str, Any], int]] = [
    *((op, {"x": x}, {}, 20) for op in UNARY),
    *((op, {"a": x, "b": row}, {}, 20) for op in BINARY),
    *((f"Reduce{op}", {"x": x, "axes": np.array([1])}, {}, 20) for op in REDUCTIONS),
    ("Gelu", {"x": x}, {"approximate": "tanh"}, 20),
    ("Swish", {"x": x}, {}, 24),
    ("Acosh", {"x": x + 1}, {}, 20),
    ("Mod", {"a": x, "b": row}, {"fmod": 1}, 20),
    ("Clip", {"x": x, "low": np.array(0.3), "high": np.array(0.6)}, {}, 20),
    ("Where", {"c": x > 0.5, "a": x, "b": row}, {}, 20),
    ("CumSum", {"x": x, "axis": np.array(1)}, {}, 20),
    ("BatchNormalization", {"x": x, "s": channel, "b": channel, "m": channel, "v": channel}, {}, 20),
    ("LayerNormalization", {"x": x, "s": row, "b": row}, {}, 20),
    ("InstanceNormalization", {"x": x, "s": channel, "b": channel}, {}, 20),
    ("GroupNormalization", {"x": x, "s": channel, "b": channel}, {"num_groups": 3}, 21),
    ("RMSNormalization", {"x": x, "s": row}, {}, 24),
    ("LRN", {"x": x[..., None]}, {"size": 3, "alpha": 0.5}, 20),
    ("MeanVarianceNormalization", {"x": x[..., None]}, {}, 20),
    ("NegativeLogLikelihoodLoss", {"x": x, "t": target, "w": channel}, {}, 20),
    ("SoftmaxCrossEntropyLoss", {"x": x, "t": target, "w": channel}, {}, 20),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "opset"), CASES, ids=[c[0] for c in CASES])
def test_float16(op: str, inputs: dict[str, np.ndarray], attributes: dict[str, Any], opset: int) -> None:
    floats = [n for n, a in inputs.items() if a.dtype.kind == "f"]
    single = {n: a.astype(np.float16) if n in floats else a for n, a in inputs.items()}
    exact = {n: a.astype(np.float64) if n in floats else a for n, a in single.items()}
    shape = next(iter(inputs.values())).shape
    if op.startswith("Reduce"):
        shape = (2, 1, 4)
    elif op.endswith("Loss"):
        shape = ()
    cotangent = rng.standard_normal(shape)
    model = node_model(op, single, attributes, opset=opset, dtype=np.float16)
    got = gradients_of(model, single, "y", floats, cotangent.astype(np.float16))
    model = node_model(op, exact, attributes, opset=opset)
    expected = gradients_of(model, exact, "y", floats, cotangent)
    for name in floats:
        assert got[name].dtype == np.float16
        np.testing.assert_allclose(got[name], expected[name], atol=1e-2 * max(1, np.abs(expected[name]).max()))
