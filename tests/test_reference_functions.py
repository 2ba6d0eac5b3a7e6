"""The elementary float64 operators of the oracle compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.gradcheck import Runner, node_model
from tests.reference_functions import FUNCTIONS

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("op", "attributes", "operands"),
    [
        ("Erf", {}, 1),
        ("Gelu", {}, 1),
        ("Gelu", {"approximate": "tanh"}, 1),
        ("LRN", {"size": 1}, 1),
        ("LRN", {"size": 3, "alpha": 0.7, "beta": 0.6, "bias": 1.3}, 1),
        ("LRN", {"size": 9, "alpha": 0.7}, 1),
        ("Mean", {}, 3),
        ("MeanVarianceNormalization", {}, 1),
        ("MeanVarianceNormalization", {"axes": [0, 1]}, 1),
        ("Softsign", {}, 1),
    ],
)
def test_agrees_with_the_runtime(op: str, attributes: dict[str, Any], operands: int) -> None:
    shapes = [(2, 5, 3, 2), (3, 1), (2, 1, 1, 1)][:operands]
    feeds = {f"x{i}": rng.standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)}
    model = node_model(op, feeds, attributes, dtype=np.float32)
    got = ReferenceEvaluator(model, new_ops=FUNCTIONS).run(None, feeds)[0]
    np.testing.assert_allclose(got, Runner(model)(feeds)[0], atol=1e-5)
