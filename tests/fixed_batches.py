"""Models of a batch that the file fixes: the ways in which exporters write its size into a graph."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import parser

__all__ = ["MODELS", "OF_ONE_ROW", "model_of", "rows_for"]

_RECURRENT = """<float[1,8,3] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6},
    float[1,8,2] r = {1,0,0,1,1,0,0,1,1,0,0,1,1,0,0,1}, float[1,B,2] h = {HS}>"""

MODELS = {
    "flattened by numbers": """g (float[B,2,3] x) => (float[B,4] y) <float[6,4] w = {W24}>
        { k = Constant<value = int64[2] {B,6}>() f = Reshape(x, k) y = MatMul(f, w) }""",
    "rows and heads as one axis": """g (float[B,4,6] x) => (float[B,4,6] y)
        { a = Constant<value = int64[4] {B,4,2,3}>() q = Reshape(x, a) t = Transpose<perm = [0,2,1,3]>(q)
          b = Constant<value = int64[3] {BxH,4,3}>() m = Reshape(t, b) u = Transpose<perm = [0,2,1]>(m)
          s = MatMul(m, u) p = Softmax(s) v = MatMul(p, m) c = Constant<value = int64[4] {B,2,4,3}>()
          w = Reshape(v, c) z = Transpose<perm = [0,2,1,3]>(w) d = Constant<value = int64[3] {B,4,6}>() y = Reshape(z, d) }""",
    "time first, heads behind the rows": """g (float[B,5,4] x) => (float[B,5,4] y) <float[4,4] w = {W16}>
        { t = Transpose<perm = [1,0,2]>(x) a = Constant<value = int64[3] {5,BxH,2}>() q = Reshape(t, a)
          m = Transpose<perm = [1,0,2]>(q) u = Transpose<perm = [0,2,1]>(m) s = MatMul(m, u) p = Softmax(s)
          v = MatMul(p, m) z = Transpose<perm = [1,0,2]>(v) b = Constant<value = int64[2] {Bx5,4}>() f = Reshape(z, b)
          n = MatMul(f, w) c = Constant<value = int64[3] {5,B,4}>() o = Reshape(n, c) y = Transpose<perm = [1,0,2]>(o) }""",
    "a token joined to the rows": """g (float[B,3,2] x) => (float[B,4,2] y) <float[1,1,2] c = {7,8}>
        { k = Constant<value = int64[3] {B,-1,-1}>() n = Constant<value = int64[3] {B,1,2}>() e = Expand(c, n)
          j = Concat<axis = 1>(e, x) y = Tanh(j) }""",
    "broadcast constants of the batch's size": """g (float[B,3] x) => (float[B,3] y) <float[1,3] c = {7,8,9}>
        { n = Constant<value = int64[2] {B,3}>() e = Expand(c, n) y = Mul(e, x) }""",
    "another length is left over": """g (float[B,4,T] x) => (float[B,2,V] y)
        { k = Constant<value = int64[3] {B,2,-1}>() y = Reshape(x, k) }""",
    "sizes of a picture": """g (float[B,1,2,2] x) => (float[B,1,4,4] y)
        { n = Constant<value = int64[4] {B,1,4,4}>() y = Resize<mode = "linear">(x, , , n) }""",
    "a grid of the batch's size": """g (float[B,2,3] x) => (float[B,2,2,2] y)
        { n = Constant<value = int64[4] {B,1,2,2}>() y = AffineGrid(x, n) }""",
    "all rows, by number": """g (float[B,4] x) => (float[B,2] y)
        { s = Constant<value = int64[2] {0,1}>() e = Constant<value = int64[2] {B,3}>()
          a = Constant<value = int64[2] {0,1}>() y = Slice(x, s, e, a) }""",
    "initial states of zeros": """g (float[B,4,3] x) => (float[B,2] y) R
        { t = Transpose<perm = [1,0,2]>(x) s, l = LSTM<hidden_size = 2>(t, w, r, , , h, h) k = Constant<value = int64[1] {0}>()
          y = Squeeze(l, k) }""",
    "states carried by a loop": """g (float[B,2] x) => (float[B,2] y)
        { n = Constant<value = int64[2] {B,2}>() h = ConstantOfShape(n) c = Constant<value = bool {1}>()
          m = Constant<value = int64 {3}>()
          y = Loop(m, c, h) <body = b (int64 i, bool k, float[B,2] a) => (bool k2, float[B,2] o)
              { k2 = Identity(k) t = Tanh(a) o = Add(t, x) }> }""",
    "sizes read behind a loop": """g (float[B,2] x) => (float[B,4] y)
        { c = Constant<value = bool {1}>() m = Constant<value = int64 {2}>()
          l = Loop(m, c, x) <body = b (int64 i, bool k, float[B,2] a) => (bool k2, float[B,2] o)
              { k2 = Identity(k) n = Shape(a) r = Reshape(a, n) o = Tanh(r) }>
          n = Shape<start = 0, end = 1>(l) w = Constant<value = int64[1] {2}>() f = Concat<axis = 0>(n, w)
          z = ConstantOfShape(f) j = Concat<axis = 1>(l, z) y = Sin(j) }""",
    "steps scanned": """g (float[B,3,2] x) => (float[B,2] y) <float[B,2] h = {HS}>
        { t = Transpose<perm = [1,0,2]>(x)
          y, all = Scan<num_scan_inputs = 1, body = b (float[B,2] a, float[B,2] v) => (float[B,2] o, float[B,2] p)
              { q = Add(a, v) o = Tanh(q) p = Identity(q) }>(h, t) }""",
    "written row by row": """g (float[B,2] x) => (float[B,3] y) <float[B,3] z = {ZS}, int64[B,2,2] i = {IS}>
        { y = ScatterND(z, i, x) }""",
    "read row by row": """g (float[B,3] x) => (float[B,2] y) <int64[B,2,2] i = {IS}> { t = Tanh(x) y = GatherND(t, i) }""",
    "written side by side": """g (float[B,2] x) => (float[B,3] y) <float[B,3] z = {ZS}, int64[B,2] i = {JS}>
        { y = ScatterElements<axis = 1>(z, i, x) }""",
    "sizes read from the input": """g (float[B,2,3] x) => (float[B,6] y)
        { s = Shape<start = 0, end = 1>(x) k = Constant<value = int64[1] {6}>() n = Concat<axis = 0>(s, k)
          f = Reshape(x, n) y = Tanh(f) }""",
    "a cell written out": """g (float[B,2] x) => (float[B,2] y) <float[2,4] w = {1,2,3,4,4,3,2,1}>
        { n = Constant<value = int64[2] {B,2}>() h = ConstantOfShape(n) g = MatMul(h, w)
          a, b = Split<axis = 1, num_outputs = 2>(g) s = Add(x, a) t = Tanh(s) y = Mul(t, x) }""",
}

OF_ONE_ROW = {
    "transposed by numbers": """g (float[B,5,2] x) => (float[B,3] y)
        <float[1,3,2] w = {1,2,3,4,5,6}, float[1,3,3] r = {0.1,0,0.2,0,0.1,0,0.3,0,0.1}>
        { k = Constant<value = int64[3] {5,B,2}>() t = Reshape(x, k) s, h = RNN<hidden_size = 3>(t, w, r)
          a = Constant<value = int64[2] {B,3}>() y = Reshape(h, a) }""",
    "behind the last axis and back": """g (float[B,4] x) => (float[B,4] y) <float[4,4] w = {W16}>
        { k = Constant<value = int64[2] {4,B}>() c = Reshape(x, k) m = MatMul(w, c) t = Tanh(m)
          a = Constant<value = int64[2] {B,4}>() y = Reshape(t, a) }""",
    "moved and regrouped": """g (float[B,6] x) => (float[B,3] y) <float[2,2] w = {1,2,3,4}>
        { k = Constant<value = int64[3] {3,B,2}>() c = Reshape(x, k) s = Softmax<axis = 0>(c) m = MatMul(s, w)
          l = Constant<value = int64[1] {2}>() q = ReduceMax<keepdims = 0>(m, l) a = Constant<value = int64[2] {B,3}>()
          y = Reshape(q, a) }""",
}
"""What a file of one row can hold besides: its axis moved by Reshape, as converters write transpositions."""


def model_of(name: str, rows: int) -> onnx.ModelProto:
    text = (MODELS | OF_ONE_ROW)[name].replace("} R", "R").replace(" R\n", " " + _RECURRENT + "\n")
    lists = {
        "HS": [0.5, -0.25] * rows,
        "ZS": [0.5] * (3 * rows),
        "IS": [[n, p] for n in range(rows) for p in (2, 0)],
        "JS": [2, 0] * rows,
        "W24": list(range(24)),
        "W16": [0.1 * n for n in range(16)],
    }
    for key, numbers in lists.items():
        text = text.replace(f"{{{key}}}", "{" + ",".join(map(str, np.ravel(numbers))) + "}")
    text = text.replace("BxH", str(2 * rows)).replace("Bx5", str(5 * rows))
    text = (
        text.replace(",B}", f",{rows}}}")
        .replace("[B,", f"[{rows},")
        .replace("{B,", f"{{{rows},")
        .replace(",B,", f",{rows},")
    )
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')


def rows_for(model: onnx.ModelProto, rows: int, seed: int = 0) -> np.ndarray:
    """Samples for a model's only input; 4 entries along a dimension that is open."""
    dims = [d.dim_value or 4 for d in model.graph.input[0].type.tensor_type.shape.dim][1:]
    return np.random.default_rng(seed).standard_normal((rows, *dims)).astype(np.float32)
