"""RNN: a backward Scan that carries the cotangent of the hidden state."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.context import Context
from onnx_ig.rules.recurrent import Cotangents, Direction, Recurrent, scan
from onnx_ig.rules.registry import gradient

Value = ir.Value


@gradient("RNN")
def rnn(c: Context, *cotangents: Value | None) -> list[Value | None]:
    """With h = f(z), z = x W^T + h' R^T + b, ' one step before: gz = gh f'(z); gh' = gy' + gz R.

    gx = gz W, gW = gz^T x, gR = gz^T h', gb = sum of gz. Steps beyond a sequence's length pass gh on.
    Shapes: x [S, N, I], h and z [N, H], W [H, I], R [H, H]. Source: ONNX RNN-14; Elman 1990.
    """
    parts = Recurrent(c, 1, ["Tanh"])
    return parts.put_together([_direction(parts, d) for d in parts.taken_apart(cotangents)])


def _direction(parts: Recurrent, d: Direction) -> Cotangents:
    op, f = parts.op, d.functions[0]
    if f.slope_of_value and parts.clip is None:
        slope = f.slope(op, d.y, d.y)
    else:
        bias = None if d.wb is None else op.Add(d.wb, d.rb)
        slope = parts.slope(f, parts.steps(parts.product(d.previous, d.r, parts.product(d.x, d.w, bias)), d.x), d.y)
    into_z = parts.within(d, slope, 0.0)
    beyond = parts.beyond(d)
    last = parts.zero_state(d.x) if d.gy_h is None else d.gy_h

    def step(op: Emitter, states: list[Value], read: list[Value]) -> tuple[list[Value], list[Value]]:
        slope, *more = read
        gh = states[0] if d.gy is None else op.Add(states[0], more.pop(0))
        gz = op.Mul(gh, slope)
        before = op.MatMul(gz, d.r)
        if beyond is not None:
            before = op.Add(before, op.Mul(gh, more.pop(0)))
        return [before], [gz]

    items = [into_z, *(v for v in (d.gy, beyond) if v is not None)]
    (first,), (gz,) = scan(parts.c, [last], items, step, backwards=not d.backwards)
    found = parts.of_products(d, gz, gz)
    found.h0 = first
    return found
