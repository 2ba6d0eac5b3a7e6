"""What dataflow does not prove about the batch: the node that mixes rows is named."""

from __future__ import annotations

import pytest

from tests.graph.plans import assert_refused, plan_of

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
