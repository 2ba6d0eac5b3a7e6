"""Operators that hand their operand on: Identity, casts, Dropout at inference; and BitCast, which does not."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]


@gradient("Identity")
def identity(c: Context, gy: ir.Value) -> Values:
    """gx = gy. Source: ONNX Identity-16."""
    return (gy,)


@gradient("Cast", "CastLike")
def cast(c: Context, gy: ir.Value) -> Values:
    """gx = gy in the type of x; the operand that names the type gets nothing. Source: ONNX Cast-19, CastLike-19.

    Only casts between float types come here: a cast to integers ends the path.
    """
    x = c.operand(0)
    gx = gy if x.dtype == gy.dtype else c.op.Cast(gy, to=c.dtype(x).value)
    return gx, *(None,) * (len(c.inputs) - 1)


@gradient("BitCast", carries=(0,))
def bit_cast(c: Context, gy: ir.Value) -> Values:
    """Refused where a path leads through it, to integers too: it is no function of numbers. Source: ONNX BitCast-26."""
    raise c.refuse("it reads the bits of a number as those of another type", "Choose values behind it.")


@gradient("Dropout")
def dropout(c: Context, gy: ir.Value | None, gmask: ir.Value | None = None) -> Values:
    """gx = gy where the operator is the identity: at inference, or with ratio 0. Source: ONNX Dropout-13.

    Refused in training mode, and where the mode is only known at run time: the output is then a random draw.
    """
    training, ratio = c.input(2), c.constant(c.input(1))
    if training is not None and not (ratio is not None and float(ratio.reshape(())) == 0):
        mode = c.constant(training)
        if mode is None:
            raise c.refuse(
                "its training_mode is computed at run time, so its output may be random",
                "Export the model for inference (training_mode a constant false).",
            )
        if bool(mode.reshape(())):
            raise c.refuse("training_mode is true, so its output is random", "Export the model for inference.")
    return gy, *(None,) * (len(c.inputs) - 1)
