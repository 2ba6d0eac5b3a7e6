from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_ig.graph.prepare import prepare
from tests.gradcheck import Runner, node_model
from tests.rules.recurrent_oracle import GATES, run

rng = np.random.default_rng(0)


@pytest.mark.parametrize("op", list(GATES))
def test_batch_first_operators_run_with_the_time_first(op: str) -> None:
    gates = GATES[op]
    inputs = {
        "X": rng.standard_normal((3, 5, 4)),
        "W": rng.standard_normal((2, gates * 3, 4)),
        "R": rng.standard_normal((2, gates * 3, 3)),
        "B": None,
        "sequence_lens": np.array([5, 2, 4], np.int32),
        "initial_h": rng.standard_normal((3, 2, 3)),
    }
    attributes = {"hidden_size": 3, "direction": "bidirectional", "layout": 1}
    model = node_model(op, inputs, attributes, outputs=["Y", "Y_h"], dtype=np.float32)
    prepared = ir.to_proto(prepare(ir.from_proto(model)))
    assert [o.name for o in prepared.graph.output] == ["Y", "Y_h"]
    feeds = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in inputs.items() if a is not None}
    for got, expected in zip(Runner(prepared)(feeds), run(op, inputs, attributes), strict=False):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_outputs_left_out_stay_so() -> None:
    inputs = {
        "X": rng.standard_normal((3, 5, 4)),
        "W": rng.standard_normal((1, 3, 4)),
        "R": rng.standard_normal((1, 3, 3)),
    }
    attributes = {"hidden_size": 3, "layout": 1}
    model = node_model("RNN", inputs, attributes, outputs=["", "Y_h"], dtype=np.float32)
    del model.graph.output[0]
    prepared = ir.to_proto(prepare(ir.from_proto(model)))
    got = Runner(prepared)({n: a.astype(np.float32) for n, a in inputs.items()})
    assert len(got) == 1
    np.testing.assert_allclose(got[0], run("RNN", inputs, attributes)[1], atol=1e-5)
