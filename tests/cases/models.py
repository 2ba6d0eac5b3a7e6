"""Small networks with known attributions, written out in ONNX's text form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import parser

import onnx_ig
from onnx_ig import Attribution

__all__ = ["attribute", "model", "served"]

_PARTS = "<int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, {t}[1] one = {1.0}, {t}[1] two = {2.0}, {t}[1] five = {5.0}>"
_SPLIT = {1: "x1 = Gather <axis = 1> (x, i0)", 2: "x2 = Gather <axis = 1> (x, i1)", 3: "x3 = Gather <axis = 1> (x, i2)"}


def model(body: str, features: int = 2, kind: str = "double", outputs: int = 1) -> onnx.ModelProto:
    """x [N, features] -> y [N, outputs]; `x1`, `x2`, `x3` are its columns [N, 1], `one`, `two`, `five` constants."""
    columns = " ".join(_SPLIT[i] for i in range(1, features + 1) if f"x{i}" in body)
    constants = _PARTS.replace("{t}", kind)
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 17]> g ({kind}[N,{features}] x) => ({kind}[N,{outputs}] y) {constants} '
        f"{{ {columns} {body} }}"
    )


def attribute(
    m: onnx.ModelProto, x: Any, method: str = "integrated_gradients", dtype: Any = np.float64, **options: Any
) -> Attribution:
    """`Explainer.attribute` of rows `x`."""
    target = options.pop("target", 0)
    return onnx_ig.Explainer(m, method).attribute(np.asarray(x, dtype), target=target, **options)


def served(
    m: onnx.ModelProto, x: Any, method: str = "integrated_gradients", dtype: Any = np.float64, **options: Any
) -> Any:
    """The same from the one-file model."""
    augmented = onnx_ig.rewrite(m, method, target=0, **options)
    return onnx_ig.runtime.load(augmented.SerializeToString()).run(np.asarray(x, dtype))["x"]
