"""What dataflow proves about the batch must hold in the runtime: rows run together give what each gives alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import parser

from onnx_ig.errors import OptionError
from onnx_ig.graph.batch import BatchPlan, batch_axes
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare

RNG = np.random.default_rng(5)


def plan_of(text: str, given: Mapping[str, int | None] | None = None, opset: int = 20) -> tuple[Any, BatchPlan]:
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3]>\n{text}'
    )
    prepared = prepare(load(model))
    return model, batch_axes(prepared.graph, given)


def assert_proven(
    text: str, feeds: Mapping[str, np.ndarray], given: Mapping[str, int | None] | None = None
) -> BatchPlan:
    """The plan says batchable, and the runtime agrees on `feeds`, which hold several rows."""
    model, plan = plan_of(text, given)
    assert plan.batchable, plan.reason
    assert plan.reason == ""
    assert_rows_apart(model.SerializeToString(), feeds, plan)
    return plan


def assert_rows_apart(model: bytes, feeds: Mapping[str, np.ndarray], plan: BatchPlan, tolerance: float = 1e-5) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    together = session.run(None, dict(feeds))
    axes = {n: plan.axis(n) for n in feeds}
    count = next(feeds[n].shape[axis] for n, axis in axes.items() if axis is not None)
    assert count > 1
    for row in range(count):
        one = {n: a if axes[n] is None else np.take(a, [row], axes[n]) for n, a in feeds.items()}
        for name, whole, alone in zip(names, together, session.run(None, one), strict=True):
            axis = plan.axis(name)
            part = whole if axis is None else np.take(whole, [row], axis)
            assert part.shape == alone.shape, name
            np.testing.assert_allclose(part, alone, rtol=tolerance, atol=tolerance, err_msg=name)


def assert_refused(text: str, *words: str, given: Mapping[str, int | None] | None = None) -> None:
    """The plan says not batchable, in words that name the culprit."""
    _, plan = plan_of(text, given)
    assert not plan.batchable
    for word in words:
        assert word in plan.reason, plan.reason


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


# What keeps rows apart -------------------------------------------------------------------------------------------

PROVEN: dict[str, tuple[str, dict[str, np.ndarray]]] = {
    "dense": (
        """g (float[N,4] x) => (float[N,2] y) <float[4,2] w = {1,2,3,4,5,6,7,8}, float[2] b = {1,2}>
           { h = Gemm(x, w, b) s = Softmax(h) t = Tanh(s) y = Mul(t, b) }""",
        {"x": floats(3, 4)},
    ),
    "broadcast from the left": (
        """g (float[N,4] x, float[N,2,4] z) => (float[N,2,4] y)
           { k = Constant<value = int64[1] {1}>() u = Unsqueeze(x, k) y = Add(u, z) }""",
        {"x": floats(3, 4), "z": floats(3, 2, 4)},
    ),
    "heads": (
        """g (float[N,T,8] x) => (float[N,T,8] y)
           { s = Shape(x) z = Constant<value = int64[1] {0}>() n = Gather(s, z) o = Constant<value = int64[1] {1}>()
             t = Gather(s, o) h = Constant<value = int64[1] {2}>() d = Constant<value = int64[1] {4}>()
             q = Concat<axis = 0>(n, t, h, d) r = Reshape(x, q) p = Transpose<perm = [0,2,1,3]>(r)
             k = Transpose<perm = [0,1,3,2]>(p) a = MatMul(p, k) m = Softmax(a) v = MatMul(m, p)
             b = Transpose<perm = [0,2,1,3]>(v) e = Constant<value = int64[1] {-1}>() f = Concat<axis = 0>(n, t, e)
             y = Reshape(b, f) }""",
        {"x": floats(3, 5, 8)},
    ),
    "rows and heads as one axis": (
        """g (float[N,2,4] x) => (float[N,2,4] y)
           { k = Constant<value = int64[2] {-1,4}>() r = Reshape(x, k) s = Softmax(r)
             b = Constant<value = int64[3] {-1,2,4}>() y = Reshape(s, b) }""",
        {"x": floats(3, 2, 4)},
    ),
    "time first": (
        """g (float[N,5,3] x) => (float[N,4] y)
           <float[1,4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float[1,4,4] r = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}>
           { t = Transpose<perm = [1,0,2]>(x) a, h = RNN<hidden_size = 4>(t, w, r)
             z = Constant<value = int64[1] {0}>() y = Squeeze(h, z) }""",
        {"x": floats(3, 5, 3)},
    ),
    "time and rows as one axis": (
        """g (float[T,N,3] x) => (float[T,N,3] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}>
           { k = Constant<value = int64[2] {-1,3}>() s = Shape(x) r = Reshape(x, k) m = MatMul(r, w) y = Reshape(m, s) }""",
        {"x": floats(5, 3, 3)},
    ),
    "one token for all rows": (
        """g (float[N,4,2] x) => (float[N,5,2] y) <float[1,1,2] c = {1,2}>
           { z = Constant<value = int64[1] {0}>() s = Shape(x) n = Gather(s, z) m = Constant<value = int64[2] {-1,-1}>()
             q = Concat<axis = 0>(n, m) o = Constant<value = int64[3] {1,1,1}>() v = Constant<value = int64[3] {-1,-1,-1}>()
             e = Equal(q, v) t = Where(e, o, q) b = Expand(c, t) y = Concat<axis = 1>(b, x) }""",
        {"x": floats(3, 4, 2)},
    ),
    "every row reads its own place": (
        """g (float[N,4,2] x, int64[N] i) => (float[N,2] y)
           { z = Constant<value = int64 {0}>() s = Shape(x) n = Gather(s, z) o = Constant<value = int64 {1}>()
             r = Range(z, n, o) k = Constant<value = int64[1] {1}>() a = Unsqueeze(r, k) b = Unsqueeze(i, k)
             c = Concat<axis = 1>(a, b) y = GatherND(x, c) }""",
        {"x": floats(3, 4, 2), "i": np.array([2, 0, 3])},
    ),
    "places of rows laid end to end": (
        """g (float[N,T] x) => (float[N,T] y)
           { z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>() s = Shape(x) n = Gather(s, z)
             t = Gather(s, o) r = Range(z, n, o) c = Range(z, t, o) k = Constant<value = int64[1] {1}>()
             u = Unsqueeze(r, k) m = Mul(u, t) a = Add(m, c) e = Constant<value = int64[1] {-1}>()
             f = Reshape(x, e) y = Gather(f, a) }""",
        {"x": floats(3, 4)},
    ),
    "convolution and pools": (
        """g (float[N,1,6,6] x) => (float[N,2] y) <float[2,1,3,3] w = {1,2,3,4,5,6,7,8,9,9,8,7,6,5,4,3,2,1}>
           { c = Conv(x, w) p = MaxPool<kernel_shape = [2,2]>(c) g = GlobalAveragePool(p) y = Flatten(g) }""",
        {"x": floats(3, 1, 6, 6)},
    ),
    "unpooling within samples": (
        """g (float[N,1,4,4] x) => (float[N,1,4,4] y)
           { p, i = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x)
             y = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(p, i) }""",
        {"x": floats(3, 1, 4, 4)},
    ),
    "the largest entry of every row, laid end to end": (
        """g (float[N,T,2] x, int64[N,T] ids) => (float[N,2] y)
           { z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>() s = Shape(ids) n = Gather(s, z)
             t = Gather(s, o) r = Range(z, n, o) m = Mul(r, t) i = ArgMax<axis = 1, keepdims = 0>(ids) p = Add(m, i)
             k = Constant<value = int64[2] {-1,2}>() f = Reshape(x, k) y = Gather(f, p) }""",
        {"x": floats(3, 4, 2), "ids": RNG.integers(0, 9, (3, 4))},
    ),
    "rows joined and split again": (
        """g (float[N,3] x) => (float[N,3] y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}>
           { n = Neg(x) c = Concat<axis = 0>(x, n) m = MatMul(c, w) a, b = Split<axis = 0, num_outputs = 2>(m)
             y = Mul(a, b) }""",
        {"x": floats(3, 3)},
    ),
    "einsum": (
        """g (float[N,3,2] x, float[N,2] z) => (float[N,3] y) { y = Einsum<equation = "nij,nj->ni">(x, z) }""",
        {"x": floats(3, 3, 2), "z": floats(3, 2)},
    ),
    "resize": (
        """g (float[N,1,4,4] x) => (float[N,1,8,8] y) <float[4] s = {1,1,2,2}>
           { y = Resize<mode = "linear">(x, , s) }""",
        {"x": floats(3, 1, 4, 4)},
    ),
    "sizes from a shape": (
        """g (float[N,1,4,4] x) => (float[N,1,6,6] y)
           { s = Shape<start = 0, end = 2>(x) h = Constant<value = int64[2] {6,6}>() q = Concat<axis = 0>(s, h)
             y = Resize<mode = "nearest">(x, , , q) }""",
        {"x": floats(3, 1, 4, 4)},
    ),
    "a loop over time": (
        """g (float[N,4,2] x) => (float[N,2] y)
           { m = Constant<value = int64 {4}>() c = Constant<value = bool {1}>() z = Constant<value = int64[2] {0,1}>()
             k = Constant<value = int64 {0}>() f = Gather<axis = 1>(x, k)
             y = Loop(m, c, f) <body = b (int64 i, bool p, float[N,2] h) => (bool q, float[N,2] o)
               { q = Identity(p) v = Gather<axis = 1>(x, i) o = Add(h, v) }> }""",
        {"x": floats(3, 4, 2)},
    ),
    "a scan over time": (
        """g (float[N,4,2] x) => (float[N,4,2] y)
           { z = Constant<value = int64 {0}>() f = Gather<axis = 1>(x, z)
             h, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
               body = b (float[N,2] p, float[N,2] v) => (float[N,2] q, float[N,2] o)
               { q = Add(p, v) o = Tanh(q) }>(f, x) }""",
        {"x": floats(3, 4, 2)},
    ),
    "a scan over the rows that carries nothing": (
        """g (float[N,3] x) => (float[N] y) <float[2,3] w = {1,2,3,4,5,6}>
           { e, y = Scan<num_scan_inputs = 1, body = b (float[2,3] c, float[3] v) => (float[2,3] d, float o)
               { d = Identity(c) s = Sub(c, v) a = Abs(s) o = ReduceMax<keepdims = 0>(a) }>(w, x) }""",
        {"x": floats(3, 3)},
    ),
    "a branch chosen for all batches": (
        """g (float[N,3] x, bool c) => (float[N,3] y)
           { y = If(c) <then_branch = t () => (float[N,3] a) { a = Neg(x) },
                        else_branch = e () => (float[N,3] b) { b = Exp(x) }> }""",
        {"x": floats(3, 3), "c": np.array(True)},
    ),
    "columns chosen by number": (
        """g (float[N,5] x) => (float[N,2] y)
           { i = Constant<value = int64[2] {3,1}>() y = Gather<axis = 1>(x, i) }""",
        {"x": floats(3, 5)},
    ),
    "written to fixed columns": (
        """g (float[N,2] x) => (float[N,5] y)
           { z = Constant<value = int64[1] {0}>() s = Shape(x) n = Gather(s, z) w = Constant<value = int64[1] {5}>()
             q = Concat<axis = 0>(n, w) o = ConstantOfShape(q) t = Transpose<perm = [1,0]>(o)
             i = Constant<value = int64[2,1] {3,1}>() u = Transpose<perm = [1,0]>(x) v = ScatterND(t, i, u)
             y = Transpose<perm = [1,0]>(v) }""",
        {"x": floats(3, 2)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVEN)
def test_proven(name: str) -> None:
    assert_proven(*PROVEN[name])


def test_axes_of_every_value() -> None:
    plan = assert_proven(*PROVEN["time first"])
    assert {n: plan.axis(n) for n in ("x", "t", "h", "y", "w")} == {"x": 0, "t": 1, "h": 1, "y": 0, "w": None}
    assert plan.depends("h")
    assert not plan.depends("w")


def test_a_dimension_named_batch_wins_over_the_leading_one() -> None:
    plan = assert_proven(
        """g (float[time,batch,3] x) => (float[time,batch,3] y) { s = CumSum(x, z) y = Relu(s) }""".replace(
            "{ s", "<int64 z = {0}> { s"
        ),
        {"x": floats(4, 3, 3)},
    )
    assert plan.axis("x") == 1


def test_states_of_recurrent_layers_carry_the_batch_on_axis_1() -> None:
    text = """g (float[N,5,3] x, float[1,N,4] h0) => (float[1,N,4] h)
       <float[1,4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float[1,4,4] r = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}>
       { t = Transpose<perm = [1,0,2]>(x) a, h = RNN<hidden_size = 4>(t, w, r, , , h0) }"""
    plan = assert_proven(text, {"x": floats(3, 5, 3), "h0": floats(1, 3, 4)})
    assert (plan.axis("h0"), plan.axis("h")) == (1, 1)


# What does not ---------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "graph network": (
        """g (float[V,3] x, int64[2,E] edges) => (float[V,3] y)
           { z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>() s = Gather(edges, z) t = Gather(edges, o)
             m = Gather(x, s) k = Constant<value = int64[1] {1}>() u = Unsqueeze(t, k) zero = Sub(x, x)
             y = ScatterND<reduction = "add">(zero, u, m) }""",
        ("Gather", "rows by numbers of an input"),
    ),
    "dense graph network": (
        "g (float[V,V] a, float[V,3] x) => (float[V,3] y) { y = MatMul(a, x) }",
        ("'a'", "'V'", "twice"),
    ),
    "neighbours by name": (
        "g (float[A,B] a, float[V,3] x) => (float[A,3] y) { y = MatMul(a, x) }",
        ("MatMul",),
    ),
    "one scale for all rows": (
        """g (float[N,3] x) => (float[N,3] y)
           { q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z) }""",
        ("DynamicQuantizeLinear", "influence each other"),
    ),
    "statistics of the batch": (
        """g (float[N,2,3] x) => (float[N,2,3] y) <float[2] s = {1,1}, float[2] b = {0,0}, float[2] m = {0,0}, float[2] v = {1,1}>
           { y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) }""",
        ("BatchNormalization", "training_mode"),
    ),
    "softmax over rows": ("g (float[N,3] x) => (float[N,3] y) { y = Softmax<axis = 0>(x) }", ("Softmax", "rows")),
    "mean over rows": (
        "g (float[N,3] x) => (float[3] y) { z = Constant<value = int64[1] {0}>() y = ReduceMean<keepdims = 0>(x, z) }",
        ("ReduceMean", "over the rows"),
    ),
    "mean over everything": ("g (float[N,3] x) => (float y) { y = ReduceMean<keepdims = 0>(x) }", ("ReduceMean",)),
    "divided by the number of rows": (
        """g (float[N,3] x) => (float[N,3] y)
           { z = Constant<value = int64[1] {0}>() s = Shape(x) n = Gather(s, z) f = Cast<to = 1>(n) y = Div(x, f) }""",
        ("Div", "how many rows"),
    ),
    "groups across rows": (
        "g (float[N,6] x) => (float[M,4] y) { k = Constant<value = int64[2] {-1,4}>() y = Reshape(x, k) }",
        ("Reshape", "regroups"),
    ),
    "rows and columns exchanged by force": (
        """g (float[N,T] x) => (float[T,N] y)
           { s = Shape(x) i = Constant<value = int64[2] {1,0}>() q = Gather(s, i) y = Reshape(x, q) }""",
        ("Reshape", "takes rows apart"),
    ),
    "first row for all": (
        """g (float[N,3] x) => (float[N,3] y)
           { a = Constant<value = int64[1] {0}>() b = Constant<value = int64[1] {1}>() f = Slice(x, a, b) y = Add(x, f) }""",
        ("Slice", "by their position"),
    ),
    "every pair of rows": (
        "g (float[N,3] x) => (float[N,N] y) { t = Transpose(x) y = MatMul(x, t) }",
        ("MatMul", "other rows"),
    ),
    "a position for every row": (
        """g (float[N,3] x) => (float[N,3] y) <float[8,3] p = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6}>
           { z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>() s = Shape(x) n = Gather(s, z)
             r = Range(z, n, o) e = Gather(p, r) y = Add(x, e) }""",
        ("Gather", "number of the row"),
    ),
    "a fixed other batch": (
        "g (float[N,3] x) => (float[N,3] y) <float[2,3] p = {1,2,3,4,5,6}> { y = Add(x, p) }",
        ("Add", "'p'"),
    ),
    "as many as found": ("g (float[N,3] x) => (int64[2,M] y) { y = NonZero(x) }", ("NonZero", "all rows together")),
    "a random draw": ("g (float[N,3] x) => (float[N,3] y) { r = RandomNormalLike(x) y = Add(x, r) }", ("random",)),
    "rows as time": (
        """g (float[N,1,3] x) => (float[N,1,1,4] y)
           <float[1,4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float[1,4,4] r = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}>
           { y, h = RNN<hidden_size = 4>(x, w, r) }""",
        ("RNN", "along the rows"),
    ),
    "a decision for all rows": (
        """g (float[N,3] x) => (float[N,3] y)
           { s = ReduceMax<keepdims = 0>(x) z = Constant<value = float {0.0}>() c = Greater(s, z)
             y = If(c) <then_branch = t () => (float[N,3] a) { a = Neg(x) },
                        else_branch = e () => (float[N,3] b) { b = Exp(x) }> }""",
        ("ReduceMax",),
    ),
    "a decision by the number of rows": (
        """g (float[N,3] x) => (float[N,3] y)
           { z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>() s = Shape(x) n = Gather(s, z)
             c = Equal(n, o) y = If(c) <then_branch = t () => (float[N,3] a) { a = Neg(x) },
                        else_branch = e () => (float[N,3] b) { b = Exp(x) }> }""",
        ("If", "all rows together"),
    ),
    "an operator from elsewhere": (
        "g (float[N,3] x) => (float[N,3] y) { y = com.microsoft.Mystery(x) }",
        ("Mystery", "not known"),
    ),
    "squeezed where it is one": (
        "g (float[N,1,3] x) => (float[N,3] y) { y = Squeeze(x) }",
        ("Squeeze", "one row"),
    ),
    "carried from row to row": (
        """g (float[N,3] x) => (float[N,3] y) <float[3] w = {0,0,0}>
           { h, y = Scan<num_scan_inputs = 1, body = b (float[3] p, float[3] v) => (float[3] q, float[3] o)
               { q = Add(p, v) o = Identity(q) }>(w, x) }""",
        ("Scan", "from row to row"),
    ),
    "rows in reverse": (
        """g (float[N,3] x) => (float[N,3] y)
           { y = Scan<num_scan_inputs = 1, scan_input_directions = [1], body = b (float[3] v) => (float[3] o)
               { o = Neg(v) }>(x) }""",
        ("Scan", "reverses the order of the rows"),
    ),
    "unpooled into larger rows": (
        """g (float[N,1,4,4] x) => (float[N,1,8,8] y)
           { p, i = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x) b = Concat<axis = 3>(p, p) c = Concat<axis = 2>(b, b)
             j = Concat<axis = 3>(i, i) k = Concat<axis = 2>(j, j)
             y = MaxUnpool<kernel_shape = [2,2], strides = [2,2]>(c, k) }""",
        ("counts positions",),
    ),
    "several entries a row": (
        "g (float[N,2,3] x) => (float[M,3] y) { k = Constant<value = int64[2] {-1,3}>() y = Reshape(x, k) }",
        ("'y'", "2 entries a row"),
    ),
    "no open dimension": ("g (float[1,3] x) => (float[1,3] y) { y = Neg(x) }", ("no input has an open dimension",)),
    "nothing depends on it": (
        "g (float[N,3] x) => (float[2] y) { y = Constant<value = float[2] {1,2}>() }",
        ("no output depends",),
    ),
    "rows joined for good": (
        "g (float[N,3] x) => (float[M,3] y) { n = Neg(x) y = Concat<axis = 0>(x, n) }",
        ("'y'", "2 entries a row"),
    ),
    "places of other rows": (
        """g (float[N,T] x) => (float[N,T] y)
           { z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>() s = Shape(x) n = Gather(s, z)
             t = Gather(s, o) r = Range(z, n, o) c = Range(z, t, o) k = Constant<value = int64[1] {1}>()
             u = Unsqueeze(r, k) a = Add(u, c) e = Constant<value = int64[1] {-1}>() f = Reshape(x, e) y = Gather(f, a) }""",
        ("numbers of the rows",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, words = REFUSED[name]
    assert_refused(text, *words)


def test_reasons_name_the_node() -> None:
    _, plan = plan_of("g (float[N,3] x) => (float[N,3] y) { [norm] h = Softmax<axis = 0>(x) y = Neg(h) }")
    assert plan.reason == "Softmax (node 'norm') works along the rows' axis"
    assert plan.why_not("h") == plan.reason
    assert plan.axis("h") is None
    assert plan.axis("x") == 0


# By hand ---------------------------------------------------------------------------------------------------------

MIXED_INPUTS = (
    "g (float[N,3] x, float[M,3] state) => (float[N,3] y) { s = ReduceSum<keepdims = 0>(state) y = Add(x, s) }"
)


def test_an_input_held_fixed() -> None:
    assert_refused(MIXED_INPUTS, "ReduceSum")
    plan = assert_proven(MIXED_INPUTS, {"x": floats(3, 3), "state": floats(2, 3)}, {"state": None})
    assert plan.axis("state") is None


def test_another_axis() -> None:
    text = "g (float[3,A,B] x) => (float[3,A,B] y) { y = Neg(x) }"
    assert_refused(text, "no input has an open dimension")
    plan = assert_proven(text, {"x": floats(3, 4, 2)}, {"x": 1})
    assert plan.axis("y") == 1


def test_a_batch_that_the_file_fixes() -> None:
    text = """g (float[3,2,4] x) => (float[3,8] y) <float[3,1,4] p = {1,2,3,4,1,2,3,4,1,2,3,4}>
        { a = Add(x, p) k = Constant<value = int64[2] {6,4}>() r = Reshape(a, k) s = Softmax(r)
          b = Constant<value = int64[2] {3,8}>() y = Reshape(s, b) }"""
    _, plan = plan_of(text, {"x": 0})
    assert plan.batchable, plan.reason
    assert plan.axis("y") == 0
    assert_refused(text.replace("1,2,3,4,1,2,3,4}", "1,2,3,4,1,2,3,5}"), "Add", "'p'", given={"x": 0})


def test_batches_that_the_file_fixes_differently() -> None:
    text = "g (float[3,2] x, float[4,2] z) => (float[3,2] y, float[4,2] w) { y = Neg(x) w = Neg(z) }"
    assert_refused(text, "batch dimensions differ: 3, 4", given={"x": 0, "z": 0})


def test_wrong_names_and_axes() -> None:
    with pytest.raises(OptionError, match="no input 'q'"):
        plan_of(MIXED_INPUTS, {"q": 0})
    with pytest.raises(OptionError, match="'x' has no axis 2"):
        plan_of(MIXED_INPUTS, {"x": 2})
    _, plan = plan_of(MIXED_INPUTS)
    with pytest.raises(OptionError, match="no value 'q'"):
        plan.axis("q")


def test_the_graph_is_not_changed() -> None:
    model = prepare(load(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 20]>{PROVEN["heads"][0]}')))
    before = ir.to_proto(model).SerializeToString()
    batch_axes(model.graph)
    assert ir.to_proto(model).SerializeToString() == before
