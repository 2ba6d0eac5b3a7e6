"""What users of other libraries complain about in memory and batching, and what is right."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import parser

import onnx_ig
from onnx_ig import OnnxIgWarning
from onnx_ig.quadrature import nodes_and_weights
from tests.cases.models import attribute, model

pytestmark = pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
rng = np.random.default_rng(37)

MEASURED = """
import json, warnings
import numpy as np
import onnxruntime as ort
from onnx_ig import Explainer
from onnx_ig.runtime.memory import Watch, meter
from tests.explain.nets import convolutional
warnings.simplefilter("ignore")
options = ort.SessionOptions()
options.intra_op_num_threads = 1
x = np.random.default_rng(0).standard_normal((64, 3, 48, 48)).astype(np.float32)
line, references = (
    Explainer(convolutional(size=48, channels=32), method, session_options=options)
    for method in ("integrated_gradients", "expected_gradients")
)
line.attribute(x[:1], n_steps=2)
print(json.dumps({"row": max(k.row_bytes for r in line._models._steps.values() for k in r.session.learned.values())}))
cases = {
    "samples": lambda: line.attribute(x, n_steps=6),
    "steps": lambda: line.attribute(x[:1], n_steps=400),
    "targets": lambda: line.attribute(x[:4], n_steps=6, target=[0, 1, 2, 3] * 4),
    "references": lambda: references.attribute(x[:1], n_steps=6, references=x),
    "tolerance": lambda: line.attribute(x[:16], tolerance=0.02),
}
before = meter()()
for name, run in cases.items():
    with Watch(meter(), before) as watch:
        result = run()
    print(json.dumps({name: watch.grown, "gradients": result.gradients}))
"""


def test_peak_memory_grows_with_nothing() -> None:
    """Hundreds of rows that would take hundreds of megabytes together; what is held is what one run may take."""
    done = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True)
    row, *measured = map(json.loads, done.stdout.splitlines())
    for case in measured:
        gradients = case.pop("gradients")
        ((name, grown),) = case.items()
        assert gradients * row["row"] > 250e6, name  # the test would see it
        assert grown < 220e6, (name, grown)


def test_models_that_fold_sentences_into_the_batch() -> None:
    """[N, S, F] becomes [N * S, F] inside: samples stay apart, however they are split."""
    folding = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,3,4] x) => (float[N,2] y) '
        "<int64[2] flat = {-1, 4}, int64[3] apart = {-1, 3, 2}, "
        "float[4,2] w = {0.3, -1.0, 0.5, 0.2, -0.7, 0.9, 1.1, 0.4}> "
        "{ f = Reshape(x, flat) h = MatMul(f, w) t = Tanh(h) s = Reshape(t, apart) "
        "y = ReduceMean <axes = [1], keepdims = 0> (s) }"
    )
    x = rng.standard_normal((5, 3, 4)).astype(np.float32)
    explainer = onnx_ig.Explainer(folding)
    together = explainer.attribute(x, target=1)
    np.testing.assert_allclose(together["x"].sum((1, 2)), together.prediction, atol=1e-5)
    for i in range(5):
        np.testing.assert_allclose(explainer.attribute(x[i : i + 1], target=1)["x"][0], together["x"][i], atol=1e-6)
    for rows in (1, 7, 1000):
        np.testing.assert_allclose(
            explainer.attribute(x, target=1, internal_batch_size=rows)["x"], together["x"], atol=1e-6
        )


@pytest.mark.parametrize("fixed", [1, 2])
def test_a_batch_that_the_file_fixes_is_not_expanded_silently(fixed: int) -> None:
    free = model("a = Mul(x1, x2) y = Tanh(a)", kind="float")
    static = onnx.ModelProto()
    static.CopyFrom(free)
    for value in (*static.graph.input, *static.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = fixed
    x = rng.standard_normal((3, 2))
    wanted, got = attribute(free, x, dtype=np.float32), attribute(static, x, dtype=np.float32)
    np.testing.assert_allclose(got["x"], wanted["x"], atol=1e-6)
    np.testing.assert_allclose(got.prediction, wanted.prediction, atol=1e-6)


def test_inputs_of_other_lengths_and_types_in_one_call() -> None:
    """A category by its embedding, five numbers and a weight of each sample; each is repeated with the steps."""
    mixed = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> '
        "g (int64[N] kind, float[N,5] numbers, float[N,1] weight_mask) => (float[N,1] y) "
        "<float[4,5] table = {0.3, -1.0, 0.5, 0.2, -0.7, 0.9, 1.1, 0.4, -0.2, 0.6, 1.0, 0.1, -0.4, 0.8, 0.3, -0.6, 0.2, 0.7, "
        "-0.9, 0.5}, int64[1] k = {1}> "
        "{ e = Gather(table, kind) p = Mul(e, numbers) s = ReduceSum <keepdims = 1> (p, k) y = Mul(s, weight_mask) }"
    )
    feeds = {
        "kind": rng.integers(0, 4, 6),
        "numbers": rng.standard_normal((6, 5)).astype(np.float32),
        "weight_mask": np.float32([[1], [0], [2], [1], [1], [0.5]]),
    }
    got = onnx_ig.Explainer(mixed).attribute(feeds, target=0)
    table = onnx.numpy_helper.to_array(mixed.graph.initializer[0])
    half = (table[feeds["kind"]] * feeds["numbers"] * feeds["weight_mask"]) / 2  # of a product each factor gets a half
    np.testing.assert_allclose(got["numbers"], half, atol=1e-5)
    np.testing.assert_allclose(got["kind"], half.sum(1), atol=1e-5)
    assert "weight_mask" not in got


def test_half_precision_is_summed_in_single() -> None:
    """Two thousand terms in float16 would stop growing at half of the sum."""
    square = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[N,2] x) => (float16[N,1] y) <int64[1] k = {1}> '
        "{ a = Mul(x, x) y = ReduceSum <keepdims = 1> (a, k) }"
    )
    got = attribute(square, [[1.5, 2], [3, -1]], dtype=np.float16, n_steps=2000, quadrature="riemann_middle")
    assert got["x"].dtype == np.float16
    np.testing.assert_allclose(got["x"].astype(np.float64), [[2.25, 4], [9, 1]], rtol=2e-3)
    assert (got.relative_delta < 2e-3).all()


def test_attributions_too_small_for_half_precision_are_told() -> None:
    tiny = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[N,2] x) => (float16[N,2] y) '
        "{ f = Cast <to = 1> (x) a = Mul(f, f) c = Constant <value = float {1e-9}> () b = Mul(a, c) y = Cast <to = 10> (b) }"
    )
    with pytest.warns(OnnxIgWarning, match=r"'x' are too small for the model's float16 \(the largest is 4.0e-09\)"):
        got = attribute(tiny, [[1.5, 2]], dtype=np.float16, target=1)
    assert not got["x"].any()


def test_many_steps_take_no_memory_of_their_own() -> None:
    """Numpy's nodes are the eigenvalues of a matrix of steps x steps."""
    for n in (257, 300):
        wanted = np.polynomial.legendre.leggauss(n)
        nodes, weights = nodes_and_weights("gausslegendre", n)
        np.testing.assert_allclose(2 * nodes - 1, wanted[0], atol=1e-14)
        np.testing.assert_allclose(2 * weights, wanted[1], rtol=1e-9)
    tracemalloc.start()
    nodes, weights = nodes_and_weights("gausslegendre", 4000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1e6
    np.testing.assert_allclose((weights * nodes**7).sum(), 1 / 8, rtol=1e-13)
    np.testing.assert_allclose((weights * np.exp(nodes)).sum(), np.e - 1, rtol=1e-13)
