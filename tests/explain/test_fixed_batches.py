"""Models exported for a fixed batch: any number of samples can be fed, together where rows are independent."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import parser

import onnx_ig
from tests.fixed_batches import MODELS, model_of, rows_for
from tests.sessions import single_threaded

pytestmark = [
    pytest.mark.filterwarnings("ignore:the baseline's own score"),
    pytest.mark.filterwarnings(
        "ignore:attributions of .* are all zero"
    ),  # a constant of the model is the largest entry
]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_samples_together_are_what_each_alone_is(name: str, rows: int) -> None:
    model = model_of(name, rows)
    x = rows_for(model, 5)
    explainer = onnx_ig.Explainer(model, session_options=single_threaded())
    together = explainer.attribute(x, n_steps=12)
    assert explainer.batching.mode == "free"
    fresh = onnx_ig.Explainer(model, session_options=single_threaded())
    for n in range(5):
        alone = fresh.attribute(x[n : n + 1], n_steps=12)
        np.testing.assert_allclose(together["x"][n], alone["x"][0], rtol=1e-4, atol=1e-5)
    assert together.outputs["y"].shape[0] == 5


@pytest.mark.parametrize("name", MODELS)
def test_a_served_model_of_it_takes_its_own_shape_unless_told(name: str) -> None:
    model = model_of(name, 2)
    x = rows_for(model, 6)
    own = onnx_ig.rewrite(model, n_steps=12)
    wide = onnx_ig.rewrite(model, n_steps=12, batchable=True)
    assert own.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
    assert wide.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    wanted = onnx_ig.Explainer(model, session_options=single_threaded()).attribute(x, n_steps=12)["x"]
    session = ort.InferenceSession(wide.SerializeToString(), single_threaded(), providers=["CPUExecutionProvider"])
    (got,) = session.run(["x_attribution"], {"x": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    session = ort.InferenceSession(own.SerializeToString(), single_threaded(), providers=["CPUExecutionProvider"])
    (got,) = session.run(["x_attribution"], {"x": x[2:4]})
    np.testing.assert_allclose(got, wanted[2:4], rtol=1e-4, atol=1e-5)


def test_a_fixed_batch_that_does_not_lead_everywhere_keeps_its_shapes() -> None:
    text = "g (float[2,3] x) => (float[2,3] y, float[3,2] z) { y = Tanh(x) z = Transpose(y) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    with pytest.warns(onnx_ig.OnnxIgWarning, match="fixed at 2, and the output 'z' does not lead"):
        served = onnx_ig.rewrite(model, output="y", n_steps=4, batchable=True)
    assert [d.dim_value for d in served.graph.input[0].type.tensor_type.shape.dim] == [2, 3]


@pytest.mark.parametrize("squeeze", ["Squeeze(x, k)", "Squeeze(x)"])
def test_one_row_of_which_nothing_is_proven_is_run_alone(squeeze: str) -> None:
    text = f"""g (float[1,3] x) => (float[1,3] y)
        {{ k = Constant<value = int64[1] {{0}}>() s = {squeeze} t = Softmax(s) y = Unsqueeze(t, k) }}"""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    explainer = onnx_ig.Explainer(model, session_options=single_threaded())
    x = np.random.default_rng(11).standard_normal((4, 3)).astype(np.float32)
    result = explainer.attribute(x, target=1)
    assert (explainer.batching.mode, explainer.batching.rows) == ("rows", 1)
    assert any("one row a run" in note for note in result.notes)
    e = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(result["x"].sum(1), e[:, 1] - 1 / 3, atol=1e-5)


def test_samples_that_a_model_of_one_cannot_run_are_told_to_be_taken_as_one() -> None:
    text = """g (float[N,3] x) => (float[M] y) <float[1,3] h = {1,2,3}>
        { k = Constant<value = int64[2] {1,3}>() r = Reshape(x, k) m = Add(r, h) y = Squeeze(m) }"""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    explainer = onnx_ig.Explainer(model, session_options=single_threaded())
    with pytest.raises(onnx_ig.RunError, match="taken as one sample: Reshape"):
        explainer.attribute(np.ones((3, 3), np.float32), target=0)
    assert explainer.attribute(np.ones((1, 3), np.float32), target=0)["x"].shape == (1, 3)


def test_rows_that_the_probe_finds_tied_are_run_as_the_file_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dataflow proved them apart; a runtime that does not keep them so is believed."""
    model = model_of("flattened by numbers", 2)
    monkeypatch.setattr("onnx_ig.explain.probe._agree", lambda a, b: False)
    explainer = onnx_ig.Explainer(model, session_options=single_threaded())
    x = rows_for(model, 3)
    result = explainer.attribute(x, n_steps=4)
    assert (explainer.batching.mode, explainer.batching.rows) == ("rows", 2)
    assert result["x"].shape == x.shape


def test_inspect_says_how_a_fixed_batch_is_taken() -> None:
    assert "fixed at 2; taken as one of any size" in onnx_ig.inspect(model_of("initial states of zeros", 2)).batch


def test_a_fixed_batch_that_cannot_be_opened_says_which_node_ties_its_rows() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { [the_node] s = Softmax<axis = 0>(x) y = Tanh(s) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    with pytest.warns(onnx_ig.OnnxIgWarning, match="fixed at 2, and Softmax \\(node 'the_node'\\)"):
        onnx_ig.rewrite(model, n_steps=4, batchable=True)
    assert "Softmax (node 'the_node')" in onnx_ig.inspect(model).batch
