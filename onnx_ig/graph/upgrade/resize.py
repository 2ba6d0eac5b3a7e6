"""Upsample and Resize-10: output sample i reads the input at i / scale, which later opsets call asymmetric."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.upgrade.adapter import FOREVER, Old, adapter

_UP = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
_DOWN = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}


@adapter("Upsample", until=FOREVER)
def upsample(o: Old) -> None:
    """Became Resize. The scales are `height_scale` and `width_scale` (opset 1), `scales` (7), an operand (9)."""
    scales = o.take("scales")
    if scales is None and "height_scale" in o.node.attributes:
        scales = [1.0, 1.0, o.take("height_scale"), o.take("width_scale")]
    given = o.op.constant(np.asarray(scales, np.float32)) if scales is not None else o.operand(1)
    if given is None:
        raise o.refuse("it has no scales")
    mode = o.take("mode", "nearest")
    o.node.op_type = "Resize"
    _become_resize(o, given, "linear" if mode == "bilinear" else mode, _UP)


@adapter("Resize", until=11)
def resize(o: Old) -> None:
    """Nearest means the sample below when an axis grows and the one above when it shrinks, as ONNX Runtime does it.

    An axis whose scale is not known before run time is resized twice, once for each case with the other one at 1.
    """
    scales, mode = o.operand(1), o.take("mode", "nearest")
    if scales is None:
        raise o.refuse("it has no scales")
    if mode != "nearest":
        _become_resize(o, scales, mode, _UP)
        return
    known = None if scales.const_value is None or scales.is_graph_input() else scales.const_value.numpy()
    if known is not None and (known >= 1).all():
        _become_resize(o, scales, mode, _UP)
    elif known is not None and (known <= 1).all():
        _become_resize(o, scales, mode, _DOWN)
    else:
        grown = o.op.Resize(o.x, None, o.op.Max(scales, np.float32(1)), mode=mode, **_UP)
        o.put_operand(0, grown)
        _become_resize(o, o.op.Min(scales, np.float32(1)), mode, _DOWN)


def _become_resize(o: Old, scales: ir.Value, mode: str, how: dict[str, str]) -> None:
    o.put_operand(1, None)
    o.put_operand(2, scales)
    o.put("mode", mode)
    for name, value in how.items():
        if name != "nearest_mode" or mode == "nearest":
            o.put(name, value)
