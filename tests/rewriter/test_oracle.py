"""Scores of outputs whose rank the file does not tell."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnx_ig

pytest.importorskip("onnxruntime")


@pytest.mark.filterwarnings("ignore::onnx_ig.OnnxIgWarning")
def test_an_output_of_unknown_rank() -> None:
    """The shape comes from outside and says [N, 2, 2]."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (float[N, 4] x, int64[K] sizes) => (float y) { z = Mul (x, x)  y = Reshape (z, sizes) }"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    explainer = onnx_ig.Explainer(model, batch_axes={"x": 0, "sizes": None})
    found = explainer.attribute({"x": x, "sizes": np.array([-1, 2, 2])}, target=np.array([[0, 1], [1, 0], [1, 1]]))
    expected = np.zeros((3, 4), np.float32)
    expected[[0, 1, 2], [1, 2, 3]] = [4, 49, 144]
    np.testing.assert_allclose(found["x"], expected, rtol=1e-6)
    np.testing.assert_allclose(found.convergence_delta, 0, atol=1e-4)
