"""A batch that the file fixes, opened: at the file's rows what it was, at any number row by row the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

from onnx_ig.graph.batch import batch_axes, open_batch
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.save import to_proto
from tests.fixed_batches import MODELS, OF_ONE_ROW, model_of, rows_for


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("name", "rows"), [*((n, r) for n in MODELS for r in (1, 2)), *((n, 1) for n in OF_ONE_ROW)])
def test_any_number_of_rows_is_what_each_block_of_the_file_is(name: str, rows: int) -> None:
    original = model_of(name, rows)
    prepared = prepare(load(original))
    open_batch(prepared, {"x": 0}, rows)
    plan = batch_axes(prepared.graph)
    assert plan.batchable, plan.reason
    x = rows_for(original, 3 * rows)
    opened, fixed = session(to_proto(prepared)), session(original)
    (got,) = opened.run(["y"], {"x": x})
    wanted = [fixed.run(["y"], {"x": x[n : n + rows]})[0] for n in range(0, 3 * rows, rows)]
    np.testing.assert_allclose(got, np.concatenate(wanted), rtol=1e-5, atol=1e-6)
    (alone,) = opened.run(["y"], {"x": x[:1]})
    np.testing.assert_allclose(alone, got[:1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis = 0>(x) }",
        "g (float[2,3] x) => (float[2,3] y) <float[2,3] w = {1,2,3,4,5,6}> { y = Mul(x, w) }",
        "g (float[1,3] x) => (float[3] y) { k = Constant<value = int64[1] {0}>() y = Squeeze(x, k) }",
        "g (float[2,3] x) => (float[2,1] y) <int64[2,1,2] i = {0,0,1,2}> { y = GatherND(x, i) }",
        """g (float[2,2] x) => (float[1,2] y) { s = Constant<value = int64[1] {0}>() e = Constant<value = int64[1] {1}>()
           a = Constant<value = int64[1] {0}>() y = Slice(x, s, e, a) }""",
    ],
    ids=["normalised over the rows", "weights of each row", "no axis left", "another place in each row", "one row"],
)
def test_rows_that_are_not_alike_stay_fixed(text: str) -> None:
    prepared = prepare(load(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')))
    rows = prepared.graph.inputs[0].shape[0]  # type: ignore[index]
    open_batch(prepared, {"x": 0}, int(rows))
    assert not batch_axes(prepared.graph).batchable


def test_squeeze_of_an_open_batch_drops_no_row() -> None:
    """The file drops the rows' axis too where one sample is fed; opened, one sample is a row of it."""
    text = """g (float[N,1,3] x) => (float[M,3] y) <float[1,3] b = {1,2,3}>
        { s = Squeeze(x) t = Tanh(s) y = Add(t, b) }"""
    original = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    prepared = prepare(load(original))
    assert not batch_axes(prepared.graph).batchable
    open_batch(prepared, {"x": 0}, 1)
    assert batch_axes(prepared.graph).batchable
    x = rows_for(original, 3)[:, :1, :3]
    opened = session(to_proto(prepared))
    (together,) = opened.run(["y"], {"x": x})
    np.testing.assert_array_equal(together, session(original).run(["y"], {"x": x})[0])
    np.testing.assert_array_equal(opened.run(["y"], {"x": x[:1]})[0], together[:1])


def test_squeeze_that_finds_nothing_else_to_drop_drops_nothing() -> None:
    text = "g (float[N,3] x) => (float[M,3] y) { s = Squeeze(x) y = Tanh(s) }"
    prepared = prepare(load(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')))
    open_batch(prepared, {"x": 0}, 1)
    assert session(to_proto(prepared)).run(["y"], {"x": np.ones((1, 3), np.float32)})[0].shape == (1, 3)


@pytest.mark.parametrize(
    "text",
    [
        """g (float[N,2] x) => (float[M,2] y) { s = Constant<value = int64[1] {0}>() e = Constant<value = int64[1] {1}>()
           a = Constant<value = int64[1] {0}>() y = Slice(x, s, e, a) }""",
        "g (float[N,3] x) => (float[1,2] y) <int64[1,2,2] i = {0,0,0,2}> { y = GatherND(x, i) }",
        """g (float[N,3] x) => (float[N,3] y) <int64[1,1,2] i = {0,1}, float[1,1] u = {9}>
           { y = ScatterND(x, i, u) }""",
    ],
    ids=["the first row", "read in the first row", "written to the first row"],
)
def test_what_is_meant_for_the_first_of_several_rows_stays_there(text: str) -> None:
    """The file runs with any number of rows, and says which one it takes: one row is no assumption to make."""
    prepared = prepare(load(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')))
    open_batch(prepared, {"x": 0}, 1)
    assert not batch_axes(prepared.graph).batchable
