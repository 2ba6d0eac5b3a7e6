"""jax2onnx on a case."""

from __future__ import annotations

import warnings

import jax
import onnx
from jax2onnx import to_onnx

from tests.frameworks.jax.networks import Case


def export(case: Case) -> onnx.ModelProto:
    """The case as ONNX, its inputs under their own names, its output called `logits`."""
    inputs = [
        jax.ShapeDtypeStruct(tuple(case.axes[k].get(i, d) for i, d in enumerate(x.shape)), x.dtype)
        for k, x in case.feeds.items()
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_onnx(case.function, inputs, input_names=list(case.feeds), output_names=["logits"])
