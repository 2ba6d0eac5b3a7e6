"""The one-file model: its signature, its numbers beside Explainer's, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

import onnx_ig
from onnx_ig import OptionError
from tests.gradcheck import Runner

pytestmark = pytest.mark.filterwarnings("ignore::onnx_ig.OnnxIgWarning")
rng = np.random.default_rng(11)
SAMPLES = Path(__file__).parents[2] / "sample_models"
NETWORK = (
    '<ir_version: 8, opset_import: ["": 17]> g (float[batch,3] x, float[batch,3] z) => (float[batch,4] y) <float[3,4] w = '
    "{0.5, -1.0, 0.3, 0.8, 1.0, 0.2, -0.7, 0.1, -0.4, 0.9, 0.6, -0.2}> "
    "{ a = Mul(x, z) b = Tanh(a) c = MatMul(b, w) y = Softmax(c) }"
)
X = rng.standard_normal((5, 3)).astype(np.float32)
Z = rng.standard_normal((5, 3)).astype(np.float32)


def network() -> onnx.ModelProto:
    return parser.parse_model(NETWORK)


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    onnx.checker.check_model(model)
    return dict(zip([o.name for o in model.graph.output], Runner(model)(feeds), strict=True))


def manifest(model: onnx.ModelProto) -> dict[str, Any]:
    return json.loads(next(p.value for p in model.metadata_props if p.key == "onnx_ig.manifest"))


def shapes(values: Any) -> dict[str, list[int | str]]:
    return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}


def test_signature() -> None:
    model = onnx_ig.rewrite(network(), n_steps=8)
    assert shapes(model.graph.input) == {"x": ["N", 3], "z": ["N", 3]}
    assert shapes(model.graph.output) == {
        "y": ["N", 4], "x_attribution": ["N", 3], "z_attribution": ["N", 3], "attributed_target": ["N", 1],
        "convergence_delta": ["N", 1],
    }  # fmt: skip
    assert {o.domain for o in model.opset_import} == {""}
    assert model.opset_import[0].version <= 21
    told = manifest(model)
    assert told["batchable"] is True
    assert told["inputs"]["x"] == {"attribution": "x_attribution", "kind": "float", "batch_axis": 0}
    assert (told["method"], told["n_steps"], told["target"]) == ("integrated_gradients", 8, "predicted")


@pytest.mark.parametrize("options", [{}, {"loop": "looped"}, {"loop": "looped", "steps_per_iteration": 3}])
def test_the_numbers_are_those_of_explainer(options: dict[str, Any]) -> None:
    given = run(onnx_ig.rewrite(network(), n_steps=8, **options), {"x": X, "z": Z})
    expected = onnx_ig.Explainer(network()).attribute({"x": X, "z": Z}, n_steps=8)
    for name in ("x", "z"):
        np.testing.assert_allclose(given[f"{name}_attribution"], expected[name], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(given["attributed_target"], expected.target)
    np.testing.assert_allclose(given["convergence_delta"][:, 0], expected.convergence_delta, atol=1e-6)
    np.testing.assert_array_equal(given["y"], Runner(network())({"x": X, "z": Z})[0])


@pytest.mark.parametrize("method", ["gradient", "gradient_x_input", "guided_backprop", "deeplift"])
def test_methods_without_steps(method: str) -> None:
    given = run(onnx_ig.rewrite(network(), method), {"x": X, "z": Z})
    expected = onnx_ig.Explainer(network(), method).attribute({"x": X, "z": Z})
    np.testing.assert_allclose(given["x_attribution"], expected["x"], rtol=1e-4, atol=1e-6)
    if method == "deeplift":
        assert np.abs(given["convergence_delta"]).max() < 1e-5
    else:
        assert np.isnan(given["convergence_delta"]).all()


def test_target_and_baseline_as_inputs() -> None:
    model = onnx_ig.rewrite(network(), n_steps=8, target="input", baselines="input")
    assert list(shapes(model.graph.input)) == ["x", "z", "target", "x_baseline", "z_baseline"]
    assert shapes(model.graph.input)["target"] == ["N", 1]
    target = np.array([[0], [1], [2], [3], [0]])
    start = {"x": X - 1, "z": Z * 0.5}
    feeds = {"x": X, "z": Z, "target": target, "x_baseline": start["x"], "z_baseline": start["z"]}
    given = run(model, feeds)
    expected = onnx_ig.Explainer(network()).attribute({"x": X, "z": Z}, start, target=target, n_steps=8)
    np.testing.assert_allclose(given["x_attribution"], expected["x"], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(given["attributed_target"], target)


@pytest.mark.parametrize("method", ["integrated_gradients", "gradient"])
def test_a_target_out_of_range_fails_in_the_runtime(method: str) -> None:
    model = onnx_ig.rewrite(network(), method, target="input")
    with pytest.raises(Exception, match=r"(?i)out of"):
        run(model, {"x": X, "z": Z, "target": np.full((5, 1), 9)})


def test_baked_in_baseline_and_target() -> None:
    row = np.array([0.5, -0.5, 1.0])
    given = run(onnx_ig.rewrite(network(), n_steps=8, target=-1, baselines={"x": row}), {"x": X, "z": Z})
    expected = onnx_ig.Explainer(network()).attribute({"x": X, "z": Z}, {"x": row}, target=3, n_steps=8)
    np.testing.assert_allclose(given["x_attribution"], expected["x"], rtol=1e-4, atol=1e-6)
    assert (given["attributed_target"] == 3).all()


def test_higher_ranks_and_outputs_of_rank_one() -> None:
    cube = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,6] x) => (float[N,2,3] y) <int64[3] s = {-1, 2, 3}> '
        "{ a = Tanh(x) y = Reshape(a, s) }"
    )
    x = rng.standard_normal((4, 6)).astype(np.float32)
    given = run(onnx_ig.rewrite(cube, n_steps=4), {"x": x})
    flat = given["y"].reshape(4, -1).argmax(1)
    np.testing.assert_array_equal(given["attributed_target"], np.stack(np.unravel_index(flat, (2, 3)), 1))
    line = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,6] x) => (float[N] y) <int64[1] a = {1}> '
        "{ y = ReduceSum <keepdims = 0> (x, a) }"
    )
    given = run(onnx_ig.rewrite(line, n_steps=4), {"x": x})
    assert given["attributed_target"].tolist() == [[0]] * 4
    np.testing.assert_allclose(given["x_attribution"], x, rtol=1e-5)


def test_tokens() -> None:
    path = SAMPLES / "sentiment.onnx"
    model = onnx_ig.rewrite(path, n_steps=8)
    assert shapes(model.graph.output)["ids_attribution"] == ["N", "T"]
    ids = rng.integers(2, 4000, (3, 7))
    expected = onnx_ig.Explainer(path).attribute({"ids": ids}, n_steps=8)
    given = run(model, {"ids": ids})
    np.testing.assert_allclose(given["ids_attribution"], expected["ids"], rtol=1e-4, atol=1e-5)
    assert manifest(model)["inputs"]["ids"]["kind"] == "tokens"
    unknown = run(onnx_ig.rewrite(path, n_steps=8, baselines={"ids": 1}), {"ids": ids})
    expected = onnx_ig.Explainer(path).attribute({"ids": ids}, {"ids": 1}, n_steps=8)
    np.testing.assert_allclose(unknown["ids_attribution"], expected["ids"], rtol=1e-4, atol=1e-5)


def test_rows_that_influence_each_other_keep_their_shapes() -> None:
    mixing = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[V,3] x) => (float[V,3] y) { a = Softmax <axis = 0> (x) y = Mul(a, x) }'
    )
    model = onnx_ig.rewrite(mixing, n_steps=16)
    told = manifest(model)
    assert told["batchable"] is False
    assert "Softmax" in told["reason"]
    assert shapes(model.graph.input) == {"x": ["V", 3]}
    given = run(model, {"x": X})
    assert given["attributed_target"].shape == (1, 2)
    assert given["convergence_delta"].shape == (1, 1)
    y, base = (Runner(mixing)({"x": v})[0] for v in (X, X * 0))
    index = tuple(given["attributed_target"][0])
    np.testing.assert_allclose(given["x_attribution"].sum(), y[index] - base[index], rtol=1e-3)


@pytest.mark.parametrize(
    ("outputs", "nodes", "said"),
    [
        ("float[T,N,3] y", "s = Transpose <perm = [1, 0, 2]> (x) y = Tanh(s)", "'y'"),
        ("float[N,T,3] y, float[T,N,3] z", "y = Tanh(x) z = Transpose <perm = [1, 0, 2]> (x)", "'z'"),
    ],
)
def test_outputs_that_do_not_lead_with_the_batch_keep_their_shapes(outputs: str, nodes: str, said: str) -> None:
    """Recurrent networks give [time, batch, classes]."""
    model = onnx_ig.rewrite(
        parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17]> g (float[N,T,3] x) => ({outputs}) {{ {nodes} }}'
        ),
        output="y", n_steps=4,
    )  # fmt: skip
    told = manifest(model)
    assert told["batchable"] is False
    assert f"the output {said} does not lead with the batch" in told["reason"]
    x = rng.standard_normal((2, 5, 3)).astype(np.float32)
    given = run(model, {"x": x})
    assert given["attributed_target"].shape == (1, 3)
    hit = given["x_attribution"] != 0
    assert hit.sum() == 1
    np.testing.assert_allclose(given["x_attribution"][hit], np.tanh(x[hit]), rtol=1e-2)


def test_a_fixed_batch_loops_over_steps() -> None:
    fixed = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,3] x) => (float[1,3] y) { a = Tanh(x) y = Mul(a, x) }'
    )
    model = onnx_ig.rewrite(fixed, n_steps=16)
    assert manifest(model)["batchable"] is False
    assert "Loop" in [n.op_type for n in model.graph.node]
    given = run(model, {"x": X[:1]})
    np.testing.assert_allclose(given["convergence_delta"], [[0]], atol=1e-5)


def test_names_that_collide_get_a_suffix() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,3] x) => (float[N,3] x_attribution) { x_attribution = Tanh(x) }'
    )
    augmented = onnx_ig.rewrite(model, n_steps=4)
    names = [o.name for o in augmented.graph.output]
    assert [names[0], *names[2:]] == ["x_attribution", "attributed_target", "convergence_delta"]
    assert names[1].startswith("x_attribution_")
    assert manifest(augmented)["names"] == {"x_attribution": names[1]}
    result = onnx_ig.runtime.load(augmented.SerializeToString()).run(X)
    np.testing.assert_allclose(result["x"], np.tanh(X) * np.eye(3)[np.tanh(X).argmax(1)], atol=1e-3)


def test_weights_are_in_the_file_once() -> None:
    plain = (SAMPLES / "efficientnet_lite0.onnx").stat().st_size
    for options in ({}, {"loop": "looped"}):
        size = len(onnx_ig.rewrite(SAMPLES / "efficientnet_lite0.onnx", n_steps=2, **options).SerializeToString())
        assert size < 1.1 * plain


def test_saved_file_runs_in_the_runtime_alone(tmp_path: Path) -> None:
    path = tmp_path / "digits_ig.onnx"
    model = onnx_ig.rewrite(SAMPLES / "digits.onnx", n_steps=16, save_as=path)
    assert path.read_bytes() == model.SerializeToString()
    loaded = onnx_ig.runtime.load(path)
    x = rng.random((5, 1, 8, 8)).astype(np.float32)
    whole, parts = loaded.run(x), loaded.run(x, internal_batch_size=2)
    np.testing.assert_allclose(whole["image"], parts["image"], rtol=1e-4, atol=1e-6)
    expected = onnx_ig.Explainer(SAMPLES / "digits.onnx").attribute(x, n_steps=16)
    np.testing.assert_allclose(whole["image"], expected["image"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(whole.prediction, expected.prediction, rtol=1e-5)
    np.testing.assert_allclose(whole.baseline_prediction, expected.baseline_prediction, rtol=1e-3, atol=1e-3)
    assert list(whole.outputs) == ["logits"]
    assert whole.labels is not None
    assert ort.InferenceSession(path).get_modelmeta().custom_metadata_map["onnx_ig.labels"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "expected_gradients"}, "no one-file form"),
        ({"method": "nothing"}, "not known"),
        ({"loop": "spiral"}, "batched"),
        ({"target": 4}, "out of range"),
        ({"target": (0, 1)}, "one index"),
        ({"target": [0, 1]}, "one-file"),
        ({"target": "best"}, "predicted"),
        ({"baselines": np.zeros((2, 5))}, "dictionary|shape"),
        ({"baselines": {"q": 0}}, "not attributed"),
        ({"baselines": {"x": np.zeros(7)}}, "shape"),
        ({"baselines": {"x": float("nan")}}, "NaN"),
        ({"n_steps": 0}, "n_steps"),
        ({"quadrature": "simpson"}, "quadrature"),
        ({"output": "nothing"}, "no value"),
        ({"inputs": "nothing"}, "no value"),
        ({"runtime": "abacus"}, "runtime"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        onnx_ig.rewrite(network(), **options)


def test_what_rewrite_returns_is_loaded_as_bytes() -> None:
    with pytest.raises(onnx_ig.ModelError, match=r"not ModelProto; give its SerializeToString\(\), or write it"):
        onnx_ig.runtime.load(onnx_ig.rewrite(network(), n_steps=2))


def test_without_a_batch_what_is_fed_is_one_sample_and_the_result_says_so() -> None:
    tied = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[N,3] x) => (float[N,3] y) '
        "{ d, s, z = DynamicQuantizeLinear(x) h = DequantizeLinear(d, s, z) y = Tanh(h) }"
    )
    result = onnx_ig.runtime.load(onnx_ig.rewrite(tied, n_steps=2).SerializeToString()).run(X)
    assert result.prediction.shape == (1,)
    (note,) = result.notes
    assert note.startswith("the feeds are one sample, one step a run: DynamicQuantizeLinear")
