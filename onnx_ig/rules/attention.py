"""Scaled dot product attention: the scores are computed again, the rest is products of matrices."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.rules.context import Context
from onnx_ig.rules.registry import gradient

Values = tuple[ir.Value | None, ...]
_QUERY, _KEY, _VALUE, _MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = range(7)


@gradient("Attention")
def attention(c: Context, *cotangents: ir.Value | None) -> Values:
    """Y = P V, P = softmax(Z), Z = C + mask, C = cap tanh(S / cap), S = scale Q Kᵀ.

    gV = Pᵀ gY, gP = gY Vᵀ, gZ = (gP - Σ gP P) P, gC = gZ, gmask = gZ summed, gS = gC (1 - tanh²), gQ = scale gS K,
    gK = scale gSᵀ Q; the scores that the fourth output shows add their cotangent where they arise.
    Q [B, Hq, L, D], K [B, Hk, S, D], V [B, Hk, S, Dv] with the past before K and V; P [B, Hq, L, S]. Query heads that
    share K and V are further rows of one product. A row that is masked throughout has P = 0, as the standard says.
    Source: ONNX Attention-23 to 25; Vaswani et al. 2017.
    """
    op = c.op
    gy, gkey, gvalue, shown = (*cotangents, None, None, None, None)[:4]
    mode = int(c.attr("qk_matmul_output_mode", 0))
    q, k, v = _heads(c, c.operand(_QUERY), "q_num_heads"), _stored(c, _KEY), _stored(c, _VALUE)
    rows = _Rows(c, q, k)
    scores = _Scores(c, rows, q, k)
    gq = gk = gv = gz = gmask = None
    if gy is not None:
        gy = rows.join(_heads(c, gy, "q_num_heads"))
        if c.wants(_VALUE) or c.wants(_PAST_VALUE):
            gv = op.MatMul(_turned(c, rows.join(scores.probabilities)), gy)
    if any(c.wants(i) for i in (_QUERY, _KEY, _MASK, _PAST_KEY)):
        gp = None if gy is None else rows.part(op.MatMul(gy, _turned(c, v)))
        gp = _add(c, gp, shown if mode == 3 else None)
        if gp is not None:
            gz = scores.softmax_back(gp)
        gz = _add(c, gz, scores.unmasked(shown) if shown is not None and mode == 2 else None)
        mask = c.input(_MASK)
        if gz is not None and mask is not None and c.wants(_MASK):
            gmask = _to_mask(c, gz, mask)
        gs = _add(c, gz, shown if mode == 1 else None)
        if gs is not None and scores.tanh is not None:
            gs = op.Mul(gs, op.Sub(1.0, op.Mul(scores.tanh, scores.tanh)))
        gs = _add(c, gs, shown if mode == 0 else None)
        if gs is not None:
            gs = rows.join(op.Mul(gs, scores.scale))
            gq = _packed(c, rows.part(op.MatMul(gs, k)), c.operand(_QUERY))
            gk = op.MatMul(_turned(c, gs), rows.join(q))
    gk, gpast_key = _unstored(c, _add(c, gk, gkey), _KEY)
    gv, gpast_value = _unstored(c, _add(c, gv, gvalue), _VALUE)
    return (gq, gk, gv, gmask, gpast_key, gpast_value, None)[: len(c.inputs)]


class _Rows:
    """Query heads by the head of K and V that they share: [B, Hq, L, X] as [B, Hk, Hq / Hk * L, X] and back."""

    def __init__(self, c: Context, q: ir.Value, k: ir.Value):
        self._op = c.op
        given = c.attr("q_num_heads"), c.attr("kv_num_heads")
        heads = given if None not in given else (c.size(c.operand(_QUERY), 1), c.size(c.operand(_KEY), 1))
        same = heads[0] == heads[1] and not isinstance(heads[0], ir.Value)
        self._outer = None if same else (c.op.Shape(q, end=3), c.op.Shape(k, end=2))

    def join(self, x: ir.Value) -> ir.Value:
        if self._outer is None:
            return x
        last = self._op.Shape(x, start=3)
        return self._op.Reshape(x, self._op.Concat(self._outer[1], [-1], last, axis=0))

    def part(self, x: ir.Value) -> ir.Value:
        if self._outer is None:
            return x
        return self._op.Reshape(x, self._op.Concat(self._outer[0], self._op.Shape(x, start=3), axis=0), allowzero=1)


class _Scores:
    """The forward pass up to P, [B, Hq, L, S]: `scale`, `tanh` of the cap where there is one, `probabilities`."""

    def __init__(self, c: Context, rows: _Rows, q: ir.Value, k: ir.Value):
        op = self._op = c.op
        self._c = c
        self.scale = _scale(c, q)
        z = op.Mul(rows.part(op.MatMul(rows.join(q), _turned(c, k))), self.scale)
        cap = float(c.attr("softcap", 0.0))
        self.tanh = None
        if cap > 0:
            self.tanh = op.Tanh(op.Div(z, cap))
            z = op.Mul(self.tanh, cap)
        mask, allowed, total = _bias(c, q, k)
        if mask is not None:
            z = op.Add(z, mask)
        if allowed is not None:
            z = op.Where(allowed, z, -np.inf)
        self._z = z
        precision = c.attr("softmax_precision")
        exact = z if precision in (None, z.dtype) else op.Cast(z, to=precision)
        if total:
            p = op.Softmax(exact, axis=-1)
        else:
            top = op.ReduceMax(exact, [-1], keepdims=1)
            nowhere = op.Less(top, float(exact.dtype.min))  # -inf: no key is left in this row
            p = op.Softmax(op.Where(nowhere, 0.0, exact), axis=-1)
            p = op.Where(nowhere, 0.0, p)
        self.probabilities = p if exact is z else op.CastLike(p, z)

    def softmax_back(self, gp: ir.Value) -> ir.Value:
        p = self.probabilities
        along = self._op.ReduceSum(self._op.Mul(gp, p), [-1], keepdims=1)
        return self._op.Mul(self._op.Sub(gp, along), p)

    def unmasked(self, g: ir.Value) -> ir.Value:
        """`g` where the masked scores are finite: those that show -inf do not move."""
        return self._op.Where(self._op.IsInf(self._z), 0.0, g)


def _bias(c: Context, q: ir.Value, k: ir.Value) -> tuple[ir.Value | None, ir.Value | None, bool]:
    """The float mask to add and the boolean of what is attended, each None or broadcast to [B, Hq, L, S].

    Also whether every query surely attends something.
    """
    op, mask, lengths, past = c.op, c.input(_MASK), c.input(_LENGTHS), c.input(_PAST_KEY)
    conditions: list[ir.Value] = []
    added = None
    if mask is not None:
        whole = _as_long_as(c, mask, k)
        if c.is_float(mask):
            added = whole if mask.dtype == q.dtype else op.CastLike(whole, q)
        else:
            conditions.append(whole)
    columns = op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(k, start=2, end=3), [0]), 1), [0])  # [1, S]
    each = None if lengths is None else op.Reshape(op.Cast(lengths, to=ir.DataType.INT64.value), [-1, 1, 1, 1])
    if each is not None:
        conditions.append(op.Less(columns, each))
    left, right = int(c.attr("left_window_size", -1)), int(c.attr("right_window_size", -1))
    if c.attr("is_causal", 0):
        right = 0
    if left >= 0 or right >= 0:
        count = op.Shape(q, start=2, end=3)
        place = op.Unsqueeze(op.Range(0, op.Squeeze(count, [0]), 1), [1])  # [L, 1]
        if past is not None:
            place = op.Add(place, op.Shape(past, start=2, end=3))
        elif each is not None:
            place = op.Add(place, op.Sub(each, count))
        if right >= 0:
            conditions.append(op.LessOrEqual(columns, op.Add(place, right)))
        if left >= 0:
            conditions.append(op.GreaterOrEqual(columns, op.Sub(place, left)))
    allowed = None
    for condition in conditions:
        allowed = condition if allowed is None else op.And(allowed, condition)
    return added, allowed, mask is None and lengths is None and left < 0


def _as_long_as(c: Context, mask: ir.Value, k: ir.Value) -> ir.Value:
    """From version 24 on a mask may end before the keys do: what it leaves out is not attended."""
    if c.op.opset < 24:
        return mask
    size, total = c.size(mask, -1), c.op.Shape(k, start=2, end=3)
    fill = -np.inf if c.is_float(mask) else None
    return c.op.Pad(mask, c.op.Concat([0], c.op.Sub(total, size), axis=0), fill, [-1])


def _to_mask(c: Context, gz: ir.Value, mask: ir.Value) -> ir.Value:
    if c.op.opset >= 24:
        gz = c.op.Slice(gz, [0], c.size(mask, -1), [-1])
    if gz.dtype != mask.dtype:
        gz = c.op.CastLike(gz, mask)
    return c.sum_to(gz, None, mask)


def _scale(c: Context, q: ir.Value) -> ir.Value:
    given = c.attr("scale")
    if given is not None:
        return c.op.constant(np.asarray(given, c.dtype(q).numpy()))
    width = c.op.CastLike(c.op.Squeeze(c.op.Shape(q, start=3), [0]), q)
    return c.op.Reciprocal(c.op.Sqrt(width))


def _heads(c: Context, x: ir.Value, count: str) -> ir.Value:
    """[B, L, H*D] as [B, H, L, D]; what has four axes stays."""
    if not _is_packed(c):
        return x
    return c.op.Transpose(c.op.Reshape(x, [0, 0, int(c.attr(count)), -1]), perm=[0, 2, 1, 3])


def _packed(c: Context, g: ir.Value, like: ir.Value) -> ir.Value:
    return c.reshape_like(c.op.Transpose(g, perm=[0, 2, 1, 3]), like) if _is_packed(c) else g


def _is_packed(c: Context) -> bool:
    ranks = [c.rank(c.operand(i)) for i in (_QUERY, _KEY, _VALUE)] + [c.rank(c.output)]
    known = next((r for r in ranks if r is not None), None)
    if known is None:
        if c.attr("q_num_heads") is None:
            return False
        raise c.refuse(
            "the number of axes of its operands is not known",
            "Declare the shapes of the model's inputs, or infer them.",
        )
    return known == 3


def _stored(c: Context, index: int) -> ir.Value:
    """K or V as [B, Hk, S, D], the past before it."""
    x = _heads(c, c.operand(index), "kv_num_heads")
    past = c.input(index + 3)
    if past is not None:
        x = c.op.Concat(past, x, axis=2)
    return x if x.dtype == c.operand(_QUERY).dtype else c.op.CastLike(x, c.operand(_QUERY))


def _unstored(c: Context, g: ir.Value | None, index: int) -> tuple[ir.Value | None, ir.Value | None]:
    """The cotangent of all K or V, as those of the operand and of the past."""
    if g is None:
        return None, None
    x, past, gpast = c.operand(index), c.input(index + 3), None
    if x.dtype is not None and g.dtype != x.dtype:
        g = c.op.CastLike(g, x)
    if past is not None:
        length = c.op.Shape(past, start=2, end=3)
        gpast = c.op.Slice(g, [0], length, [2])
        g = c.op.Slice(g, length, [2**31], [2])
    return _packed(c, g, x), gpast


def _turned(c: Context, x: ir.Value) -> ir.Value:
    return c.op.Transpose(x, perm=[0, 1, 3, 2])


def _add(c: Context, a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
    if a is None or b is None:
        return b if a is None else a
    return c.op.Add(a, b)
