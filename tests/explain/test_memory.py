"""Memory that does not grow: splits, budgets, running out in the middle, repetition."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from onnx_ig import Explainer
from onnx_ig.errors import OnnxIgWarning, OptionError, RunError
from onnx_ig.runtime import session
from onnx_ig.runtime.memory import meter
from onnx_ig.runtime.result import Attribution
from tests.explain.nets import convolutional, perceptron
from tests.sessions import single_threaded


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnnxIgWarning)
        yield


def explainer(method: str = "integrated_gradients", model: Any = None) -> Explainer:
    return Explainer(model or perceptron(), method, session_options=single_threaded())


X = np.random.default_rng(0).standard_normal((5, 12)).astype(np.float32)
REFERENCES = np.random.default_rng(1).standard_normal((3, 12)).astype(np.float32)
PATH = np.linspace(0, 1, 8)[:, None, None] * X.astype(np.float64)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "line": ("integrated_gradients", {"n_steps": 13}),
    "several targets": ("integrated_gradients", {"n_steps": 13, "target": [0, 2, 3]}),
    "references": ("expected_gradients", {"n_steps": 7, "references": REFERENCES}),
    "points": ("path_integrated_gradients", {"path": PATH}),
    "curves": ("interior_gradients", {"n_steps": 13, "gradients": True}),
    "end": ("gradient", {}),
    "comparison": ("deeplift", {}),
}


def agree(a: Attribution, b: Attribution) -> None:
    np.testing.assert_allclose(a["x"], b["x"], rtol=1e-6, atol=1e-6 * np.abs(b["x"]).max())
    np.testing.assert_allclose(a.convergence_delta, b.convergence_delta, atol=1e-6 * np.abs(b.prediction).max())
    for name, curve in a.curves.items():
        np.testing.assert_allclose(curve, b.curves[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 26, 1000])
def test_results_do_not_depend_on_the_split(case: str, rows: int) -> None:
    method, options = CASES[case]
    whole = explainer(method)
    agree(whole.attribute(X, internal_batch_size=rows, **options), whole.attribute(X, **options))


def runs_of(monkeypatch: pytest.MonkeyPatch, change: Callable[[int], None] = lambda rows: None) -> list[int]:
    """The rows of every run from now on; `change` may fail them."""
    counts: list[int] = []
    original = session.Session.run

    def counted(self: session.Session, feeds: Mapping[str, Any], outputs: Any = None) -> dict[str, Any]:
        steps = feeds["ig:alphas"].shape[1] if "ig:alphas" in feeds else 1
        rows = len(feeds["x"]) * steps if isinstance(feeds["x"], np.ndarray) else steps
        change(rows)
        counts.append(rows)
        return original(self, feeds, outputs)

    monkeypatch.setattr(session.Session, "run", counted)
    return counts


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("integrated_gradients", {"n_steps": 300}),
        ("integrated_gradients", {"n_steps": 40, "target": [0, 1, 2, 3] * 3}),
        ("expected_gradients", {"n_steps": 20, "references": np.repeat(REFERENCES, 20, axis=0)}),
    ],
)
def test_rows_in_flight_grow_with_nothing(
    method: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnx_ig.runtime.sizing._ENOUGH", 20_000)
    monkeypatch.setattr("onnx_ig.runtime.sizing._ENOUGH_A_THREAD", 0)
    tool = explainer(method)
    tool.attribute(X[:1], **{**options, "n_steps": 4, "target": 0})
    counts = runs_of(monkeypatch)
    tool.attribute(np.repeat(X, 10, axis=0), **options)
    assert max(counts) <= 64
    assert len(counts) > 20


def test_running_out_in_the_middle_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = explainer()
    wanted = tool.attribute(X, n_steps=20)
    tool.attribute(X, n_steps=20, internal_batch_size=8)
    seen: list[int] = []

    def short(rows: int) -> None:
        seen.append(rows)
        if len(seen) > 9 and rows > 3:
            raise RunError("std::bad_alloc")

    counts = runs_of(monkeypatch, short)
    got = tool.attribute(X, n_steps=20, internal_batch_size=8)
    agree(got, wanted)
    assert got.gradients == 100
    assert sum(counts) == 100 + 5 + 5  # nothing twice: gradients, predictions, scores at the baseline
    assert max(counts[9:]) <= 3
    assert any("memory ran out" in note for note in got.notes)


LIMITED = """
import resource, warnings
import numpy as np
from onnx_ig import Explainer
from onnx_ig.errors import RunError
from onnx_ig.runtime.memory import _fields
from tests.explain.nets import convolutional
from tests.explain.test_memory import single_threaded
warnings.simplefilter("ignore")
tool = Explainer(convolutional(size=96, channels=32), session_options=single_threaded())
x = np.random.default_rng(0).standard_normal((3, 3, 96, 96)).astype(np.float32)
wanted = tool.attribute(x, n_steps=32, internal_batch_size=1)
try:
    tool._models.forward_session.run({"x": x[0]})  # what raises an error for the first time needs memory of its own
except RunError:
    pass
taken = _fields("/proc/self/status")["VmSize:"] * 1024
resource.setrlimit(resource.RLIMIT_AS, (taken + 120 * 2**20, -1))
got = tool.attribute(x, n_steps=32, internal_batch_size=96)
print(np.abs(got["x"] - wanted["x"]).max() <= 1e-6 * np.abs(wanted["x"]).max(), got.gradients, *got.notes)
"""


def test_running_out_in_a_process_with_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True 96 memory ran out with"), done.stdout
    assert not done.stderr


def test_a_budget_bounds_what_runs_take() -> None:
    tool = Explainer(convolutional(size=64, channels=32), session_options=single_threaded())
    x = np.random.default_rng(0).standard_normal((4, 3, 64, 64)).astype(np.float32)
    tool.attribute(x[:1], n_steps=2, memory_budget="30MB")
    count = meter()
    assert count is not None
    before = count()
    tool.attribute(x, n_steps=64, memory_budget="30MB")
    assert count() - before < 30e6


def test_feeds_on_a_device_go_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = explainer().attribute(X, n_steps=20)
    monkeypatch.setattr(session, "_device", lambda *given: ("cpu", 0))
    placed = []
    original = session.Session.place
    monkeypatch.setattr(
        session.Session, "place", lambda self, feeds: placed.append(set(feeds)) or original(self, feeds)
    )
    got = explainer().attribute(X, n_steps=20, baselines=REFERENCES[0], internal_batch_size=8)
    agree(got, explainer().attribute(X, n_steps=20, baselines=REFERENCES[0]))
    assert placed == [{"x", "ig:cotangent", "ig:baseline:x"}] * 10
    agree(explainer().attribute(X, n_steps=20, internal_batch_size=8), wanted)


@pytest.mark.parametrize("budget", ["lots", -3])
def test_budgets_that_are_none(budget: Any) -> None:
    with pytest.raises(OptionError, match="memory_budget"):
        explainer().attribute(X, memory_budget=budget)


def test_fifty_calls_leave_memory_flat() -> None:
    tool = Explainer(convolutional(size=32, channels=16), session_options=single_threaded())
    x = np.random.default_rng(0).standard_normal((6, 3, 32, 32)).astype(np.float32)
    count = meter()
    assert count is not None
    for _ in range(2):
        for n in range(1, 7):
            tool.attribute(x[:n], n_steps=3 + n)
    gc.collect()
    before = count()
    for i in range(50):
        tool.attribute(x[: 1 + i % 6], n_steps=3 + i % 7)
    gc.collect()
    assert count() - before < 4e6
