"""`rewrite --calibrate --tolerance`: steps of a file chosen on the user's samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

import onnxruntime as ort

from onnx_ig import Explainer
from tests.cli import models
from tests.explain.nets import perceptron, smooth

Run = Callable[..., Any]
X = np.random.default_rng(0).standard_normal((30, 12)).astype(np.float32)


@pytest.fixture
def files(folder: Path) -> Path:
    onnx.save(perceptron(seed=1, softmax=True), folder / "m.onnx")
    np.savez(folder / "x.npz", x=X)
    return folder


def calibration(path: str) -> dict[str, Any]:
    """What the manifest of a file says."""
    told = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta().custom_metadata_map
    manifest = json.loads(told["onnx_ig.manifest"])
    return {**manifest["notes"]["calibration"], "n_steps": manifest["n_steps"], "quadrature": manifest["quadrature"]}


def test_the_file_reaches_what_was_asked_for(files: Path, run: Run) -> None:
    """By a session alone; and the manifest and the line on stdout say so."""
    done = run("rewrite", "m.onnx", "-o", "a.onnx", "--calibrate", "x.npz", "--tolerance", "0.05")
    told = calibration("a.onnx")
    assert done.stdout.startswith(f"{told['n_steps']} steps ({told['quadrature']}): delta at most")
    assert (told["tolerance"], told["samples"]) == (0.05, 30)
    session = ort.InferenceSession("a.onnx", providers=["CPUExecutionProvider"])
    found = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": X}), strict=True))
    explained = found["x_attribution"].sum(1) - found["convergence_delta"][:, 0]
    shares = np.abs(found["convergence_delta"][:, 0] / explained)
    assert (shares <= 0.05).mean() >= 0.95
    np.testing.assert_allclose(shares.max(), told["relative_delta"], rtol=1e-2, atol=1e-5)


def test_a_smaller_tolerance_takes_more_steps(files: Path, run: Run) -> None:
    steps = []
    for tolerance in ("0.1", "0.01"):
        run("rewrite", "m.onnx", "-o", "a.onnx", "--calibrate", "x=x.npz", "--tolerance", tolerance)
        steps.append(calibration("a.onnx")["n_steps"])
    assert steps[1] > 1.5 * steps[0]


def test_the_words_of_the_rewrite_go_along(files: Path, run: Run) -> None:
    np.save("b.npy", X[0])
    options = ["--target", "1", "--baseline", "b.npy", "--loop", "looped"]
    run("rewrite", "m.onnx", "-o", "a.onnx", "--calibrate", "x.npz", "--tolerance", "0.05", *options)
    wanted = Explainer("m.onnx").calibrate(X, 0.05, target=1, baselines=X[0])
    told = calibration("a.onnx")
    assert (told["n_steps"], told["quadrature"]) == (wanted.n_steps, wanted.quadrature)
    np.testing.assert_allclose(told["relative_delta"], wanted.delta, rtol=1e-3)


def test_smooth_models_keep_the_rule_of_gauss(files: Path, run: Run) -> None:
    onnx.save(smooth(seed=1), "m.onnx")
    run("rewrite", "m.onnx", "-o", "a.onnx", "--calibrate", "x.npz")
    told = calibration("a.onnx")
    assert (told["quadrature"], told["tolerance"]) == ("gausslegendre", 0.01)
    assert told["n_steps"] < 50


def test_what_is_an_input_of_the_file_is_told(files: Path, run: Run) -> None:
    options = ["--target", "input", "--baseline", "input"]
    done = run("rewrite", "m.onnx", "-o", "a.onnx", "--calibrate", "x.npz", "--tolerance", "0.1", *options)
    assert "Note: --target input: the steps are chosen with the predicted entry\n" in done.stderr
    assert "Note: --baseline input: the steps are chosen with a baseline of zero\n" in done.stderr


def test_a_folder_of_pictures(folder: Path, run: Run) -> None:
    image = pytest.importorskip("PIL.Image")
    models.image(folder / "m.onnx")
    (folder / "photos").mkdir()
    for i in range(3):
        image.fromarray(np.full((4, 4, 3), 40 * i + 40, np.uint8)).save(folder / "photos" / f"{i}.png")
    (folder / "photos" / "1.png").write_bytes(b"no picture")
    done = run("rewrite", "m.onnx", "-o", "a.onnx", "--calibrate", "photos")
    assert "photos/1.png is passed over" in done.stderr
    assert calibration("a.onnx")["samples"] == 2


def test_a_tolerance_that_is_missed_is_told(files: Path, run: Run) -> None:
    options = ["--calibrate", "x.npz", "--tolerance", "0.0001", "--n-steps", "12"]
    assert "with 12 steps" in run("rewrite", "m.onnx", "-o", "a.onnx", *options).stderr
    told = calibration("a.onnx")
    assert told["n_steps"] == 12
    assert told["met"] < 0.95


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        (["--tolerance", "0.1"], 2, "--calibrate FILE"),
        (["--calibrate", "x.npz", "--tolerance", "0"], 2, "tolerance=0"),
        (["--calibrate", "x.npz", "--tolerance", "nan"], 2, "tolerance=nan"),
        (["--calibrate", "x.npz", "--tolerance", "1e-20"], 2, "rounds by"),
        (["--calibrate", "x.npz", "--tolerance", "x"], 2, "not a valid float"),
        (["--calibrate", "x.npz", "--quadrature", "riemann_left"], 2, "--quadrature riemann_left"),
        (["--calibrate", "x.npz", "--method", "gradient"], 2, "gradient takes no steps"),
        (["--calibrate", "no.npz"], 1, "there is no file no.npz"),
        (["--calibrate", "y=x.npz"], 2, "no input 'y'"),
        (["--calibrate", "bad.npz"], 1, "NaN"),
        (["--calibrate", "wide.npz"], 1, "takes 12"),
    ],
)
def test_what_cannot_be_calibrated_to(files: Path, run: Run, options: list[str], status: int, told: str) -> None:
    np.savez("bad.npz", x=np.full_like(X, np.nan))
    np.savez("wide.npz", x=np.zeros((3, 13), np.float32))
    assert told in run("rewrite", "m.onnx", "-o", "a.onnx", *options, status=status).stderr
    assert not (files / "a.onnx").exists()
