"""What the rules of RNN, GRU and LSTM share: operands a direction at a time, the recurrence as a Scan, the cotangents.

Shapes: S steps, N batch, I inputs, H hidden, G gates, D directions. Everything inside a direction is in the order of
the time axis, whichever way the direction runs through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import Emitter
from onnx_ig.rules.bodies import closed, described, emit, new_graph, new_input
from onnx_ig.rules.context import Context
from onnx_ig.rules.recurrent_activations import Activation, activations

__all__ = ["Cotangents", "Direction", "Recurrent", "scan", "sum_rows"]

Value = ir.Value


@dataclass
class Direction:
    """One direction of a recurrent operator.

    `x` [S, N, I] and `w` [G*H, I], `r` [G*H, H], `wb` and `rb` [G*H] (None without bias), `h0` [N, H] (None: zeros).
    `y` [S, N, H] the hidden states given out, `previous` [S, N, H] the hidden state that each step starts from.
    `gy` [S, N, H] and `gy_h` [N, H], None where they have no cotangent.
    `backwards` the direction runs from the last step to the first.
    `valid` bool [S, N, 1], which steps belong to the sequence (None: all).
    """

    index: int
    backwards: bool
    functions: list[Activation]
    x: Value
    valid: Value | None
    w: Value
    r: Value
    wb: Value | None
    rb: Value | None
    h0: Value | None
    y: Value
    previous: Value
    gy: Value | None = None
    gy_h: Value | None = None


@dataclass
class Cotangents:
    """What one direction contributes: `x` [S, N, I], `w`, `r`, `wb`, `rb` as in `Direction`, `h0`, `c0` [N, H], `p` [3*H]."""

    x: Value | None = None
    w: Value | None = None
    r: Value | None = None
    wb: Value | None = None
    rb: Value | None = None
    h0: Value | None = None
    c0: Value | None = None
    p: Value | None = None


class Recurrent:
    """A recurrent node taken apart into directions, and put together again.

    Its layout is 0: `onnx_ig.graph.layouts` has seen to that.
    """

    def __init__(self, c: Context, gates: int, defaults: list[str]):
        self.c = c
        self.op: Emitter = c.op
        kind = c.attr("direction", "forward")
        self.directions = 2 if kind == "bidirectional" else 1
        self.reverse = kind == "reverse"
        self.functions = activations(c, defaults, self.directions)
        self.clip: float | None = c.attr("clip")
        self.gates = gates
        self.hidden = self._hidden_size()
        self.dtype = c.dtype(c.operand(0))

    def _hidden_size(self) -> int:
        shape = self.c.operand(2).shape
        size = self.c.attr("hidden_size", shape[-1] if shape is not None and len(shape) else None)
        if not isinstance(size, int):
            raise self.c.refuse("its hidden size is not known", "Write the attribute hidden_size.")
        return size

    def taken_apart(self, cotangents: Sequence[Value | None]) -> list[Direction]:
        """The directions; makes the node give its first output, which the backward reads."""
        c = self.c
        gy, gy_h = (*cotangents, None, None)[:2]
        y, x = self._hidden_states(), c.operand(0)
        valid = self._validity(x)
        if valid is not None:
            x = self.op.Where(valid, x, 0.0)  # padding may hold anything, and 0 * inf is not 0
        found = []
        for index in range(self.directions):
            backwards = self.reverse or index == 1
            h0 = self.state(c.input(5), index)
            own_y = self._states_of(y, index)
            d = Direction(
                index,
                backwards,
                self.functions[index],
                x,
                valid,
                self.weight(1, index),
                self.weight(2, index),
                *self._bias(index),
                h0,
                own_y,
                self.shifted(own_y, h0, backwards, valid),
            )
            if gy is not None:
                d.gy = self.within(d, self._states_of(gy, index), 0.0)
            d.gy_h = self.final(gy_h, d)
            found.append(d)
        return found

    def _validity(self, x: Value) -> Value | None:
        lengths = self.c.input(4)
        if lengths is None:
            return None
        op = self.op
        lengths = op.Cast(lengths, to=ir.DataType.INT64.value)
        steps = op.Range(0, op.Squeeze(op.Shape(x, start=0, end=1), [0]), 1)
        return op.Unsqueeze(op.Less(op.Unsqueeze(steps, [1]), lengths), [2])

    def _hidden_states(self) -> Value:
        y = self.c.node.outputs[0]
        if not y.name:  # an output that nobody asked for costs the runtime nothing to keep
            y.name = self.c.op.names.numbered("ig")
            y.type = self.c.own(self.c.operand(0)).type
        return self.c.seen(y)

    def weight(self, operand: int, d: int) -> Value:
        """W [G*H, I] (operand 1) or R [G*H, H] (operand 2) of direction `d`."""
        return self.own(self.c.operand(operand), d)

    def wants_weight(self, operand: int) -> bool:
        """Whether the cotangent of W (operand 1) or R (operand 2) is needed."""
        return self.c.wants(operand)

    def own(self, v: Value, d: int) -> Value:
        """The part of direction `d` of a weight or state [D, ...]."""
        return self.op.Squeeze(v, [0]) if self.directions == 1 else self.op.Gather(v, d, axis=0)

    def _states_of(self, y: Value, d: int) -> Value:
        """[S, N, H] of direction `d` of [S, D, N, H]."""
        return self.op.Squeeze(y, [1]) if self.directions == 1 else self.op.Gather(y, d, axis=1)

    def _bias(self, d: int) -> tuple[Value | None, Value | None]:
        b = self.c.input(3)
        if b is None:
            return None, None
        half = self.gates * self.hidden
        wb, rb = self.op.Split(self.own(b, d), [half, half], axis=0, outputs=2)
        return wb, rb

    def state(self, v: Value | None, d: int) -> Value | None:
        """[N, H] of direction `d` of states [D, N, H]."""
        return None if v is None else self.own(v, d)

    def final(self, g: Value | None, d: Direction) -> Value | None:
        """Cotangent [N, H] of a final state; a sequence of length 0 has final states of 0 that depend on nothing."""
        g = self.state(g, d.index)
        lengths = self.c.input(4)
        if g is None or lengths is None:
            return g
        return self.op.Where(self.op.Unsqueeze(self.op.Greater(lengths, 0), [1]), g, 0.0)

    def within(self, d: Direction, v: Value, beyond: float) -> Value:
        """`v` [S, N, ...] in the steps of the sequence, `beyond` behind its end."""
        return v if d.valid is None else self.op.Where(d.valid, v, beyond)

    def zero_state(self, like: Value) -> Value:
        """Zeros [N, H] for states `like` [S, N, H]."""
        shape = self.op.Concat(self.op.Shape(like, start=1, end=2), [self.hidden], axis=0)
        return self.op.ConstantOfShape(shape, value=ir.tensor(np.zeros(1, self.dtype.numpy())))

    def shifted(self, y: Value, first: Value | None, backwards: bool, valid: Value | None = None) -> Value:
        """The state that each step starts from: `y` one step on in the direction, `first` where the direction starts.

        All [S, N, H], `first` [N, H] or None for zeros.
        """
        op = self.op
        if first is None or (valid is not None and backwards):
            pads = [-1, 0, 0, 1, 0, 0] if backwards else [1, 0, 0, -1, 0, 0]
            moved = op.Pad(y, pads)
            if first is None or valid is None:
                return moved
            after = op.Pad(op.Cast(valid, to=ir.DataType.INT32.value), pads)  # the last step of each sequence has none
            return op.Where(op.Equal(after, op.CastLike(0, after)), op.Unsqueeze(first, [0]), moved)
        start = op.Unsqueeze(first, [0])
        if backwards:
            return op.Concat(op.Slice(y, [1], [_END], [0]), start, axis=0)
        return op.Concat(start, op.Slice(y, [0], [-1], [0]), axis=0)

    def beyond(self, d: Direction) -> Value | None:
        """1 in steps behind the end of a sequence, else 0, [S, N, 1]; None where all sequences are full."""
        return None if d.valid is None else self.c.mask(self.op.Not(d.valid), d.x)

    def product(self, x: Value, w: Value, more: Value | None) -> Value:
        """x w^T (+ more) as rows: [S, N, K] and [M, K] give [S*N, M]; `more` is [M] or [S*N, M]."""
        return self.op.Gemm(self.op.Flatten(x, axis=2), w, more, transB=1)

    def rows_product(self, g: Value, x: Value) -> Value:
        """g^T x over all steps and rows: [S, N, M] and [S, N, K] give [M, K]."""
        return self.op.Gemm(self.op.Flatten(g, axis=2), self.op.Flatten(x, axis=2), transA=1)

    def of_products(self, d: Direction, of_x: Value, of_h: Value) -> Cotangents:
        """From the cotangents [S, N, G*H] of x W^T + wb and h' R^T + rb to those of their parts, as far as wanted."""
        c, op = self.c, self.op
        return Cotangents(
            x=op.MatMul(of_x, d.w) if c.wants(0) else None,
            w=self.rows_product(of_x, d.x) if self.wants_weight(1) else None,
            r=self.rows_product(of_h, d.previous) if self.wants_weight(2) else None,
            wb=sum_rows(op, of_x) if c.wants(3) else None,
            rb=sum_rows(op, of_h) if c.wants(3) else None,
        )

    def steps(self, rows: Value, like: Value) -> Value:
        """[S*N, M] as [S, N, M], S and N those of `like`."""
        return self.op.Reshape(rows, self.op.Concat(self.op.Shape(like, start=0, end=2), [-1], axis=0))

    def clipped(self, z: Value, op: Emitter | None = None) -> Value:
        """The input of an activation under the attribute `clip`."""
        op = op or self.op
        return z if self.clip is None else op.Max(op.Min(z, self.clip), -self.clip)

    def slope(self, f: Activation, z: Value, a: Value) -> Value:
        """Derivative of a = f(clip(z)): 0 at the bounds of the clip and beyond."""
        if self.clip is None:
            return f.slope(self.op, z, a)
        slope = f.slope(self.op, self.clipped(z), a)
        return self.op.Mul(slope, self.c.mask(self.op.Less(self.op.Abs(z), self.clip), z))

    def put_together(self, parts: Sequence[Cotangents]) -> list[Value | None]:
        """One contribution per operand of the node, from those of the directions."""
        op = self.op
        x = [p.x for p in parts if p.x is not None]
        gx = None if not x else x[0] if len(x) == 1 else op.Add(*x)
        biases: list[Value | None] = [
            None if p.wb is None or p.rb is None else op.Concat(p.wb, p.rb, axis=0) for p in parts
        ]
        found = [
            gx,
            self.stacked([p.w for p in parts]),
            self.stacked([p.r for p in parts]),
            self.stacked(biases),
            None,
            self.stacked([p.h0 for p in parts]),
            self.stacked([p.c0 for p in parts]),
            self.stacked([p.p for p in parts]),
        ]
        return found[: len(self.c.inputs)]

    def stacked(self, values: Sequence[Value | None]) -> Value | None:
        """[D, ...] from what each direction has; None where one has nothing."""
        given = [self.op.Unsqueeze(v, [0]) for v in values if v is not None]
        if len(given) < len(values):
            return None
        return given[0] if len(given) == 1 else self.op.Concat(*given, axis=0)


_END = 2**62

Step = Callable[[Emitter, list[Value], list[Value]], tuple[list[Value], list[Value]]]


def scan(
    c: Context, states: Sequence[Value], items: Sequence[Value], step: Step, *, backwards: bool
) -> tuple[list[Value], list[Value]]:
    """A Scan over axis 0 of `items`, from the last to the first with `backwards`.

    `step(op, states, items)` emits one step and returns the next states and what to stack, each of the type of the
    first state. Returns the final states and the stacks, which lie in the order of the items.
    """
    inner = new_graph(c, "scan")
    carried = [new_input(inner, s) for s in states]
    read = [described(v, None if v.shape is None else list(v.shape)[1:], c.op.names.numbered("ig")) for v in items]
    inner.op.graph.inputs.extend(read)
    nexts, stacked = step(inner.op, carried, read)
    graph = closed(inner, [*nexts, *stacked])
    for output in graph.outputs:
        if output.shape is None:
            output.shape = ir.Shape([None, None])  # runtimes want the rank of a body's outputs
    likes = [described(states[0], None) for _ in range(len(nexts) + len(stacked))]
    direction = int(backwards)
    results = emit(
        c,
        "Scan",
        [*states, *items],
        likes,
        body=graph,
        num_scan_inputs=len(items),
        scan_input_directions=[direction] * len(items),
        scan_output_directions=[direction] * len(stacked),
    )
    return results[: len(nexts)], results[len(nexts) :]


def sum_rows(op: Emitter, v: Value) -> Value:
    """[M] from [S, N, M]."""
    return op.ReduceSum(v, [0, 1], keepdims=0)
