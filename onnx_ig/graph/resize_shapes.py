"""Shapes of Resize, where a scale times a length rounds one way in double precision and another in single.

onnx's inference multiplies in double: 12 times the float next to 5/3 is 19.999999, hence 19. ONNX Runtime multiplies in
single precision, 20, which is what the exporter that wrote 20/12 meant. Nothing in the standard decides, so such a length
is left to be read when the model runs.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

__all__ = ["resized", "rounds"]

_EXACT = 2.0**12
"""Scales that are whole multiples of 1 / 2^12 and below 2^12 are exact in both, for lengths below 2^12 at the least."""


def rounds(node: ir.Node) -> bool:
    """Whether this is a Resize by fixed scales of which one is not exact."""
    scales = _scales(node)
    return scales is not None and bool(((scales * _EXACT) % 1 != 0).any() or (scales >= _EXACT).any())


def resized(node: ir.Node) -> tuple[ir.TypeProtocol | None, ir.Shape | None]:
    """Type and shape of the output of such a Resize; None for lengths that the precision decides."""
    x, scales = node.inputs[0], _scales(node)
    assert x is not None
    assert scales is not None
    if x.shape is None:
        return x.type, None
    given = node.attributes.get_ints("axes", None)
    axes = range(len(x.shape)) if given is None else [a % len(x.shape) for a in given]
    cropped = node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    dims: list[int | ir.SymbolicDim | None] = list(x.shape)
    for axis, scale in zip(axes, scales, strict=False):
        dim = dims[axis]
        if scale != 1:
            dims[axis] = _length(dim, scale) if isinstance(dim, int) and not cropped else None
    return x.type, ir.Shape(dims)


def _length(dim: int, scale: np.float64) -> int | None:
    double, single = int(dim * float(scale)), int(np.float32(dim) * np.float32(scale))
    return double if double == single else None


def _scales(node: ir.Node) -> np.ndarray | None:
    """The scales of a Resize, where the file fixes them."""
    if node.op_type != "Resize" or node.domain != "" or len(node.inputs) < 3:
        return None
    value = node.inputs[2]
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    scales = np.ravel(value.const_value.numpy()).astype(np.float64)
    return scales if scales.size else None
