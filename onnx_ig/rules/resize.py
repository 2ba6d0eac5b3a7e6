"""Resize: a linear map along each axis (affine where tf_crop_and_resize extrapolates), whose adjoint is taken axis by
axis from the operator itself, so that it agrees with the runtime in every mode.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.broadcast import same_dim
from onnx_ig.rules.context import Context
from onnx_ig.rules.dims import Vector, dims, joined, known_dims
from onnx_ig.rules.registry import gradient
from onnx_ig.rules.separable import along_axis, identity
from onnx_ig.rules.shape_origin import is_length_of

Values = tuple[ir.Value | None, ...]

_ATTRIBUTES = (
    "antialias", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "mode", "nearest_mode",
)  # fmt: skip


@gradient("Resize")
def resize(c: Context, gy: ir.Value) -> Values:
    """gx = gy times the transposed matrix of each axis, and the matrix is the Resize of an identity along that axis.

    Any rank and mode; x [..., L, ...], y [..., n, ...]. Source: ONNX Resize-19.
    """
    if c.wants(1) or c.wants(2):
        raise c.refuse(
            "a path leads to its roi or scales, and the output is not differentiable by them",
            "Compute them from shapes or constants, or attribute a value behind the node.",
        )
    rank, g = _rank(c), gy
    factors = _repeats(c, rank)
    if factors is not None:
        return (_folded(c, gy, factors), None, None, None)
    for place, axis in reversed(list(enumerate(_axes(c, rank)))):
        if not _unchanged(c, place, axis):
            matrix = _matrix(c, place, axis, rank)
            g = along_axis(c.op, g, matrix, axis, rank)
    if g is gy:
        return (c.op.Identity(gy), None, None, None)
    return (g, None, None, None)


def _rank(c: Context) -> int:
    for value in (c.operand(0), c.output):
        if value.shape is not None:
            return len(value.shape)
    for index in (2, 3):
        given = _given(c, index)
        if given is not None and given.shape is not None and isinstance(given.shape[0], int) and not c.attr("axes"):
            return int(given.shape[0])
    raise c.refuse("the number of axes of its input is not known", "Declare the shapes of the model's inputs.")


def _axes(c: Context, rank: int) -> list[int]:
    """The axes that scales, sizes and roi speak of, in their order."""
    axes = c.attr("axes")
    return list(range(rank)) if axes is None else [int(a) % rank for a in axes]


def _given(c: Context, index: int) -> ir.Value | None:
    """Operand `index`, None where it is left out or an empty constant."""
    value, fixed = c.input(index), c.constant(c.input(index))
    return None if value is None or (fixed is not None and fixed.size == 0) else value


def _unchanged(c: Context, place: int, axis: int) -> bool:
    """Whether the operator is known to copy this axis."""
    scales, sizes, roi = _given(c, 2), _given(c, 3), _given(c, 1)
    if c.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        fixed = c.constant(roi)
        if fixed is None or fixed[place] != 0 or fixed[place + fixed.size // 2] != 1:
            return False
    if scales is not None:
        fixed = c.constant(scales)
        return fixed is not None and fixed[place] == 1
    if c.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False
    x, y = c.operand(0), c.output
    if x.shape is not None and y.shape is not None and same_dim(x.shape[axis], y.shape[axis]):
        return True
    return sizes is not None and is_length_of(sizes, place, x, axis)


def _matrix(c: Context, place: int, axis: int, rank: int) -> ir.Value:
    """[L, n]: the operator on the rows of an identity, laid out [L, 1, 1, L], which every mode accepts."""
    op, x = c.op, c.operand(0)
    length, number = dims(op, x, axis, axis + 1), dims(op, c.output, axis, axis + 1)
    rows = identity(op, length, c.dtype(x))
    attributes = {name: c.attr(name) for name in _ATTRIBUTES}
    if c.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return _matrix_of_policy(c, rows, place, axis, rank, attributes)
    rows = op.Reshape(rows, joined(op, length, [1, 1], length), allowzero=1)
    scales, roi = _given(c, 2), _given(c, 1)
    factors = sizes = None
    if scales is None:
        wanted = joined(op, length, [1, 1], number)
        sizes = op.constant(np.asarray(wanted, np.int64)) if isinstance(wanted, list) else wanted
    else:
        factors = _floats(c, [1.0, 1.0, 1.0], scales, place)
    region = None
    if roi is not None and attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        half = len(_axes(c, rank))
        start, end = _floats(c, [0.0, 0.0, 0.0], roi, place), _floats(c, [1.0, 1.0, 1.0], roi, place + half)
        region = op.Concat(start, end, axis=0)
    matrix = op.Resize(rows, region, factors, sizes, **attributes)
    return op.Reshape(matrix, joined(op, length, number), allowzero=1)


def _floats(c: Context, leading: list[float], values: ir.Value, index: int) -> ir.Value:
    dtype = c.dtype(values).numpy()
    return c.op.Concat(np.asarray(leading, dtype), c.op.Slice(values, [index], [index + 1]), axis=0)


def _matrix_of_policy(
    c: Context, rows: ir.Value, place: int, axis: int, rank: int, attributes: dict[str, object]
) -> ir.Value:
    """As `_matrix` where the scale of an axis depends on the lengths of the others (keep_aspect_ratio_policy).

    The identity lies along this axis and an axis that is not resized, and is constant along the others: at their first
    position the weights of those add up to one.
    """
    op, x, axes = c.op, c.operand(0), _axes(c, rank)
    free = [a for a in range(rank) if a not in axes]
    if not free:
        raise c.refuse(
            "keep_aspect_ratio_policy over all axes ties the batch to the lengths",
            "Name the resized axes (attribute axes).",
        )
    length = dims(op, x, axis, axis + 1)
    shape: list[Vector] = [dims(op, x, a, a + 1) if a in axes else [1] for a in range(rank)]
    shape[free[0]] = length
    thin: list[Vector] = [length if a in (axis, free[0]) else [1] for a in range(rank)]
    laid = op.Expand(op.Reshape(rows, joined(op, *thin), allowzero=1), joined(op, *shape))
    out = op.Resize(
        laid, None, None, c.operand(3), axes=axes, keep_aspect_ratio_policy=c.attr("keep_aspect_ratio_policy"),
        **attributes,
    )  # fmt: skip
    others = [a for a in axes if a != axis]
    if others:
        out = op.Slice(out, [0] * len(others), [1] * len(others), others)
    return op.Reshape(out, joined(op, length, dims(op, c.output, axis, axis + 1)), allowzero=1)


def _repeats(c: Context, rank: int) -> list[int] | None:
    """How many times each spatial element is repeated, where the operator does just that; else None.

    Nearest neighbours at integer scales, in the coordinate modes of PyTorch and TensorFlow.
    """
    if (
        c.attr("mode", "nearest") != "nearest"
        or not 3 <= rank <= 5
        or c.attr("keep_aspect_ratio_policy") not in (None, "stretch")
    ):
        return None
    coordinates = c.attr("coordinate_transformation_mode", "half_pixel")
    rounding = c.attr("nearest_mode", "round_prefer_floor")
    floors = coordinates in ("asymmetric", "tf_half_pixel_for_nn") and rounding == "floor"
    rounds = coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel") and rounding.startswith(
        "round"
    )
    scales, x = c.constant(_given(c, 2)), c.operand(0)
    if not (floors or rounds):
        return None
    factors = [1.0] * rank
    for place, axis in enumerate(_axes(c, rank)):
        if scales is not None:
            factors[axis] = float(scales[place])
        elif not _unchanged(c, place, axis):
            before, after = known_dims(x, axis, axis + 1), known_dims(c.output, axis, axis + 1)
            if _given(c, 2) is not None or not before or not after or before[0] == 0:
                return None
            factors[axis] = after[0] / before[0]
    if any(f != int(f) or f < 1 for f in factors) or any(f != 1 for f in factors[:2]):
        return None
    return [int(f) for f in factors[2:]]


def _folded(c: Context, gy: ir.Value, factors: list[int]) -> ir.Value:
    """The sum over each block of repeats, as a pooling: it keeps the runtime's blocked layout."""
    means = c.op.AveragePool(gy, kernel_shape=factors, strides=factors)
    return c.op.Mul(means, float(np.prod(factors)))
