"""What dataflow proves about the batch must hold in the runtime: rows run together give what each gives alone."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from onnx_ig.errors import OptionError
from onnx_ig.graph.batch import batch_axes
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.plans import assert_proven, assert_refused, floats, plan_of

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
        {"x": floats(3, 4, 2), "ids": np.random.default_rng(0).integers(0, 9, (3, 4))},
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
