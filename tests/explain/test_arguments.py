"""What a caller gives that does not fit: one error of ours, and never another answer than asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import onnx_ig
from onnx_ig.errors import FeedError, ModelError, OnnxIgError, OptionError
from tests.explain.nets import smooth
from tests.sessions import single_threaded

pytestmark = pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning")

X = np.random.default_rng(5).standard_normal((3, 12)).astype(np.float32)
RAGGED = [[1.0, 2.0], [3.0]]
HUGE = 1e39  # beyond float32


def explainer(model: onnx.ModelProto | None = None, **given: Any) -> onnx_ig.Explainer:
    return onnx_ig.Explainer(smooth() if model is None else model, session_options=single_threaded(), **given)


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 20]>\n' + text)


@pytest.mark.parametrize(
    "call",
    [
        lambda: explainer().attribute(X, baselines=RAGGED),
        lambda: explainer().attribute(X, held={"x": RAGGED}),
        lambda: explainer().attribute(X, target=(RAGGED,)),
        lambda: explainer().attribute(X, progress=5),  # type: ignore[arg-type]
        lambda: explainer(method="expected_gradients").attribute(X, references=RAGGED),
        lambda: explainer(method="path_integrated_gradients").attribute(X, path=RAGGED),
        lambda: explainer(method="path_integrated_gradients").attribute(X, path="x"),
        lambda: explainer(inputs=5),
        lambda: explainer(inputs=[5]),
        lambda: explainer(output=["y"]),
        lambda: explainer(inputs="w0"),
        lambda: explainer(batch_axes=5),
        lambda: explainer(batch_axes={"x": "a"}),
        lambda: explainer(providers="Nothing"),
        lambda: onnx_ig.rewrite(smooth(), baselines=RAGGED),
        lambda: onnx_ig.rewrite(smooth(), target=1.5),
        lambda: onnx_ig.rewrite(smooth(), target=True),
        lambda: onnx_ig.rewrite(smooth(), target=(0.0,)),
        lambda: onnx_ig.rewrite(smooth(), loop="looped", steps_per_iteration=0),
        lambda: onnx_ig.rewrite(smooth(), loop="looped", steps_per_iteration=1.5),  # type: ignore[arg-type]
        lambda: onnx_ig.rewrite(smooth(), inputs="w0"),
        lambda: onnx_ig.add_gradients(smooth(), of=5),  # type: ignore[arg-type]
        lambda: onnx_ig.add_gradients(smooth(), wrt=5),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_such_argument_is_an_option_error(call: Callable[[], object]) -> None:
    with pytest.raises(OptionError):
        call()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: explainer().attribute(X, baselines=HUGE), OptionError),
        (lambda: explainer().attribute(X, target=np.full((3, 4), HUGE)), OptionError),
        (lambda: explainer(method="expected_gradients").attribute(X, references=np.full((2, 12), HUGE)), OptionError),
        (lambda: explainer().attribute(np.full((3, 12), HUGE)), FeedError),
        (lambda: onnx_ig.rewrite(smooth(), baselines=HUGE), OptionError),
    ],
)
def test_numbers_too_large_for_the_type_do_not_become_infinite(
    call: Callable[[], object], error: type[OnnxIgError]
) -> None:
    with pytest.raises(error, match="float32"):
        call()


def test_one_provider_by_its_name() -> None:
    found = explainer(providers="CPUExecutionProvider").attribute(X, n_steps=4)
    np.testing.assert_array_equal(found["x"], explainer().attribute(X, n_steps=4)["x"])


def test_scalars_are_fed_as_scalars() -> None:
    """A scalar index takes an axis away; an index [1] would not, and the output would have another rank."""
    model = parsed("m (float[3,4] x, int64 i) => (float[4] y) { h = Gather<axis=0>(x, i)  y = Mul(h, h) }")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = explainer(model).attribute({"x": x, "i": np.int64(1)}, target=2)
    assert found.outputs["y"].shape == (4,)
    expected = np.zeros((3, 4))
    expected[1, 2] = 36  # IG of h^2 from zero
    np.testing.assert_allclose(found["x"], expected, rtol=1e-5)


def test_an_input_of_unknown_rank_takes_any_and_a_scalar_none_but_scalars() -> None:
    """ONNX Runtime gives both the shape []."""
    model = smooth()
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
    found = explainer(model).attribute(X[:1], target=(0, 2))
    np.testing.assert_allclose(found["x"], explainer().attribute(X[:1], target=2)["x"], rtol=1e-4, atol=1e-6)
    served = onnx_ig.runtime.load(onnx_ig.rewrite(model).SerializeToString()).run(X)
    expected = explainer(model).attribute(X)  # the largest entry of all rows: they are one sample
    np.testing.assert_allclose(served["x"], expected["x"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(served.prediction, expected.prediction, rtol=1e-5)
    scalar = parsed("m (float a) => (float y) { y = Exp(a) }")
    with pytest.raises(FeedError, match="0 axes"):
        explainer(scalar).attribute(X)


def test_looped_models_run_in_the_reference_evaluator() -> None:
    """Which runs a Loop without a condition no times."""
    model = onnx_ig.rewrite(smooth(), n_steps=8, target=1, loop="looped")
    (found,) = ReferenceEvaluator(model).run(["x_attribution"], {"x": X})
    expected = explainer().attribute(X, n_steps=8, target=1)["x"]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-6)


def test_scalar_inputs_have_scalar_attributions() -> None:
    model = parsed("m (float a, float b) => (float y) { y = Mul(a, b) }")
    found = explainer(model).attribute({"a": np.float32(2), "b": np.float32(3)})
    for name in "ab":
        assert found[name].shape == ()
        assert found[name] == pytest.approx(3, rel=1e-5)  # along the line both get half of the product
    model = parsed("m (float a) => (float y) { h = Exp(a)  y = Identity(h) }")
    found = explainer(model).attribute(np.float32(2), target=np.float32(0.5))
    assert found["a"] == pytest.approx(0.5 * (np.exp(2) - 1), rel=1e-5)


def test_an_input_can_be_the_output() -> None:
    found = explainer(output="x").attribute(X, target=7)
    expected = np.zeros_like(X)
    expected[:, 7] = X[:, 7]
    np.testing.assert_allclose(found["x"], expected, rtol=1e-5)


def test_an_output_listed_twice_is_one_output() -> None:
    model = smooth()
    model.graph.output.append(model.graph.output[0])
    np.testing.assert_allclose(explainer(model).attribute(X)["x"], explainer().attribute(X)["x"], rtol=1e-5)


def test_ids_held_by_their_name_are_attributed_when_asked_for() -> None:
    """`inputs=` overrides what a name says, for ids as for floats."""
    rng = np.random.default_rng(0)
    model = parsed("""
        m (int64[N,T] input_ids, int64[N,T] token_type_ids) => (float[N] y) {
            a = Gather(words, input_ids)  b = Gather(types, token_type_ids)
            p = Mul(a, b)  y = ReduceSum<keepdims=0>(p, axes)
        }""")
    words, types = (rng.standard_normal((n, 4)).astype(np.float32) for n in (9, 2))
    for name, value in {"words": words, "types": types, "axes": np.array([1, 2])}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    feeds = {"input_ids": rng.integers(0, 9, (3, 5)), "token_type_ids": rng.integers(0, 2, (3, 5))}
    assert explainer(model).attribute(feeds).keys() == ["input_ids"]
    found = explainer(model, inputs=list(feeds)).attribute(feeds)
    half = (words[feeds["input_ids"]] * types[feeds["token_type_ids"]]).sum(-1) / 2
    for name in feeds:
        np.testing.assert_allclose(found[name], half, rtol=1e-4, atol=1e-6)


def renamed(model: onnx.ModelProto, old: str, new: str) -> onnx.ModelProto:
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [new if n == old else n for n in names]
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.name = new if value.name == old else value.name
    return model


@pytest.mark.parametrize(
    "port", ["ig:alphas", "ig:weights", "ig:cotangent", "ig:scores", "ig:attribution:x", "ig:rows"]
)
@pytest.mark.parametrize("value", ["h0", "a1", "w1"])
def test_values_named_as_ports_are_kept_apart(port: str, value: str) -> None:
    plain, named = smooth(), renamed(smooth(), value, port)
    expected = explainer(plain).attribute(X, n_steps=8)
    np.testing.assert_allclose(explainer(named).attribute(X, n_steps=8)["x"], expected["x"], rtol=1e-5)
    for loop in ("batched", "looped"):
        served = onnx_ig.runtime.load(onnx_ig.rewrite(named, n_steps=8, loop=loop).SerializeToString())
        np.testing.assert_allclose(served.run(X)["x"], expected["x"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("value", ["x", "y"])
def test_inputs_and_outputs_named_as_ports_are_refused(value: str) -> None:
    with pytest.raises(ModelError, match="'ig:alphas'"):
        explainer(renamed(smooth(), value, "ig:alphas"))


@pytest.mark.parametrize("loop", ["batched", "looped"])
def test_a_rewritten_model_is_a_model_like_others(loop: str) -> None:
    """Rewritten again for other targets, it gives what the original gives; its attributions have attributions too."""
    first = onnx_ig.rewrite(smooth(), n_steps=8, target=1, loop=loop)
    again = onnx_ig.rewrite(first, n_steps=8, target=3, output="y")
    expected = explainer().attribute(X, n_steps=8, target=3)
    served = onnx_ig.runtime.load(again.SerializeToString()).run(X)
    np.testing.assert_allclose(served["x"], expected["x"], rtol=1e-4, atol=1e-6)
    second = explainer(first, output="x_attribution").attribute(X, n_steps=60, target=2)
    assert np.abs(second.convergence_delta).max() < 1e-4


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"neither", b"\x93NUMPY\x01\x00"])
def test_files_that_hold_no_result(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "result.npz"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"result\.npz"):
        onnx_ig.load_result(path)


def test_a_damaged_result_is_refused(tmp_path: Path) -> None:
    path = explainer().attribute(X, n_steps=4).save(tmp_path / "result")
    held = bytearray(path.read_bytes())
    held[len(held) // 2 : len(held) // 2 + 40] = bytes(40)
    path.write_bytes(held)
    with pytest.raises(ModelError, match=r"result\.npz"):
        onnx_ig.load_result(path)


@pytest.mark.parametrize("given", [None, 5, [], onnx.ModelProto(), "nothing.onnx", "."])
def test_runtime_load_says_what_it_takes(given: Any) -> None:
    with pytest.raises(ModelError):
        onnx_ig.runtime.load(given)
