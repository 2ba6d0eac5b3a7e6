"""Many samples: folders, blocks that are kept, runs that are broken off and gone on with, samples that cannot be fed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("onnxruntime")

import onnx_ig.cli.drawing
from onnx_ig import Explainer
from onnx_ig.errors import ModelError
from onnx_ig.runtime import load_result
from onnx_ig.runtime.result import Attribution
from tests.cli import models
from tests.cli.conftest import parsed
from tests.explain.nets import made_of, perceptron

Run = Callable[..., Any]
X = np.random.default_rng(0).standard_normal((50, 12)).astype(np.float32)


@pytest.fixture
def files(folder: Path) -> Path:
    onnx.save(perceptron(seed=1), folder / "m.onnx")
    np.savez(folder / "x.npz", x=X)
    return folder


def saved(options: list[str] | None = None) -> list[str]:
    return ["attribute", "m.onnx", "x.npz", "--no-plot", "--save", "a.npz", *(options or [])]


def same(path: str, x: np.ndarray, **options: Any) -> None:
    got, wanted = load_result(path), Explainer("m.onnx").attribute(x, **options)
    for name in ("prediction", "convergence_delta", "error_estimate", "target", "gradient_counts"):
        np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got["x"], wanted["x"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got.feeds["x"], x)
    assert got.gradients == wanted.gradients


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
@pytest.mark.parametrize("given", [{"n_steps": 20}, {"tolerance": 0.02}])
def test_blocks_make_one_file(files: Path, run: Run, given: dict[str, Any]) -> None:
    options = [f"--{k.replace('_', '-')}={v}" for k, v in given.items()]
    text = run(*saved(options)).stdout
    assert "sample 49: " in text
    assert text.endswith("saved: a.npz\n")
    assert not (files / "a.npz.partial").exists()
    same("a.npz", X, **given)
    np.testing.assert_array_equal(load_result("a.npz").samples, np.arange(50))


def break_after(monkeypatch: pytest.MonkeyPatch, blocks: int) -> list[int]:
    """Ctrl-C in the block after so many; the sizes of the blocks that are worked on from now on."""
    sizes: list[int] = []
    original = Explainer.attribute

    def counted(self: Explainer, feeds: Any, *rest: Any, **named: Any) -> Any:
        if len(sizes) == blocks:
            raise KeyboardInterrupt
        sizes.append(len(feeds["x"]))
        return original(self, feeds, *rest, **named)

    monkeypatch.setattr(Explainer, "attribute", counted)
    return sizes


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_a_run_that_is_broken_off_goes_on(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_after(patch, 4)
        broken = run(*saved(["--n-steps=20"]), status=1)
    assert "15 of 50 samples are kept in a.npz.partial; the same command goes on from there" in broken.stderr
    assert not (files / "a.npz").exists()
    with monkeypatch.context() as patch:
        sizes = break_after(patch, -1)
        again = run(*saved(["--n-steps=20", "--json"]))
    assert sum(sizes) == 35
    record = parsed(again)
    assert [row["sample"] for row in record["results"]] == list(range(50))
    assert record["gradients"] == 1000
    same("a.npz", X, n_steps=20)


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_few_slow_samples_are_kept_too(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(files / "x.npz", x=X[:3])
    monkeypatch.setattr("onnx_ig.explain.long_runs._SECONDS", 0.0)
    with monkeypatch.context() as patch:
        break_after(patch, 2)
        assert "2 of 3 samples are kept in a.npz.partial" in run(*saved(["--n-steps=20"]), status=1).stderr
    with monkeypatch.context() as patch:
        sizes = break_after(patch, -1)
        run(*saved(["--n-steps=20"]))
    assert sizes == [1]
    same("a.npz", X[:3], n_steps=20)


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_a_run_that_is_killed_goes_on(files: Path, run: Run) -> None:
    x = np.tile(X, (20, 1))
    np.savez(files / "x.npz", x=x)
    command = [sys.executable, "-m", "onnx_ig", *saved(["--n-steps=1500"])]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not list(files.glob("a.npz.partial/0*.json")) and started.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert list(files.glob("a.npz.partial/0*.json"))
    assert not (files / "a.npz").exists()
    (files / "a.npz.partial" / "writing").write_text("{")  # what a kill may leave
    run(*saved(["--n-steps=1500"]))
    assert len(load_result("a.npz").prediction) == 1000
    assert not (files / "a.npz.partial").exists()


def test_another_run_does_not_go_on_with_it(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_after(patch, 1)
        run(*saved(["--n-steps=20"]), status=1)
    assert "differs in n_steps" in run(*saved(["--n-steps=21"]), status=2).stderr
    np.savez(files / "x.npz", x=X + 1)
    assert "differs in files" in run(*saved(["--n-steps=20"]), status=2).stderr


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_other_weights_are_another_run(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's file is the same; its weights lie beside it."""
    models.external(folder / "m.onnx")
    np.savez(folder / "x.npz", x=X[:, :3])
    with monkeypatch.context() as patch:
        break_after(patch, 1)
        run(*saved(), status=1)
    weights = folder / "m.onnx.weights"
    weights.write_bytes(weights.read_bytes()[::-1])
    assert "differs in files" in run(*saved(), status=2).stderr


def test_files_with_equals_signs_in_their_names_are_watched(
    files: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["attribute", "m.onnx", "x=a=1.npz", "--no-plot", "--save", "a.npz", "--n-steps=4"]
    np.savez("a=1.npz", x=X)
    with monkeypatch.context() as patch:
        break_after(patch, 1)
        run(*command, status=1)
    np.savez("a=1.npz", x=X + 1)
    assert "differs in files" in run(*command, status=2).stderr


def test_a_run_that_could_not_begin_leaves_nothing(files: Path, run: Run) -> None:
    run(*saved(["--tolerance=5"]), status=2)
    assert not (files / "a.npz.partial").exists()


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_what_is_kept_is_told_of_other_errors_too(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Attribution.save

    def full(self: Attribution, path: Any) -> Path:
        if len(list(files.glob("a.npz.partial/0*.json"))) == 1:
            raise ModelError(f"{path} cannot be written: No space left on device")
        return original(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Attribution, "save", full)
        told = run(*saved(["--n-steps=4"]), status=1).stderr
    assert "cannot be written: No space left on device" in told
    assert "1 of 50 samples are kept in a.npz.partial" in told
    run(*saved(["--n-steps=4"]))
    same("a.npz", X, n_steps=4)


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_a_baseline_row_as_long_as_there_are_samples(files: Path, run: Run) -> None:
    """12 samples of 12 features: one row for all of them, though it has an entry for each."""
    x = X[:12].copy()
    x[3] = np.nan
    np.savez(files / "x.npz", x=x)
    np.save("b.npy", X[1])
    done = run("attribute", "m.onnx", "x.npz", "--no-plot", "--save", "a.npz", "--n-steps=10", "--baseline=b.npy")
    assert "sample 3 is passed over" in done.stderr
    same("a.npz", np.delete(x, 3, 0), n_steps=10, baselines=X[1])


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_rows_that_are_not_numbers_are_passed_over(files: Path, run: Run) -> None:
    x = X.copy()
    x[3, 2], x[40, 0] = np.nan, np.inf
    np.savez(files / "x.npz", x=x)
    done = run(*saved(["--n-steps=10", "--json"]))
    assert "sample 3 is passed over: input 'x' holds NaN or infinity" in done.stderr
    assert "sample 40 is passed over" in done.stderr
    keep = np.setdiff1d(np.arange(50), [3, 40])
    record = parsed(done)
    assert [row["sample"] for row in record["results"]] == keep.tolist()
    assert [(bad["sample"], bad["reason"]) for bad in record["passed_over"]] == [
        (3, "input 'x' holds NaN or infinity"), (40, "input 'x' holds NaN or infinity"),
    ]  # fmt: skip
    np.testing.assert_array_equal(load_result("a.npz").samples, keep)
    same("a.npz", x[keep], n_steps=10)


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_rows_that_the_model_cannot_run_are_passed_over(folder: Path, run: Run) -> None:
    table = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axes"], ["y"], keepdims=0),
    ]
    model = made_of(nodes, ["N", "T"], ["N", 4], {"table": table, "axes": np.int64([1])})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(model, "m.onnx")
    ids = np.random.default_rng(0).integers(0, 9, (6, 3))
    ids[2, 1] = 77
    np.save("x.npy", ids)
    done = run("attribute", "m.onnx", "x.npy", "--no-plot", "--json")
    assert "sample 2 is passed over" in done.stderr
    assert [row["sample"] for row in parsed(done)["results"]] == [0, 1, 3, 4, 5]


def test_nothing_but_bad_rows_is_an_error(files: Path, run: Run) -> None:
    np.savez(files / "x.npz", x=np.full((30, 12), np.nan, np.float32))
    assert "NaN" in run(*saved(), status=1).stderr
    assert not (files / "a.npz.partial").exists()


@pytest.mark.filterwarnings("ignore::onnx_ig.errors.OnnxIgWarning")
def test_targets_and_baselines_of_each_sample_go_with_it(files: Path, run: Run) -> None:
    targets = np.arange(50) % 4
    np.save("t.npy", targets)
    np.save("b.npy", X[::-1])
    run(*saved(["--n-steps=10", "--target=t.npy", "--baseline=b.npy"]))
    same("a.npz", X, n_steps=10, target=targets, baselines=X[::-1])


def pictures(folder: Path, count: int) -> list[np.ndarray]:
    image = pytest.importorskip("PIL.Image")
    (folder / "photos").mkdir()
    made = [np.random.default_rng(i).integers(0, 256, (4, 4, 3)).astype(np.uint8) for i in range(count)]
    for i, pixels in enumerate(made):
        image.fromarray(pixels).save(folder / "photos" / f"{i:03}.png")
    return made


def test_a_folder_of_pictures(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    models.image(folder / "m.onnx")
    made = pictures(folder, 40)
    (folder / "photos" / "021.png").write_bytes(b"no picture")
    (folder / "photos" / "about.txt").write_text("text")
    done = run("attribute", "m.onnx", "photos", "--no-plot", "--save", "a", "--n-steps", "4", "--json")
    assert "photos/021.png is passed over" in done.stderr
    assert "1 files that are no pictures are left out" in done.stderr
    record = parsed(done)
    assert record["saved"] == "a.npz"
    assert [row["sample"] for row in record["results"]] == [i for i in range(40) if i != 21]
    assert record["results"][0]["source"] == "photos/000.png"
    result = load_result("a.npz")
    wanted = np.stack([p.transpose(2, 0, 1) / 255.0 for i, p in enumerate(made) if i != 21])
    np.testing.assert_allclose(result.feeds["image"], wanted, rtol=1e-5)
    assert result["image"].shape == (39, 3, 4, 4)


def test_a_folder_goes_on_too(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    models.image(folder / "m.onnx")
    pictures(folder, 40)
    command = ["attribute", "m.onnx", "image=photos", "--no-plot", "--save", "a", "--n-steps", "4"]
    calls: list[int] = []
    original = Explainer.attribute

    def counted(self: Explainer, feeds: Any, *rest: Any, **named: Any) -> Any:
        calls.append(len(feeds["image"]))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(self, feeds, *rest, **named)

    monkeypatch.setattr(Explainer, "attribute", counted)
    run(*command, status=1)
    text = run(*command).stdout
    assert calls == [1, 2, 4, 8, 16, 1, 2, 4, 8, 10]
    assert text.count("photos/") == 40


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["empty"], "holds no pictures"), (["photos", "photos"], "one folder"), (["nowhere"], "no file")],
)
def test_folders_that_do_not_do(folder: Path, fail: Callable[..., str], arguments: list[str], told: str) -> None:
    models.image(folder / "m.onnx")
    pictures(folder, 2)
    (folder / "empty").mkdir()
    assert told in fail("attribute", "m.onnx", *arguments)


def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """By file, the attribution that a picture of it was made of; without the seconds that drawing takes."""
    pytest.importorskip("matplotlib")
    seen: dict[str, float] = {}

    def picture(result: Any, path: Path, *, sample: int, image: Any, **rest: Any) -> None:
        assert path.name not in seen
        assert image is not None
        seen[path.name] = float(result["image"][sample].sum())
        path.write_text("picture")

    monkeypatch.setattr("onnx_ig.cli.drawing.picture", picture)
    return seen


def test_every_sample_of_every_block_has_its_own_picture(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.image(folder / "m.onnx")
    made = pictures(folder, 40)
    (folder / "photos" / "021.png").write_bytes(b"no picture")
    seen = drawn(monkeypatch)
    command = ["attribute", "m.onnx", "photos", "--save", "a", "--n-steps", "4", "--target", "0", "--json"]
    record = parsed(run(*command, "--plot", "p.png"))
    wanted = {f"p_{i}.png": p[..., 0].sum() / 255 for i, p in enumerate(made) if i != 21}
    assert seen.keys() == wanted.keys()
    for name, total in wanted.items():
        np.testing.assert_allclose(seen[name], total, rtol=1e-5)
    assert [row["picture"] for row in record["results"]] == [[name] for name in wanted]


def test_pictures_that_nobody_asked_for_are_few(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    models.image(folder / "m.onnx")
    pictures(folder, 40)
    seen = drawn(monkeypatch)
    done = run("attribute", "m.onnx", "photos", "--n-steps", "4", "--json")
    assert list(seen) == [f"{i:03}_{i}_attribution.png" for i in range(8)]
    assert done.stderr.count("pictures of the first 8 samples only") == 1
    assert [len(row["picture"]) for row in parsed(done)["results"]] == [1] * 8 + [0] * 32


def test_pictures_that_a_broken_run_owes_are_drawn_later(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.image(folder / "m.onnx")
    pictures(folder, 40)
    seen = drawn(monkeypatch)
    command = ["attribute", "m.onnx", "photos", "--save", "a", "--n-steps", "4", "--json", "--plot", "p.png"]
    whole = onnx_ig.cli.drawing.picture
    old = folder / "p_9.png"
    old.write_text("of another run")
    os.utime(old, (1, 1))

    def broken(*given: Any, **named: Any) -> None:
        if len(seen) == 5:
            raise KeyboardInterrupt
        whole(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr("onnx_ig.cli.drawing.picture", broken)
        assert "7 of 40 samples are kept" in run(*command, status=1).stderr
    record = parsed(run(*command))
    assert len(seen) == 40
    assert old.read_text() == "picture"
    assert [row["picture"] for row in record["results"]] == [[f"p_{i}.png"] for i in range(40)]
