"""One-file models of narrow floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import onnx_ig

rng = np.random.default_rng(1)
W = rng.standard_normal((3, 2)).astype(np.float32)


def linear_and_relu(kind: int) -> onnx.ModelProto:
    """y = Relu(x w) in a narrow type."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, ["N", 3])],
        [helper.make_tensor_value_info("y", kind, ["N", 2])],
        [helper.make_tensor("w", kind, [3, 2], W.ravel().tolist())],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("loop", ["batched", "looped"])
@pytest.mark.parametrize(
    ("kind", "dtype"), [(TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, ml_dtypes.bfloat16)]
)
def test_attributions_have_the_type_of_the_input(kind: int, dtype: Any, loop: str) -> None:
    """No CPU kernels for bfloat16: the reference runs both. From zero a linear piece gets x times its weights."""
    model = onnx_ig.rewrite(linear_and_relu(kind), n_steps=4, loop=loop)
    onnx.checker.check_model(model, full_check=True)
    x = np.abs(rng.standard_normal((2, 3))).astype(dtype)
    names = [o.name for o in model.graph.output]
    outputs = dict(zip(names, ReferenceEvaluator(model).run(None, {"x": x}), strict=True))
    found = np.asarray(outputs["x_attribution"])
    assert found.dtype == dtype
    wide, target = x.astype(np.float32), np.asarray(outputs["attributed_target"])[:, 0]
    score = np.take_along_axis(wide @ W.astype(dtype).astype(np.float32), target[:, None], 1)
    expected = wide * W.astype(dtype).astype(np.float32).T[target] * (score > 0)
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2e-2, atol=2e-2)
    assert np.asarray(outputs["convergence_delta"]).dtype == np.float32
