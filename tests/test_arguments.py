"""Malformed arguments of every public function: one error of ours, in a sentence that names the argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from numpy.typing import NDArray

import onnx_ig
import onnx_ig.graphsurgeon
from onnx_ig import plot
from onnx_ig.errors import FeedError, ModelError, OptionError
from tests.explain.nets import smooth
from tests.sessions import single_threaded

pytestmark = pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning")

X = np.random.default_rng(5).standard_normal((3, 12)).astype(np.float32)
FLAT = np.ones((4, 4), np.float32)
Call = Callable[[], object]


def explainer(**given: Any) -> onnx_ig.Explainer:
    return onnx_ig.Explainer(smooth(), session_options=single_threaded(), **given)


@cache
def result() -> onnx_ig.Attribution:
    return explainer().attribute(X, n_steps=4)


@cache
def served_file() -> bytes:
    return onnx_ig.rewrite(smooth(), n_steps=4).SerializeToString()


@cache
def served() -> onnx_ig.runtime.ServedModel:
    return onnx_ig.runtime.load(served_file(), session_options=single_threaded())


def graph() -> Any:
    return gs.import_onnx(smooth())


def refused(calls: dict[str, Call], error: type[Exception] = OptionError) -> Any:
    """Every call ends in that error; the key begins with what the message names."""

    @pytest.mark.parametrize("case", calls)
    def test(case: str) -> None:
        with pytest.raises(error, match=case.split(" ")[0]):
            calls[case]()

    return test


test_options_of_rewrite = refused(
    {
        "method list": lambda: onnx_ig.rewrite(smooth(), ["gradient"]),  # type: ignore[arg-type]
        "quadrature list": lambda: onnx_ig.rewrite(smooth(), quadrature=["gausslegendre"]),  # type: ignore[arg-type]
        "runtime list": lambda: onnx_ig.rewrite(smooth(), runtime=["cpu"]),  # type: ignore[arg-type]
        "quantized list": lambda: onnx_ig.rewrite(smooth(), quantized=["refuse"]),  # type: ignore[arg-type]
        "batchable text": lambda: onnx_ig.rewrite(smooth(), batchable="no"),  # type: ignore[arg-type]
        "steps_per_iteration text": lambda: onnx_ig.rewrite(smooth(), steps_per_iteration="a"),  # type: ignore[arg-type]
        "inputs bytes": lambda: onnx_ig.rewrite(smooth(), inputs=b"x"),  # type: ignore[arg-type]
        "inputs set": lambda: onnx_ig.rewrite(smooth(), inputs={"x"}),  # type: ignore[arg-type]
        "inputs twice": lambda: onnx_ig.rewrite(smooth(), inputs=["x", "x"]),
        "output list": lambda: onnx_ig.rewrite(smooth(), output=["y"]),  # type: ignore[arg-type]
        "baselines object": lambda: onnx_ig.rewrite(smooth(), baselines=object()),
        "save_as number": lambda: onnx_ig.rewrite(smooth(), save_as=5),  # type: ignore[arg-type]
        "save_as truth": lambda: onnx_ig.rewrite(smooth(), save_as=True),  # type: ignore[arg-type]
        "save_as bytes": lambda: onnx_ig.rewrite(smooth(), save_as=b"a.onnx"),  # type: ignore[arg-type]
        "save_as nothing": lambda: onnx_ig.rewrite(smooth(), save_as=""),
        "save_as nul": lambda: onnx_ig.rewrite(smooth(), save_as="a\0b"),
    }
)
test_options_of_add_gradients = refused(
    {
        "of twice": lambda: onnx_ig.add_gradients(smooth(), of=["y", "y"]),
        "wrt twice": lambda: onnx_ig.add_gradients(smooth(), wrt=["x", "x"]),
        "of bytes": lambda: onnx_ig.add_gradients(smooth(), of=b"y"),  # type: ignore[arg-type]
        "of generator": lambda: onnx_ig.add_gradients(smooth(), of=(n for n in ["y"])),  # type: ignore[arg-type]
        "wrt dictionary": lambda: onnx_ig.add_gradients(smooth(), wrt={"x": 1}),  # type: ignore[arg-type]
        "rules list": lambda: onnx_ig.add_gradients(smooth(), rules=["gradient"]),  # type: ignore[arg-type]
        "runtime list": lambda: onnx_ig.add_gradients(smooth(), runtime=["cpu"]),  # type: ignore[arg-type]
        "save_as number": lambda: onnx_ig.add_gradients(smooth(), save_as=5),  # type: ignore[arg-type]
        "save_as list": lambda: onnx_ig.add_gradients(smooth(), save_as=[]),  # type: ignore[arg-type]
        "of number, gs": lambda: graph().gradients(of=5),
        "wrt number, gs": lambda: graph().gradients(wrt=[5]),
        "of dictionary, gs": lambda: graph().gradients(of={"y": 1}),
        "of twice, gs": lambda: graph().gradients(of=["y", "y"]),
        "rules number, gs": lambda: graph().gradients(rules=5),
    }
)
test_options_of_an_explainer = refused(
    {
        "method list": lambda: explainer(method=["gradient"]),
        "runtime list": lambda: explainer(runtime=["cpu"]),
        "inputs twice": lambda: explainer(inputs=["x", "x"]),
        "providers number": lambda: explainer(providers=5),
        "providers list": lambda: explainer(providers=[5]),
        "providers nothing": lambda: explainer(providers=[]),
        "providers none": lambda: explainer(providers=[None]),
        "providers dictionary": lambda: explainer(providers={"CPUExecutionProvider": {}}),
        "providers pair": lambda: explainer(providers=[("CPUExecutionProvider", 5)]),
        "session_options number": lambda: onnx_ig.Explainer(smooth(), session_options=5),
        "quadrature list": lambda: explainer().attribute(X, quadrature=["x"]),  # type: ignore[arg-type]
        "internal_batch_size text": lambda: explainer().attribute(X, internal_batch_size="a"),  # type: ignore[arg-type]
        "gradients text": lambda: explainer().attribute(X, gradients="a"),  # type: ignore[arg-type]
        "alphas nothing": lambda: explainer().path_scores(X, 0, np.zeros(0)),
        "alphas text": lambda: explainer().path_scores(X, 0, "a"),  # type: ignore[arg-type]
        "alphas number": lambda: explainer().path_scores(X, 0, 5),  # type: ignore[arg-type]
        "alphas table": lambda: explainer().path_scores(X, 0, np.zeros((1, 2))),
        "alphas NaN": lambda: explainer().path_scores(X, 0, np.array([np.nan])),
        "target list": lambda: explainer().path_scores(X, [0, 1], np.zeros(1)),
        "target list, scores": lambda: explainer().scores(X, [0, 1]),
        "target list, check": lambda: onnx_ig.check(smooth(), target=[0, 1]),
        "providers number, check": lambda: onnx_ig.check(smooth(), providers=5),
        "n_steps text, check": lambda: onnx_ig.check(smooth(), n_steps="a"),  # type: ignore[arg-type]
        "quantized number, inspect": lambda: onnx_ig.inspect(smooth(), quantized=5),  # type: ignore[arg-type]
    }
)
test_no_samples = refused(
    {
        "samples attribute": lambda: explainer().attribute(X[:0]),
        "samples scores": lambda: explainer().scores(X[:0]),
        "samples path_scores": lambda: explainer().path_scores(X[:0], 0, np.zeros(1)),
        "samples run": lambda: served().run(X[:0]),
    },
    FeedError,
)
test_options_of_a_served_model = refused(
    {
        "providers number": lambda: onnx_ig.runtime.load(served_file(), providers=5),  # type: ignore[arg-type]
        "providers list": lambda: onnx_ig.runtime.load(served_file(), providers=[5]),  # type: ignore[list-item]
        "session_options number": lambda: onnx_ig.runtime.load(served_file(), None, 5),
        "internal_batch_size text": lambda: served().run(X, internal_batch_size="a"),  # type: ignore[arg-type]
        "internal_batch_size zero": lambda: served().run(X, internal_batch_size=0),
        "progress number": lambda: served().run(X, progress=5),  # type: ignore[arg-type]
        "progress truth": lambda: served().run(X, progress=True),  # type: ignore[arg-type]
    }
)
test_paths_of_results = refused(
    {
        "path number": lambda: result().save(5),  # type: ignore[arg-type]
        "path none": lambda: result().save(None),  # type: ignore[arg-type]
        "path nothing": lambda: result().save(""),
        "path folder": lambda: result().save("/"),
        "path nul": lambda: result().save("a\0b"),
        "path number, load": lambda: onnx_ig.load_result(1),  # type: ignore[arg-type]
        "path truth, load": lambda: onnx_ig.load_result(True),  # type: ignore[arg-type]
        "path none, load": lambda: onnx_ig.load_result(None),  # type: ignore[arg-type]
        r"\[1\] index": lambda: result()[[1]],  # type: ignore[index]
    }
)
test_options_of_pictures = refused(
    {
        "sample text": lambda: result().plot(sample="a"),
        "sample fraction": lambda: result().plot(sample=1.0),
        "sample none": lambda: result().plot(sample=None),
        "sample list": lambda: result().plot(sample=[0]),
        "sample truth": lambda: result().plot(sample=True),
        "sample text, headline": lambda: plot.headline(result(), sample="a"),  # type: ignore[arg-type]
        "sample large, headline": lambda: plot.headline(result(), sample=99),
        "target text": lambda: result().plot(target="a"),
        "target large": lambda: result().plot(target=3),
        "path number": lambda: result().plot(5),  # type: ignore[arg-type]
        "kind number": lambda: result().plot(kind=5),
        "names number": lambda: result().plot(names=5),
        "names text": lambda: result().plot(names="abcdefghijkl"),
        "tokens number": lambda: result().plot(tokens=5),
        "held number": lambda: result().plot(held=5, tokens=list("abcdefghijkl")),
        "metadata number": lambda: result().plot(metadata=5),
        "metadata dictionary": lambda: result().plot(metadata={"labels": []}),
        "result number": lambda: plot.picture(5),  # type: ignore[arg-type]
        "result none, headline": lambda: plot.headline(None),  # type: ignore[arg-type]
        "names number, bars": lambda: plot.bars([1, 2], 5),  # type: ignore[arg-type]
        "attribution ragged": lambda: plot.bars([[1], [1, 2]]),
        "attribution ragged, map": lambda: plot.heat_map([[1], [1, 2]]),
        "channel_axis text": lambda: plot.heat_map(np.ones((3, 4, 4)), channel_axis="a"),  # type: ignore[arg-type]
        "channel_axis fraction": lambda: plot.heat_map(np.ones((3, 4, 4)), channel_axis=1.5),  # type: ignore[arg-type]
        "nothing map": lambda: plot.heat_map(np.zeros((0, 5))),
        "no pixels": lambda: plot.original_image(np.zeros((0, 0, 3))),
        "kinds number": lambda: plot.panels(FLAT, FLAT, 5),  # type: ignore[arg-type]
        "kinds none": lambda: plot.panels(FLAT, FLAT, None),  # type: ignore[arg-type]
        "kind unknown": lambda: plot.panels(FLAT, FLAT, ["mosaic"]),
        "rows number": lambda: plot.token_html(5),  # type: ignore[arg-type]
        "rows text": lambda: plot.token_html("a"),  # type: ignore[arg-type]
        "rows list": lambda: plot.token_text([5]),  # type: ignore[list-item]
        "tokens number, row": lambda: plot.TokenRow(5, [1]),  # type: ignore[arg-type]
        "held number, row": lambda: plot.TokenRow(["a"], [1], held=5),  # type: ignore[arg-type]
        "drawing number": lambda: plot.save(5, "a.png"),  # type: ignore[arg-type]
        "path number, save": lambda: plot.save("text", 5),  # type: ignore[arg-type]
        "how none": lambda: plot.restore(FLAT, None),  # type: ignore[arg-type]
    }
)


@pytest.mark.parametrize("make", [onnx_ig.rewrite, onnx_ig.add_gradients])
def test_where_a_model_cannot_be_written_is_said_before_the_work(
    make: Callable[..., onnx.ModelProto], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="no folder"):
        make("no model either", save_as=tmp_path / "nowhere" / "model.onnx")


def test_a_result_is_equal_after_a_round_trip(tmp_path: Path) -> None:
    given = dataclasses.replace(result(), labels=("a", "b"), notes=("one",), tolerance=0.1)
    found = onnx_ig.load_result(given.save(tmp_path / "result"))
    for field in dataclasses.fields(given):
        left, right = getattr(given, field.name), getattr(found, field.name)
        assert type(left) is type(right), field.name
        assert same(left, right), field.name


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray):
        array: NDArray[Any] = right
        return left.dtype == array.dtype and np.array_equal(left, array, equal_nan=True)
    return bool(left == right)
