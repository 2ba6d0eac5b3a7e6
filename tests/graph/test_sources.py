"""Which inputs are taken for tokens, and through which operators their ids are followed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.sources import Source, classify
from onnx_ig.rules import GRADIENT

TABLES = [onnx.numpy_helper.from_array(np.ones((n, 4), np.float32), k) for k, n in (("table", 20), ("positions", 12))]


def sources(body: str, kind: str = "int64") -> dict[str, Source]:
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({kind}[N, T] ids) => (float[N, T, 4] y) {body}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(t for t in TABLES if t.name in body)
    return {s.name: s for s in classify(prepare(load(model), GRADIENT.knows).graph)}


FORMS = {
    "plain": "y = Gather (table, ids)",
    "cast": "i = Cast <to = 7> (ids)  y = Gather (table, i)",
    # jax2onnx 0.17, of table[ids]
    "jax": """zero = Constant <value_int = 0> ()  size = Constant <value_int = 20> ()
        below = Less (ids, zero)  moved = Add (ids, size)  i = Where (below, moved, ids)  y = Gather (table, i)""",
    # tf2onnx 1.17, of keras.layers.Embedding: the choice as a sum of products
    "keras": """zero = Constant <value_int = 0> ()  size = Constant <value_int = 20> ()
        below = Less (ids, zero)  moved = Add (ids, size)
        yes = Cast <to = 7> (below)  other = Not (below)  no = Cast <to = 7> (other)
        a = Mul (yes, moved)  b = Mul (ids, no)  i = Add (a, b)  y = Gather (table, i)""",
    "clipped": """zero = Constant <value_int = 0> ()  last = Constant <value_int = 19> ()
        i = Clip (ids, zero, last)  y = Gather (table, i)""",
}


@pytest.mark.parametrize("form", FORMS)
def test_ids_are_followed_to_their_table(form: str) -> None:
    found = sources(f"{{ {FORMS[form]} }}")["ids"]
    assert (found.kind, [v.name for v in found.values]) == ("tokens", ["y"])


def test_positions_counted_from_padding_are_no_tokens() -> None:
    body = """{
        pad = Constant <value_int = 1> ()  one = Constant <value_int = 1> ()
        equal = Equal (ids, pad)  other = Not (equal)  mask = Cast <to = 7> (other)
        count = CumSum (mask, one)  kept = Mul (count, mask)  place = Add (kept, pad)
        p = Gather (positions, place)  e = Gather (table, ids)  y = Add (e, p) }"""
    found = sources(body)["ids"]
    assert [v.name for v in found.values] == ["e"]


def test_numbers_that_index_nothing_are_held() -> None:
    found = sources("{ y0 = Cast <to = 1> (ids)  axis = Constant <value_ints = [2]> () one = Unsqueeze (y0, axis)  "
                    "four = Constant <value_ints = [1, 1, 4]> ()  y = Tile (one, four) }")["ids"]  # fmt: skip
    assert found.kind == "held"


def test_positions_and_segments_of_fused_nodes_are_held_whatever_their_names() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>
        g (int64[N,T] a, int64[N,T] b, int64[N,T] c, float[N,2,T,4] x, int64[N,T] d) => (float[N,T,4] y, float[N,2,T,4] z)
        <float[4] one = {1,1,1,1}, float[4] none = {0,0,0,0}>
        { y, i = com.microsoft.EmbedLayerNormalization (a, b, table, places, kinds, one, none, , c)
          z = com.microsoft.RotaryEmbedding (x, d, turns, turns) }"""
    model = onnx.parser.parse_model(text)
    for name, shape in {"table": (20, 4), "places": (12, 4), "kinds": (2, 4), "turns": (12, 2)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), name))
    found = {s.name: (s.kind, s.reason) for s in classify(prepare(load(model), GRADIENT.knows).graph)}
    assert found["a"][0] == "tokens"
    assert found["b"] == ("held", "it gives segments")
    assert found["c"] == found["d"] == ("held", "it gives positions")
