"""Sequence outputs: an attribution of every output position to every source token, as in the paper's translations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnx_ig
from tests.explain.differences import Array, integrated

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::onnx_ig.OnnxIgWarning")

PAD, START, END, WIDTH, WORDS = 0, 1, 2, 6, 11
rng = np.random.default_rng(1)
WEIGHTS = {
    "table": rng.standard_normal((12, WIDTH)), "target_table": rng.standard_normal((10, WIDTH)),
    "query": rng.standard_normal((WIDTH, WIDTH)), "key": rng.standard_normal((WIDTH, WIDTH)),
    "value": rng.standard_normal((WIDTH, WIDTH)), "words": rng.standard_normal((WIDTH, WORDS)),
}  # fmt: skip
SOURCES = [[START, 5, 7, 3, END], [START, 9, 4, END], [START, 8, END]]
TARGETS = [[1, 4, 6, 2], [1, 3, 5, 7], [1, 8, 2, 9]]


def translation() -> onnx.ModelProto:
    """source [N, S], previous [N, T], source_mask [N, S] -> logits [N, T, 11]: attention from output to source tokens."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (int64[N, S] source, int64[N, T] previous, bool[N, S] source_mask) => (double[N, T, 11] logits) {
            words_in = Gather (table, source)  words_out = Gather (target_table, previous)
            q = MatMul (words_out, query)  k = MatMul (words_in, key)  v = MatMul (words_in, value)
            turned = Transpose <perm = [0, 2, 1]> (k)  scores = MatMul (q, turned)
            axis = Constant <value_ints = [1]> ()  seen = Unsqueeze (source_mask, axis)
            masked = Where (seen, scores, low)  weights = Softmax <axis = -1> (masked)
            mixed = MatMul (weights, v)  sum = Add (mixed, q)  state = Tanh (sum)  logits = MatMul (state, words) }"""
    )
    arrays = {**WEIGHTS, "low": np.array(-1e30)}
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in arrays.items())
    return model


def batch(rows: list[int], pad: int = 0) -> dict[str, Any]:
    """Some of the sentences, padded on the right to the longest of them and `pad` more."""
    size = max(len(SOURCES[r]) for r in rows) + pad
    source = np.full((len(rows), size), PAD)
    for i, r in enumerate(rows):
        source[i, : len(SOURCES[r])] = SOURCES[r]
    return {"source": source, "previous": np.array([TARGETS[r] for r in rows]), "source_mask": source != PAD}


def logits(embedded: Array, previous: Any) -> Array:
    """One sentence [S, 6] without padding -> [T, 11]."""
    q = WEIGHTS["target_table"][previous] @ WEIGHTS["query"]
    scores = q @ (embedded @ WEIGHTS["key"]).T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return np.tanh(weights @ embedded @ WEIGHTS["value"] + q) @ WEIGHTS["words"]


def written(rows: list[int]) -> list[Any]:
    """The most likely word at every position, as one target a position: [N, 2] each."""
    best = np.array([logits(WEIGHTS["table"][SOURCES[r]], TARGETS[r]).argmax(1) for r in rows])
    return [np.stack([np.full(len(rows), t), best[:, t]], 1) for t in range(best.shape[1])]


def markers(source: Any) -> Any:
    return np.isin(source, (START, END))


@pytest.fixture(scope="module")
def explainer() -> onnx_ig.Explainer:
    return onnx_ig.Explainer(translation(), inputs="source")


def test_alignment_of_output_words_to_source_words(explainer: onnx_ig.Explainer) -> None:
    """Row t of [N, T, S] explains word t; every row sums to the change of its own score, start and end stay out."""
    rows = [0, 1, 2]
    given = batch(rows)
    found = explainer.attribute(given, target=written(rows), n_steps=16, held={"source": markers(given["source"])})
    assert explainer.batching.mode == "free"
    assert found["source"].shape == (3, 4, 5)
    assert found.full["source"].shape == (3, 4, 5, WIDTH)
    assert found.target.shape == (4, 3, 2)
    for t, target in enumerate(written(rows)):
        for i, r in enumerate(rows):
            embedded, word, n = WEIGHTS["table"][SOURCES[r]], target[i, 1], len(SOURCES[r])

            def score(values: Mapping[str, Array], r: int = r, t: int = t, word: int = word) -> float:
                return float(logits(values["x"], TARGETS[r])[t, word])

            start = np.where(markers(np.array(SOURCES[r]))[:, None], embedded, 0)
            right = integrated(score, {"x": embedded}, {"x": start}, steps=16)["x"]
            np.testing.assert_allclose(found.full["source"][i, t, :n], right, atol=1e-8)
            np.testing.assert_allclose(found["source"][i, t, :n], right.sum(1), atol=1e-8)
            assert not found["source"][i, t, n:].any()
            assert found.prediction[i, t] == pytest.approx(score({"x": embedded}))
            assert found.baseline_prediction[i, t] == pytest.approx(score({"x": start}))
    held = np.broadcast_to(markers(given["source"])[:, None], found["source"].shape)
    assert not found["source"][held].any()
    sums = found["source"].sum(2) - (found.prediction - found.baseline_prediction)
    np.testing.assert_allclose(sums, found.convergence_delta, atol=1e-12)
    np.testing.assert_allclose(found.convergence_delta, 0, atol=1e-3)


@pytest.mark.parametrize("pad", [0, 3])
def test_a_padded_batch_is_as_its_sentences_alone(explainer: onnx_ig.Explainer, pad: int) -> None:
    rows = [0, 1, 2]
    given = batch(rows, pad)
    together = explainer.attribute(given, target=written(rows), n_steps=8, held={"source": markers(given["source"])})
    for i, r in enumerate(rows):
        one = batch([r])
        alone = explainer.attribute(one, target=written([r]), n_steps=8, held={"source": markers(one["source"])})
        n = len(SOURCES[r])
        np.testing.assert_allclose(together["source"][i, :, :n], alone["source"][0], atol=1e-12)
        assert not together["source"][i, :, n:].any()
        for part in ("prediction", "baseline_prediction", "convergence_delta"):
            np.testing.assert_allclose(getattr(together, part)[i], getattr(alone, part)[0], atol=1e-12)


def test_both_sides_move_by_default(explainer: onnx_ig.Explainer) -> None:
    """Both token inputs are attributed unless one is named; the mask is held."""
    both = onnx_ig.Explainer(translation())
    assert [s.name for s in both.subject.moved] == ["source", "previous"]
    found = both.attribute(batch([0, 1]), target=[(0, 3), (2, 5)], n_steps=64)
    assert found["source"].shape == (2, 2, 5)
    assert found["previous"].shape == (2, 2, 4)
    # Position t reads its own word alone.
    assert not found["previous"][:, 0, 1:].any()
    assert not found["previous"][:, 1, [0, 1, 3]].any()
    np.testing.assert_allclose(
        found["source"].sum(2) + found["previous"].sum(2) - (found.prediction - found.baseline_prediction),
        found.convergence_delta, atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(found.convergence_delta, 0, atol=1e-6)


def test_micro_batches_give_the_same_alignment(explainer: onnx_ig.Explainer) -> None:
    given = batch([0, 1, 2])
    whole = explainer.attribute(given, target=written([0, 1, 2]), n_steps=8)
    split = explainer.attribute(given, target=written([0, 1, 2]), n_steps=8, internal_batch_size=5)
    np.testing.assert_allclose(split["source"], whole["source"], atol=1e-12)
