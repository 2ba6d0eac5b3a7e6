from __future__ import annotations

import onnx_ir as ir

from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.states import CHANGES
from tests.rules.control_flow import parse


def shapes(values: list[ir.Value]) -> list[str]:
    return [str(v.shape) for v in values]


def loop_of(text: str) -> tuple[ir.Node, ir.Graph]:
    graph = prepare(ir.from_proto(parse(text))).graph
    node = next(n for n in graph if n.op_type == "Loop")
    return node, node.attributes["body"].as_graph()


def test_a_kept_shape_is_that_of_the_initial_value_inside_and_behind() -> None:
    node, body = loop_of("""
    g (T[N,3] x, T[3,3] w, int64 n) => (T[A,B] y)
    {
      s0 = Tanh(x)
      last, same = Loop (n, , s0, n) <body = b (int64 i, bool c, T[A,B] s, int64 k) => (bool c2, T[C,D] s2, int64 k2) {
        c2 = Identity(c)
        p = MatMul(s, w)
        s2 = Tanh(p)
        k2 = Add(k, i)
      }>
      y = Identity(last)
    }
    """)
    assert shapes(list(body.inputs[2:])) == ["[N,3]", "[]"]
    assert shapes(list(node.outputs)) == ["[N,3]", "[]"]


def test_a_changing_shape_keeps_what_does_not_change_and_is_marked() -> None:
    node, body = loop_of("""
    g (T[1,3] x, int64 n) => (T[A,B] y)
    {
      y = Loop (n, , x) <body = b (int64 i, bool c, T[A,B] s) => (bool c2, T[C,D] s2) {
        c2 = Identity(c)
        s2 = Concat<axis = 0>(s, x)
      }>
    }
    """)
    carried = body.inputs[2]
    assert carried.meta[CHANGES] == ("[1,3]", "[2,3]")
    assert carried.shape is not None
    assert carried.shape[1] == 3
    assert not isinstance(carried.shape[0], int)
    assert node.outputs[0].shape is None or not isinstance(node.outputs[0].shape[0], int)


def test_states_that_depend_on_each_other() -> None:
    _, body = loop_of("""
    g (T[2,3] x, T[1,3] r, int64 n) => (T[A,B] y, T[A,B] z)
    {
      y, z = Loop (n, , x, r) <body = b (int64 i, bool c, T[A,B] s, T[C,D] t) => (bool c2, T[A,B] s2, T[C,D] t2) {
        c2 = Identity(c)
        s2 = Mul(s, t)
        t2 = Mul(t, s)
      }>
    }
    """)
    assert shapes([body.inputs[2]]) == ["[2,3]"]
    assert body.inputs[3].meta[CHANGES] == ("[1,3]", "[2,3]")
    assert not isinstance((body.inputs[3].shape or [None])[0], int)


def test_what_the_file_leaves_out_of_body_inputs() -> None:
    model = parse("""
    g (T[2,3] x, int64 n) => (T[2,3] y)
    {
      y = Loop (n, , x) <body = b (int64 i, bool c, T[2,3] s) => (bool c2, T[2,3] s2) {
        c2 = Identity(c)
        row = Gather(x, i)
        s2 = Add(s, row)
      }>
    }
    """)
    for value in model.graph.node[0].attribute[0].g.input:
        value.type.tensor_type.ClearField("shape")
    node = prepare(ir.from_proto(model)).graph[-1]
    assert shapes(list(node.attributes["body"].as_graph().inputs)) == ["[]", "[]", "[2,3]"]
