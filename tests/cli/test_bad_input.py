"""What goes wrong is told in one clear sentence, with exit status 1 or 2, no traceback, and no half-written file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")

from tests.cli import models

Fail = Callable[..., str]


@pytest.fixture
def here(folder: Path) -> Path:
    models.linear(folder / "m.onnx", labels=["cat", "dog"])
    models.two_inputs(folder / "two.onnx")
    models.image(folder / "image.onnx")
    models.text(folder / "text.onnx")
    models.no_path(folder / "floor.onnx")
    models.no_rule(folder / "mystery.onnx")
    (folder / "notes.txt").write_text("no model")
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "words.onnx").write_text("these are words, and no model at all")
    (folder / "cut.onnx").write_bytes((folder / "m.onnx").read_bytes()[:60])
    (folder / "odd.json").write_text("{")
    models.linear(folder / "labels.onnx", labels="cat")
    (folder / "not.png").write_text("no picture")
    (folder / "odd.csv").write_text("1,2,x\n1,2,3\n4,5,y\n")
    np.save(folder / "good.npy", np.ones((1, 3), np.float32))
    np.save(folder / "wide.npy", np.ones((1, 4), np.float32))
    np.save(folder / "flat.npy", np.ones(3, np.float32))
    np.save(folder / "words.npy", np.array([["a", "b", "c"]]))
    np.save(folder / "complex.npy", np.ones((1, 3), np.complex64))
    np.save(folder / "nan.npy", np.array([[1, np.nan, 3]], np.float32))
    np.save(folder / "none.npy", np.ones((0, 3), np.float32))
    np.save(folder / "ids.npy", np.array([[0.5, 1.5]], np.float32))
    return folder


MODELS = ["missing.onnx", "notes.txt", "empty.onnx", "words.onnx", "cut.onnx", "."]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "command",
    [
        ["inspect"],
        ["check"],
        ["attribute", "good.npy"],
        ["rewrite", "-o", "out.onnx"],
        ["add-gradients", "-o", "out.onnx"],
        ["annotate", "--labels", "a,b"],
    ],
)
def test_what_is_no_model(fail: Fail, command: list[str], model: str) -> None:
    said = fail(command[0], model, *command[1:])
    assert said.count("\n") == 1
    assert model in said
    assert not Path("out.onnx").exists()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["attribute", "m.onnx"], ["'x'", "float32 [?, 3]"]),
        (["attribute", "two.onnx", "a=[[1]]"], ["'b'", "b=FILE"]),
        (["attribute", "m.onnx", "missing.npy"], ["there is no file missing.npy"]),
        (["attribute", "m.onnx", "x="], ["'x='", "behind the equals sign"]),
        (["attribute", "m.onnx", "good.npy", "--baseline", "x="], ["'x='", "behind the equals sign"]),
        (["attribute", "m.onnx", "good.npy", "--save", ""], ["the empty path is a folder"]),
        (["attribute", "m.onnx", "z=good.npy"], ["no input 'z'", "'x'"]),
        (["attribute", "m.onnx", "good.npy", "--wrt", "z"], ["'z'"]),
        (["attribute", "m.onnx", "good.npy", "--output", "z"], ["'z'"]),
        (["inspect", "m.onnx", "--wrt", "z"], ["'z'"]),
        (["inspect", "m.onnx", "--output", "z"], ["'z'"]),
        (["check", "m.onnx", "--output", "z"], ["'z'"]),
        (["rewrite", "m.onnx", "-o", "out.onnx", "--wrt", "z"], ["'z'"]),
        (["add-gradients", "m.onnx", "-o", "out.onnx", "--of", "z"], ["'z'"]),
        (["attribute", "m.onnx", "wide.npy"], ["'x'", "4"]),
        (["attribute", "m.onnx", "flat.npy"], ["'x'"]),
        (["attribute", "m.onnx", "words.npy"], ["'x'", "float32"]),
        (["attribute", "m.onnx", "complex.npy"], ["'x'", "complex64"]),
        (["attribute", "m.onnx", "nan.npy"], ["'x'", "NaN"]),
        (["attribute", "m.onnx", "none.npy"], ["no samples"]),
        (["attribute", "text.onnx", "ids=ids.npy", "attention_mask=[[1, 1]]"], ["'ids'", "int64"]),
        (["attribute", "m.onnx", "odd.csv"], ["odd.csv", "'y'", "numbers"]),
        (["attribute", "image.onnx", "not.png"], ["not.png is not a picture"]),
        (["attribute", "m.onnx", "good.npy", "--target", "2"], ["2"]),
        (["attribute", "m.onnx", "good.npy", "--target", "0,1"], ["target"]),
        (["attribute", "m.onnx", "good.npy", "--target", "dogg"], ["'dogg'", "'dog'"]),
        (["attribute", "two.onnx", "a=[[1]]", "b=[[1, 2]]", "--target", "dog"], ["carries no labels"]),
        (["attribute", "m.onnx", "good.npy", "--baseline", "wide.npy"], ["baseline", "'x'"]),
        (["attribute", "m.onnx", "good.npy", "--baseline", "nan.npy"], ["baseline", "NaN"]),
        (["attribute", "m.onnx", "good.npy", "--baseline", "dark"], ["'dark'", "no such file"]),
        (["attribute", "m.onnx", "good.npy", "--baseline", "z=0"], ["no input 'z'"]),
        (["attribute", "text.onnx", "--text", "good", "--baseline", "fish"], ["'fish'", "no token"]),
        (["attribute", "m.onnx", "good.npy", "--method", "magic"], ["'magic'", "integrated_gradients"]),
        (["attribute", "m.onnx", "good.npy", "--quadrature", "magic"], ["'magic'", "gausslegendre"]),
        (["attribute", "m.onnx", "good.npy", "--n-steps", "0"], ["n-steps"]),
        (["attribute", "m.onnx", "good.npy", "--provider", "magic"], ["'magic'"]),
        (["attribute", "m.onnx", "good.npy", "--batch-axis", "z=0"], ["'z'"]),
        (["attribute", "m.onnx", "good.npy", "--batch-axis", "x"], ["INPUT=AXIS"]),
        (["attribute", "m.onnx", "good.npy", "--method", "expected_gradients"], ["references"]),
        (["attribute", "m.onnx", "good.npy", "--reference", "missing.npy"], ["no file missing.npy"]),
        (["attribute", "m.onnx", "good.npy", "--save", "no/a.npz"], ["no folder no"]),
        (["attribute", "m.onnx", "good.npy", "--plot", "no/a.png"], ["no folder no"]),
        (["attribute", "m.onnx", "good.npy", "--plot", "a.xyz"], ["a.xyz"]),
        (["attribute", "m.onnx", "good.npy", "--kind", "mosaic"], ["'mosaic'"]),
        (["attribute", "m.onnx", "good.npy", "--vmin", "2", "--vmax", "1"], ["vmin < vmax"]),
        (["attribute", "m.onnx", "--text", "good"], ["vocabulary"]),
        (["attribute", "m.onnx", "good.npy", "--mean", "0.5"], ["no input of the model takes any"]),
        (["attribute", "image.onnx", "not.png", "--mean", "a"], ["'a' is not a number"]),
        (["attribute", "image.onnx", "not.png", "--layout", "ABC"], ["layout"]),
        (["attribute", "image.onnx", "not.png", "--size", "1x2x3"], ["1x2x3"]),
        (["attribute", "labels.onnx", "good.npy"], ["onnx_ig.labels"]),
        (["attribute", "m.onnx", "good.npy", "--labels", "missing.txt"], ["no file missing.txt"]),
        (["attribute", "m.onnx", "good.npy", "--labels", "odd.json"], ["odd.json is not JSON"]),
        (["attribute", "floor.onnx", "good.npy"], ["Floor"]),
        (["rewrite", "floor.onnx", "-o", "out.onnx"], ["Floor"]),
        (["check", "floor.onnx"], ["Floor"]),
        (["attribute", "mystery.onnx", "good.npy"], ["Mystery"]),
        (["rewrite", "mystery.onnx", "-o", "out.onnx"], ["com.example.Mystery", "strange node"]),
        (["add-gradients", "mystery.onnx", "-o", "out.onnx"], ["com.example.Mystery", "strange node"]),
        (["add-gradients", "m.onnx", "-o", "out.onnx", "--wrt", "x", "--wrt", "x"], ["wrt: 'x' is given twice"]),
        (["inspect", "m.onnx", "--wrt", "x", "--wrt", "x"], ["'x' is given twice"]),
        (["rewrite", "m.onnx"], ["-o"]),
        (["rewrite", "m.onnx", "-o", "no/out.onnx"], ["no folder no"]),
        (["rewrite", "m.onnx", "-o", "out.onnx", "--target", "5"], ["5"]),
        (["rewrite", "m.onnx", "-o", "out.onnx", "--runtime", "magic"], ["magic"]),
        (["add-gradients", "m.onnx", "-o", "out.onnx", "--rules", "magic"], ["magic"]),
        (["annotate", "m.onnx"], ["nothing to write"]),
        (["annotate", "m.onnx", "--picture", "z", "--mean", "1"], ["no input 'z'"]),
        (["annotate", "m.onnx", "--unk", "a"], ["--vocabulary FILE"]),
        (["annotate", "m.onnx", "--vocabulary", "odd.json"], ["odd.json is not JSON"]),
        (["annotate", "text.onnx", "--unk", "fish"], ["'fish'", "not among the 6 tokens"]),
        (["annotate", "two.onnx", "--features", "one,two"], ["NAME=one,two"]),
        (["conjure", "m.onnx"], ["No such command"]),
        (["attribute", "m.onnx", "good.npy", "--magic"], ["No such option"]),
    ],
)  # fmt: skip
def test_one_clear_sentence(fail: Fail, command: list[str], words: list[str]) -> None:
    before = Path(command[1]).read_bytes() if Path(command[1]).exists() else b""
    said = fail(*command)
    sentence = said.partition("Error: ")[2]
    for word in words:
        assert word in sentence, said
    assert not Path("out.onnx").exists()
    assert not Path("a.npz").exists()
    assert not before or Path(command[1]).read_bytes() == before


@pytest.mark.usefixtures("here")
def test_usage_is_2_and_failure_is_1(run: Callable[..., object]) -> None:
    run("attribute", "m.onnx", "good.npy", "--wrt", "z", status=2)
    run("attribute", "m.onnx", "good.npy", "--target", "2", status=2)
    run("attribute", status=2)
    run("attribute", "missing.onnx", "good.npy", status=1)
    run("attribute", "m.onnx", "nan.npy", status=1)
    run("attribute", "mystery.onnx", "good.npy", status=1)


def test_unreadable_files(folder: Path, fail: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    models.linear(folder / "m.onnx")
    np.save(folder / "x.npy", np.ones((1, 3), np.float32))

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", "x.npy")

    monkeypatch.setattr(np, "load", refuse)
    assert "Permission denied" in fail("attribute", "m.onnx", "x.npy")
