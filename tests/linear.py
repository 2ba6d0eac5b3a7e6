"""The oracle of linear operators: ONNX Runtime's own forward, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.gradcheck import SHAPES, Runner, gradients_of, node_model

__all__ = ["check_linear"]


def static_type(array: np.ndarray | None) -> onnx.TypeProto:
    """The type of an array, with its shape."""
    assert array is not None
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def check_linear(
    op_type: str,
    inputs: Mapping[str, np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    wrt: str = "x",
    constants: Sequence[str] = (),
    opset: int = 20,
    shapes: Sequence[str] = SHAPES,
    dtype: Any = np.float32,
    atol: float = 2e-5,
    runtime: str = "generic",
    fixed: Sequence[str] = (),
) -> None:
    """Compare the gradient by `wrt`, in which the operator is affine, with the matrix of the operator.

    Column i of the matrix is f(e_i) - f(0), computed by the forward node itself in the runtime under test. Inputs in
    `fixed` keep their shape in the declarations of every kind.
    """
    feeds = {n: a.astype(dtype) if n == wrt else a for n, a in inputs.items() if a is not None and n not in constants}
    for kind in shapes:
        model = node_model(op_type, inputs, attributes, constants=constants, opset=opset, shapes=kind, dtype=dtype)
        for declared in model.graph.input:
            if declared.name in fixed:
                declared.type.CopyFrom(static_type(inputs[declared.name]))
        forward = Runner(model)
        at_zero = forward({**feeds, wrt: np.zeros_like(feeds[wrt])})[0]
        cotangent = np.random.default_rng(5).standard_normal(at_zero.shape).astype(dtype)
        got = gradients_of(model, feeds, "y", [wrt], cotangent, runtime=runtime)[wrt]
        expected = np.zeros(feeds[wrt].shape)
        for place in np.ndindex(*expected.shape):
            unit = np.zeros_like(feeds[wrt])
            unit[place] = 1
            expected[place] = ((forward({**feeds, wrt: unit})[0] - at_zero).astype(np.float64) * cotangent).sum()
        assert got.shape == expected.shape, (kind, got.shape, expected.shape)
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(got, expected, rtol=0, atol=atol * scale, err_msg=kind)
