"""Lengths that one precision rounds down and the other does not are read when the model runs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import onnx_ig
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.gradcheck import Runner

rng = np.random.default_rng(2)


def model(scale: float, length: int, mode: str = "linear") -> onnx.ModelProto:
    written = np.float32(scale).item()
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 17]> g (float[N,2,{length},{length}] x) => (float[N,F] y) '
        f"<float[4] s = {{1, 1, {written!r}, {written!r}}}> "
        f'{{ r = Resize <mode = "{mode}"> (x, , s) t = Tanh(r) y = Flatten(t) }}'
    )


@pytest.mark.parametrize(
    ("scale", "length", "known"),
    [(20 / 12, 12, None), (10 / 12, 12, None), (0.35, 20, None), (0.7, 9, 6), (2.0, 12, 24), (1.5, 7, 10)],
)
def test_the_length_is_told_where_both_agree(scale: float, length: int, known: int | None) -> None:
    resized = next(n for n in prepare(load(model(scale, length))).graph if n.op_type == "Resize").outputs[0]
    assert resized.shape is not None
    assert [d if isinstance(d, int) else None for d in resized.shape][1:] == [2, known, known]
    assert resized.dtype is not None


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize(("scale", "length"), [(20 / 12, 12), (0.35, 20), (0.7, 9)])
def test_gradients(scale: float, length: int, mode: str) -> None:
    """Against differences of what ONNX Runtime computes."""
    original = model(scale, length, mode)
    x = rng.standard_normal((2, 2, length, length)).astype(np.float32)
    run, gradient = Runner(original), Runner(onnx_ig.add_gradients(original))
    cotangent = rng.standard_normal(run({"x": x})[0].shape).astype(np.float32)
    found = gradient({"x": x, "grad_y": cotangent})[1]
    aside = rng.standard_normal(x.shape).astype(np.float32)
    there, back = (run({"x": x + h * aside})[0].astype(np.float64) for h in (1e-2, -1e-2))
    expected = ((there - back) / 2e-2 * cotangent).sum()
    np.testing.assert_allclose((found * aside).sum(), expected, rtol=2e-2, atol=1e-2)
