"""`attribute --tolerance --memory`: what is spent, how far off the answer may be, and where the delta comes from."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

from onnx_ig.runtime import load_result
from tests.cli.conftest import parsed
from tests.explain.nets import perceptron

Run = Callable[..., Any]
X = np.random.default_rng(0).standard_normal((3, 12)).astype(np.float32)


@pytest.fixture
def files(folder: Path) -> Path:
    onnx.save(perceptron(seed=1, softmax=True), folder / "m.onnx")
    np.save(folder / "x.npy", X)
    return folder


def test_every_sample_tells_what_it_took(files: Path, run: Run) -> None:
    record = parsed(run("attribute", "m.onnx", "x.npy", "--tolerance", "0.01", "--no-plot", "--json"))
    assert record["tolerance"] == 0.01
    assert record["n_steps"] is None
    assert record["gradients"] == sum(row["gradients"] for row in record["results"])
    assert all(row["forwards"] == 9 and row["relative_delta"] < 0.01 for row in record["results"])
    assert all(row["error_estimate"] > 0 for row in record["results"])


def test_for_people(files: Path, run: Run) -> None:
    text = run("attribute", "m.onnx", "x.npy", "--tolerance", "0.01", "--memory", "500MB", "--no-plot").stdout
    assert text.startswith("integrated_gradients of y to a tolerance of 0.01 (adaptive trapezoid): ")
    assert len(re.findall(r"% of the attributions, \d+ gradients and 9 forwards\n", text)) == 3


def test_fixed_steps_have_an_estimate_too(files: Path, run: Run) -> None:
    record = parsed(run("attribute", "m.onnx", "x.npy", "--no-plot", "--json", "--save", "a.npz"))
    assert record["n_steps"] == 50
    assert [row["gradients"] for row in record["results"]] == [50] * 3
    assert load_result("a.npz").error_estimate.shape == (3,)  # type: ignore[union-attr]


def test_a_picture_of_the_path(files: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    run("attribute", "m.onnx", "x.npy", "--tolerance", "0.01", "--kind", "curves", "--plot", "p.png")
    assert sorted(p.name for p in files.glob("p*.png")) == ["p_0.png", "p_1.png", "p_2.png"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--tolerance", "2"), "tolerance=2.0"),
        (("--memory", "plenty"), "memory_budget='plenty'"),
        (("--memory", "1.5"), "memory_budget='1.5'"),
        (("--memory", "-2GB"), "memory_budget='-2GB'"),
        (("--tolerance", "0.1", "--method", "gradient"), "tolerance belongs to"),
    ],
)
def test_wrong_options(files: Path, run: Run, options: tuple[str, ...], told: str) -> None:
    assert told in run("attribute", "m.onnx", "x.npy", "--no-plot", *options, status=2).stderr
