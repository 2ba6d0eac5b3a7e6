"""Token ids that their table does not have; inputs that have a value in the file; values of unknown rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_ig
from onnx_ig.errors import FeedError, OptionError
from onnx_ig.runtime.session import Session
from tests.explain.nets import smooth
from tests.explain.test_arguments import X, explainer, parsed

IDS = np.array([[1, 2, 3], [4, 5, 6]])


def tokens(body: str = "e = Gather(words, ids)", extra: str = "") -> onnx.ModelProto:
    model = parsed(
        f"m (int64[N,T] ids{extra}) => (float[N] y) {{ {body}  q = Mul(e, e)  y = ReduceSum<keepdims=0>(q, axes) }}"
    )
    for name, value in {
        "words": np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32), "axes": np.array([1, 2]),
        "kinds": np.ones((2, 4), np.float32), "low": np.array(0), "high": np.array(8),
    }.items():  # fmt: skip
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            [[1, 2, 3], [4, 999, 6]],
            r"'ids' holds the id 999 of sample 1, first at index \[1, 1\]; .* 9 rows, .* 0 to 8",
        ),
        ([[-10, 2, 3]], r"the id -10 of sample 0"),
        ([[9, 2, 3]], r"the id 9 of sample 0"),
    ],
)
def test_ids_beyond_the_table_are_told_before_anything_runs(
    ids: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = explainer(tokens())
    monkeypatch.setattr(Session, "run", lambda *_: pytest.fail("a model ran"))
    for ask in (made.attribute, made.scores):
        with pytest.raises(FeedError, match=message):
            ask(np.array(ids))


def test_ids_of_held_inputs_are_looked_at_too() -> None:
    model = tokens(
        "w = Gather(words, ids)  k = Gather(kinds, token_type_ids)  e = Add(w, k)", ", int64[N,T] token_type_ids"
    )
    with pytest.raises(FeedError, match=r"'token_type_ids' holds the id 2 of sample 1"):
        explainer(model).attribute({"ids": IDS, "token_type_ids": np.array([[0, 0, 1], [0, 0, 2]])})


def test_served_models_tell_as_well() -> None:
    served = onnx_ig.runtime.load(onnx_ig.rewrite(tokens(), n_steps=2).SerializeToString())
    assert np.isfinite(served.run(IDS)["ids"]).all()
    with pytest.raises(FeedError, match=r"'ids' holds the id 9 of sample 1"):
        served.run(np.array([[1, 2, 3], [4, 9, 6]]))


@pytest.mark.parametrize("baseline", [99, -10, [0, 0, 9]])
def test_baselines_beyond_the_table(baseline: Any) -> None:
    for ask in (
        lambda: explainer(tokens()).attribute(IDS, baselines=baseline),
        lambda: onnx_ig.rewrite(tokens(), baselines=baseline),
        lambda: explainer(tokens(), method="expected_gradients").attribute(IDS, references=[baseline]),
    ):
        with pytest.raises(OptionError, match=r"holds the id .*9 rows, so ids go from 0 to 8|holds the id -10"):
            ask()


def test_ids_that_count_from_the_end_or_are_clipped_are_right() -> None:
    found, same = (explainer(tokens()).attribute(ids, n_steps=2) for ids in (IDS - 9, IDS))
    np.testing.assert_allclose(found["ids"], same["ids"], rtol=1e-5)
    clipped = tokens("c = Clip(ids, low, high)  e = Gather(words, c)")
    found = explainer(clipped).attribute(np.array([[1, 2, 999]]), n_steps=2)
    expected = explainer(tokens()).attribute(np.array([[1, 2, 8]]), n_steps=2)
    np.testing.assert_allclose(found["ids"], expected["ids"], rtol=1e-5)


@pytest.mark.parametrize("ir_version", [3, 10])
def test_an_input_with_a_value_in_the_file_is_a_constant(ir_version: int) -> None:
    """Models before IR version 4 list their weights among the inputs; later ones give inputs a default."""
    model = parsed("m (float[N,12] x, float[12] w) => (float[N,12] y) { y = Mul(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(12, dtype=np.float32), "w"))
    model.ir_version = ir_version
    made = explainer(model)
    np.testing.assert_allclose(made.attribute(X, n_steps=2, target=3)["x"][:, 3], 3 * X[:, 3], rtol=1e-5)
    with pytest.raises(FeedError, match=r"'w' has a value in the file .* leave it out of the feeds"):
        made.attribute({"x": X, "w": np.ones(12, np.float32)})
    with pytest.raises(OptionError, match="'w' is a weight"):
        explainer(model, inputs="w")
    assert [i.name for i in onnx_ig.rewrite(model).graph.input] == ["x"]


def test_a_value_of_unknown_rank_is_not_batched_by_hand() -> None:
    model = smooth()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(OptionError, match="rank of 'x' is not known"):
        explainer(model, batch_axes={"x": 0})
