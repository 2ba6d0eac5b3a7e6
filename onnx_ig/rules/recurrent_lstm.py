"""LSTM: gates recomputed in one product, cell states by a light Scan, a backward Scan that carries two cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.context import Context
from onnx_ig.rules.recurrent import Cotangents, Direction, Recurrent, scan, sum_rows
from onnx_ig.rules.registry import gradient

__all__ = ["lstm", "lstm_directions"]

Value = ir.Value


@gradient("LSTM")
def lstm(c: Context, *cotangents: Value | None) -> list[Value | None]:
    """With i, o, f, g the gates of z = x W^T + h' R^T + b (+ P c), c = f c' + i g, h = o k(c), ' one step before:

        gh = gy + gz[next] R;  gc = gc[next] f[next] + gh o k'(c)
        gz = [gc g di | gh k(c) do | gc c' df | gc i dg];  gx = gz W, gW = gz^T x, gR = gz^T h', gb = sum of gz

    with di ... the slopes of the gates. Peepholes add to gc what do takes from c and di, df take from c'; input_forget
    makes f = 1 - i. Steps beyond a sequence's length pass gh and gc on. z comes from the h given out in one product and
    c from a Scan, so that only gh and gc are carried.
    Shapes: x [S, N, I], h and c [N, H], z [N, 4H], W [4H, I], R [4H, H].
    Source: ONNX LSTM-14; Hochreiter & Schmidhuber 1997; Gers & Schmidhuber 2000 (peepholes).
    """
    parts = Recurrent(c, 4, ["Sigmoid", "Tanh", "Tanh"])
    return parts.put_together(lstm_directions(parts, cotangents))


def lstm_directions(parts: Recurrent, cotangents: Sequence[Value | None]) -> list[Cotangents]:
    """What each direction of an LSTM contributes, from the cotangents of Y, Y_h and Y_c."""
    gy_c = cotangents[2] if len(cotangents) > 2 else None
    return [_direction(parts, d, parts.final(gy_c, d)) for d in parts.taken_apart(cotangents)]


def _direction(parts: Recurrent, d: Direction, gy_c: Value | None) -> Cotangents:
    c, op = parts.c, parts.op
    forward = _forward(parts, d)
    beyond = parts.beyond(d)
    last_h = parts.zero_state(d.x) if d.gy_h is None else d.gy_h
    last_c = parts.zero_state(d.x) if gy_c is None else gy_c
    factors = [forward.z, forward.c, forward.carry]
    items = factors + [v for v in (d.gy, beyond) if v is not None]

    def step(op: Emitter, states: list[Value], read: list[Value]) -> tuple[list[Value], list[Value]]:
        gh, gc = states
        into_z, into_c, carry, *more = read
        if d.gy is not None:
            gh = op.Add(gh, more.pop(0))
        gc = op.Add(gc, op.Mul(gh, into_c))
        gz = op.Mul(op.Concat(gc, gh, gc, gc, axis=-1), into_z)
        before = op.MatMul(gz, d.r)
        if beyond is not None:
            before = op.Add(before, op.Mul(gh, more.pop(0)))
        return [before, op.Mul(gc, carry)], [gz]

    (first_h, first_c), (gz,) = scan(c, [last_h, last_c], items, step, backwards=not d.backwards)
    found = parts.of_products(d, gz, gz)
    found.h0, found.c0 = first_h, first_c
    if c.wants(7):
        gi, go, gf, _ = op.Split(gz, num_outputs=4, axis=-1, outputs=4)
        sums = [op.Mul(gi, forward.before), op.Mul(go, forward.state), op.Mul(gf, forward.before)]
        found.p = op.Concat(*(sum_rows(op, v) for v in sums), axis=0)
    return found


@dataclass
class _Forward:
    """Of the forward pass: cell states `state` and, one step before, `before`; what a cotangent is multiplied with.

    `z` [S, N, 4H] from (gc, gh, gc, gc) into z, `c` from gh into gc, `carry` from gc into the gc of the step before; all
    others [S, N, H].
    """

    state: Value
    before: Value
    z: Value
    c: Value
    carry: Value


def _forward(parts: Recurrent, d: Direction) -> _Forward:
    c, op = parts.c, parts.op
    f, g, k = d.functions
    bias = None if d.wb is None else op.Add(d.wb, d.rb)
    z = parts.steps(parts.product(d.previous, d.r, parts.product(d.x, d.w, bias)), d.x)
    zi, zo, zf, zg = op.Split(z, num_outputs=4, axis=-1, outputs=4)
    new = g.value(op, parts.clipped(zg))
    peepholes = c.input(7)
    p: list[Value] = []
    if peepholes is not None:
        p = list(op.Split(parts.own(peepholes, d.index), num_outputs=3, axis=0, outputs=3))
    coupled = c.attr("input_forget", 0) == 1
    c0 = parts.state(c.input(6), d.index)
    first = parts.zero_state(d.x) if c0 is None else c0
    if p:
        state = _cells_with_peepholes(parts, d, first, [zi, zf, new], p, coupled)
    else:
        i = f.value(op, parts.clipped(zi))
        forget = op.Sub(1.0, i) if coupled else f.value(op, parts.clipped(zf))
        state = _cells(parts, d, first, forget, op.Mul(i, new))
    before = parts.shifted(state, c0, d.backwards)
    if p:
        zi, zo, zf = op.Add(zi, op.Mul(before, p[0])), op.Add(zo, op.Mul(state, p[1])), op.Add(zf, op.Mul(before, p[2]))
        i = f.value(op, parts.clipped(zi))
        forget = op.Sub(1.0, i) if coupled else f.value(op, parts.clipped(zf))
    o, out = f.value(op, parts.clipped(zo)), k.value(op, state)
    into_i = op.Mul(op.Sub(new, before) if coupled else new, parts.slope(f, zi, i))
    into_o = op.Mul(out, parts.slope(f, zo, o))
    into_f = op.Mul(into_i, 0.0) if coupled else op.Mul(before, parts.slope(f, zf, forget))
    into_g = op.Mul(i, parts.slope(g, zg, new))
    into_c = op.Mul(o, k.slope(op, state, out))
    carry = forget
    if p:
        into_c = op.Add(into_c, op.Mul(into_o, p[1]))
        carry = op.Add(carry, op.Add(op.Mul(into_i, p[0]), op.Mul(into_f, p[2])))
    into_z = op.Concat(into_i, into_o, into_f, into_g, axis=-1)
    return _Forward(
        state, before, parts.within(d, into_z, 0.0), parts.within(d, into_c, 0.0), parts.within(d, carry, 1.0)
    )


def _cells(parts: Recurrent, d: Direction, first: Value, forget: Value, new: Value) -> Value:
    """c = forget c' + new for all steps; steps beyond the length keep c'."""
    forget, new = parts.within(d, forget, 1.0), parts.within(d, new, 0.0)

    def step(op: Emitter, states: list[Value], read: list[Value]) -> tuple[list[Value], list[Value]]:
        kept = op.Mul(states[0], read[0])
        return [op.Add(kept, read[1])], [kept]  # to stack the state itself too would copy it in every step

    _, (kept,) = scan(parts.c, [first], [forget, new], step, backwards=d.backwards)
    return parts.op.Add(kept, new)


def _cells_with_peepholes(
    parts: Recurrent, d: Direction, first: Value, gates: list[Value], p: list[Value], coupled: bool
) -> Value:
    """The same where the gates themselves read the cell state; `gates` are z_i, z_f and g."""
    f = d.functions[0]
    items = gates if d.valid is None else [*gates, d.valid]

    def step(op: Emitter, states: list[Value], read: list[Value]) -> tuple[list[Value], list[Value]]:
        cell = states[0]
        zi, zf, new = read[:3]
        i = f.value(op, parts.clipped(op.Add(zi, op.Mul(cell, p[0])), op))
        forget = op.Sub(1.0, i) if coupled else f.value(op, parts.clipped(op.Add(zf, op.Mul(cell, p[2])), op))
        following = op.Add(op.Mul(forget, cell), op.Mul(i, new))
        if d.valid is not None:
            following = op.Where(read[3], following, cell)
        return [following], [following]

    _, (state,) = scan(parts.c, [first], items, step, backwards=d.backwards)
    return state
