"""Targets fed to one-file models: any entry, counted from either end, and an error for all others, in any runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import onnx_ig
from onnx_ig.errors import OptionError
from tests.explain.test_arguments import parsed
from tests.sessions import single_threaded

X = np.random.default_rng(3).standard_normal((2, 2, 3)).astype(np.float32)
SQUARES = "m (float[{0}] x) => (float[{0}] y) {{ y = Mul(x, x) }}"
ALONE = "m (float[2,3] x) => (float[2,3] y) { h = Transpose(x)  z = MatMul(x, h)  y = MatMul(z, x) }"
CASES: dict[str, tuple[str, Any]] = {
    "maps": (SQUARES.format("N,2,3"), X),
    "open maps": (SQUARES.format("N,H,W"), X),
    "classes": (SQUARES.format("N,3"), X[0]),
    "no batch": (ALONE, X[0]),
}


def session_of(text: str, **options: Any) -> ort.InferenceSession:
    model = onnx_ig.rewrite(parsed(text), n_steps=3, **options)
    return ort.InferenceSession(model.SerializeToString(), single_threaded(), providers=["CPUExecutionProvider"])


def index_of(entry: tuple[int, ...], rows: int) -> np.ndarray:
    return np.array([entry] * rows)


@pytest.mark.parametrize("loop", ["batched", "looped"])
@pytest.mark.parametrize("case", CASES)
def test_negative_entries_count_from_the_end(case: str, loop: str) -> None:
    text, x = CASES[case]
    session = session_of(text, target="input", loop=loop)
    rows = 1 if case == "no batch" else len(x)
    sizes = x.shape if case == "no batch" else x.shape[1:]
    negative, same = (-1,) * len(sizes), tuple(n - 1 for n in sizes)
    names = ["x_attribution", "attributed_target", "convergence_delta"]
    found, expected = (session.run(names, {"x": x, "target": index_of(t, rows)}) for t in (negative, same))
    assert np.abs(expected[0]).sum() > 0
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(found[1], index_of(same, rows))


@pytest.mark.parametrize(
    ("case", "entry"),
    [
        ("maps", (0, 5)), ("maps", (0, -4)), ("maps", (2, 0)), ("maps", (-3, 0)), ("open maps", (0, 3)),
        ("classes", (3,)), ("classes", (-4,)), ("classes", (-6,)), ("no batch", (0, 4)), ("no batch", (2, 0)),
    ],
)  # fmt: skip
def test_what_is_out_of_range_fails_where_the_model_runs(case: str, entry: tuple[int, ...]) -> None:
    """Along one axis too: as a flat position (0, 5) of [2, 3] would be another entry."""
    text, x = CASES[case]
    feeds = {"x": x, "target": index_of(entry, 1 if case == "no batch" else len(x))}
    with pytest.raises(Exception, match=r"[Oo]ut of range|invalid index"):
        session_of(text, target="input").run(None, feeds)
    model = onnx_ig.rewrite(parsed(text), n_steps=3, target="input").SerializeToString()
    if case != "open maps":
        with pytest.raises(OptionError, match="out of range"):
            onnx_ig.runtime.load(model, session_options=single_threaded()).run(feeds)


def test_a_baked_index_of_open_axes_fails_where_they_are_too_short() -> None:
    session = session_of(SQUARES.format("N,H,W"), target=(0, 5))
    assert np.abs(session.run(["x_attribution"], {"x": np.tile(X, 2)})[0]).sum() > 0
    with pytest.raises(Exception, match="invalid index"):
        session.run(None, {"x": X})
