"""GRU: gates recomputed in one product, a backward Scan that carries the cotangent of the hidden state."""

from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.context import Context
from onnx_ig.rules.recurrent import Cotangents, Direction, Recurrent, scan
from onnx_ig.rules.registry import gradient

Value = ir.Value


@gradient("GRU")
def gru(c: Context, *cotangents: Value | None) -> list[Value | None]:
    """With h = (1 - z) n + z h', z and r the gates of x W^T + h' R^T + b, ' one step before, and

        n = g(x Wn^T + bn + (r h') Rn^T + cn), or with linear_before_reset n = g(x Wn^T + bn + r (h' Rn^T + cn)):
        gz = gh (h' - n) dz;  gn = gh (1 - z) dn;  gr = (gn Rn) h' dr, or gn (h' Rn^T + cn) dr
        gh' = gy' + gh z + (gn Rn) r + [gz | gr] [Rz; Rr], or gy' + gh z + [gz | gr | gn r] R

    with dz ... the slopes of the gates. Steps beyond a sequence's length pass gh on. All but gh comes from the h given
    out in one product. Shapes: x [S, N, I], h [N, H], W [3H, I], R [3H, H], gates in the order z, r, n.
    Source: ONNX GRU-14; Cho et al. 2014.
    """
    parts = Recurrent(c, 3, ["Sigmoid", "Tanh"])
    linear = c.attr("linear_before_reset", 0) != 0
    directions = parts.taken_apart(cotangents)
    return parts.put_together([(_reset_last if linear else _reset_first)(parts, d) for d in directions])


def _gates(parts: Recurrent, d: Direction, z: Value, r: Value) -> tuple[Value, Value, Value, Value]:
    """Gates z and r and their slopes, from their inputs."""
    op, f = parts.op, d.functions[0]
    z_gate, r_gate = f.value(op, parts.clipped(z)), f.value(op, parts.clipped(r))
    return z_gate, r_gate, parts.slope(f, z, z_gate), parts.slope(f, r, r_gate)


def _reset_last(parts: Recurrent, d: Direction) -> Cotangents:
    """linear_before_reset: the reset gate multiplies what the recurrent product gave."""
    op, size, g = parts.op, parts.hidden, d.functions[1]
    thirds = {"num_outputs": 3, "axis": -1, "outputs": 3}
    xz, xr, xn = op.Split(parts.steps(parts.product(d.x, d.w, d.wb), d.x), **thirds)
    hz, hr, hn = op.Split(parts.steps(parts.product(d.previous, d.r, d.rb), d.x), **thirds)
    z, r, dz, dr = _gates(parts, d, op.Add(xz, hz), op.Add(xr, hr))
    input_n = op.Add(xn, op.Mul(r, hn))
    n = g.value(op, parts.clipped(input_n))
    into_z = op.Mul(op.Sub(d.previous, n), dz)
    into_n = op.Mul(op.Sub(1.0, z), parts.slope(g, input_n, n))
    into_r = op.Mul(into_n, op.Mul(hn, dr))
    into_h = parts.within(d, op.Concat(into_z, into_r, op.Mul(into_n, r), axis=-1), 0.0)
    carry = parts.within(d, z, 1.0)
    last = parts.zero_state(d.x) if d.gy_h is None else d.gy_h

    def step(op: Emitter, states: list[Value], read: list[Value]) -> tuple[list[Value], list[Value]]:
        gh = states[0] if d.gy is None else op.Add(states[0], read[2])
        g_products = op.Mul(op.Concat(gh, gh, gh, axis=-1), read[0])
        return [op.Add(op.Mul(gh, read[1]), op.MatMul(g_products, d.r))], [gh, g_products]

    items = [into_h, carry] if d.gy is None else [into_h, carry, d.gy]
    (first,), (gh, of_h) = scan(parts.c, [last], items, step, backwards=not d.backwards)
    gate_part, _ = op.Split(of_h, [2 * size, size], axis=-1, outputs=2)
    of_x = op.Concat(gate_part, op.Mul(gh, parts.within(d, into_n, 0.0)), axis=-1)
    found = parts.of_products(d, of_x, of_h)
    found.h0 = first
    return found


def _reset_first(parts: Recurrent, d: Direction) -> Cotangents:
    """The reset gate multiplies the hidden state before the recurrent product."""
    c, op, size, g = parts.c, parts.op, parts.hidden, d.functions[1]
    halves, split = [2 * size, size], {"axis": 0, "outputs": 2}
    r_gates, r_n = op.Split(d.r, halves, **split)
    bias = None if d.wb is None else op.Add(d.wb, d.rb)
    of_gates, of_n = op.Split(parts.product(d.x, d.w, bias), halves, axis=-1, outputs=2)
    of_gates = parts.steps(parts.product(d.previous, r_gates, of_gates), d.x)
    input_z, input_r = op.Split(of_gates, num_outputs=2, axis=-1, outputs=2)
    z, r, dz, dr = _gates(parts, d, input_z, input_r)
    kept = op.Mul(r, d.previous)
    input_n = parts.steps(parts.product(kept, r_n, of_n), d.x)
    n = g.value(op, parts.clipped(input_n))
    into_z = op.Mul(op.Sub(d.previous, n), dz)
    into_n = op.Mul(op.Sub(1.0, z), parts.slope(g, input_n, n))
    into_zn = parts.within(d, op.Concat(into_z, into_n, axis=-1), 0.0)
    factors = [into_zn, parts.within(d, op.Mul(d.previous, dr), 0.0), r, parts.within(d, z, 1.0)]
    last = parts.zero_state(d.x) if d.gy_h is None else d.gy_h

    def step(op: Emitter, states: list[Value], read: list[Value]) -> tuple[list[Value], list[Value]]:
        into_zn, into_r, r, carry = read[:4]
        gh = states[0] if d.gy is None else op.Add(states[0], read[4])
        gz, gn = op.Split(op.Mul(op.Concat(gh, gh, axis=-1), into_zn), num_outputs=2, axis=-1, outputs=2)
        of_kept = op.MatMul(gn, r_n)
        g_gates = op.Concat(gz, op.Mul(of_kept, into_r), axis=-1)
        before = op.Add(op.Mul(gh, carry), op.Mul(of_kept, r))
        return [op.Add(before, op.MatMul(g_gates, r_gates))], [g_gates, gn]

    items = factors if d.gy is None else [*factors, d.gy]
    (first,), (g_gates, gn) = scan(c, [last], items, step, backwards=not d.backwards)
    of_x = op.Concat(g_gates, gn, axis=-1)
    found = parts.of_products(d, of_x, of_x)
    found.h0 = first
    if found.r is not None:  # the rows of the candidate are multiplied with the state that the reset gate let through
        rows = [parts.rows_product(g_gates, d.previous), parts.rows_product(gn, kept)]
        found.r = op.Concat(*rows, axis=0)
    return found
