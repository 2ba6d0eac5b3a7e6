"""Which file is for which input, and what the user is told where that is not clear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image

from onnx_ig.cli.options import open_model, preprocessing_of
from onnx_ig.cli.ports import Port, Signature
from onnx_ig.cli.reading import complete, read_inputs
from onnx_ig.errors import FeedError, ModelError, OptionError
from onnx_ig.manifest import Metadata, Preprocessing
from tests.cli import models


def signature(*ports: Port, **metadata: Any) -> Signature:
    return Signature({p.name: p for p in ports}, Metadata(**metadata))


def port(name: str, *shape: int | None, dtype: Any = np.float32, role: str = "float") -> Port:
    return Port(name, np.dtype(dtype), shape, role)


A, B = port("a", None, 2), port("b", None, 3)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((1, 2), np.float32))
    np.save("b.npy", np.ones((1, 3), np.float32))
    np.savez("both.npz", a=np.ones((2, 2), np.float32), b=np.zeros((2, 3), np.float32))
    Path("a.csv").write_text("one,two\n1,2\n3,4\n")
    Image.fromarray(np.full((4, 4, 3), 255, np.uint8)).save("white.png")
    return tmp_path


def test_signature_of_a_model(tmp_path: Path) -> None:
    _, found = open_model(str(models.text(tmp_path / "m.onnx")))
    assert {n: (str(p.dtype), p.shape, p.role) for n, p in found.ports.items()} == {
        "ids": ("int64", (None, None), "tokens"),
        "attention_mask": ("int64", (None, None), "held"),
    }
    assert found.metadata.labels == ("positive", "negative")
    with pytest.raises(ModelError, match=r"onnx_ig\.labels"):
        open_model(str(models.linear(tmp_path / "m.onnx", labels=3)))


@pytest.mark.usefixtures("files")
def test_names_and_bare_files() -> None:
    both = signature(A, B)
    feeds = read_inputs(["a=a.npy", "b=b.npy"], [], both).feeds
    assert {n: a.shape for n, a in feeds.items()} == {"a": (1, 2), "b": (1, 3)}
    assert sorted(read_inputs(["both.npz"], [], both).feeds) == ["a", "b"]
    # What is left can only be for the other input.
    assert read_inputs(["b.npy", "a=a.npy"], [], both).feeds["b"].shape == (1, 3)
    assert read_inputs(["a=both.npz", "b=[[1, 2, 3]]"], [], both).feeds["a"].shape == (2, 2)
    np.testing.assert_array_equal(read_inputs(["b=[[1, 2, 3]]", "a=a.npy"], [], both).feeds["b"], [[1, 2, 3]])


@pytest.mark.usefixtures("files")
def test_several_files_are_samples() -> None:
    reading = read_inputs(["a.npy", "a.csv"], [], signature(A))
    np.testing.assert_array_equal(reading.feeds["a"], [[1, 1], [1, 2], [3, 4]])
    assert reading.features == {"a": ["one", "two"]}
    with pytest.raises(FeedError, match=r"do not make one batch: \[1, 2\], \[1, 3\]"):
        read_inputs(["a=a.npy", "a=b.npy"], [], signature(A))


@pytest.mark.usefixtures("files")
def test_pictures() -> None:
    image = port("image", None, 3, 4, 4)
    reading = read_inputs(["white.png", "white.png"], [], signature(image))
    np.testing.assert_array_equal(reading.feeds["image"], np.ones((2, 3, 4, 4)))
    assert reading.sources == ["white.png", "white.png"]
    assert [p.shape for p in reading.photographs["image"]] == [(4, 4, 3)] * 2
    assert len(reading.notes) == 1
    assert "'image'" in reading.notes[0]
    assert "--mean" in reading.notes[0]
    known = signature(image, preprocessing={"image": Preprocessing(mean=(1.0,))})
    reading = read_inputs(["white.png"], [], known)
    np.testing.assert_array_equal(reading.feeds["image"], np.zeros((1, 3, 4, 4)))
    assert not reading.notes
    # A picture is for the input that takes pictures, wherever it stands.
    np.testing.assert_array_equal(read_inputs(["white.png"], [], signature(A, image)).feeds["image"][0, 0, 0, 0], 1)


@pytest.mark.usefixtures("files")
def test_a_table_for_inputs_named_as_its_columns() -> None:
    Path("people.csv").write_text("sex,age,fare\nf,30,7.5\nm,4,9\n")
    one, flat, text = port("fare", None, 1), port("age", None, dtype=np.int64), port("sex", None, 1, dtype=object)
    feeds = read_inputs(["people.csv"], [], signature(one, flat, text)).feeds
    np.testing.assert_array_equal(feeds["fare"], np.array([[7.5], [9]], np.float32))
    np.testing.assert_array_equal(feeds["age"], [30, 4])
    assert feeds["sex"].tolist() == [["f"], ["m"]]


def test_texts_fill_the_masks_beside(tmp_path: Path) -> None:
    _, known = open_model(str(models.text(tmp_path / "m.onnx")))
    reading = read_inputs([], ["Good film", "[start] bad"], known)
    np.testing.assert_array_equal(reading.feeds["ids"], [[3, 5], [2, 4]])
    np.testing.assert_array_equal(reading.feeds["attention_mask"], np.ones((2, 2)))
    np.testing.assert_array_equal(reading.held["ids"], [[False, False], [True, False]])
    assert reading.sources == ["Good film", "[start] bad"]
    given = read_inputs(["attention_mask=[[1, 0]]"], ["Good film"], known)
    np.testing.assert_array_equal(given.feeds["attention_mask"], [[1, 0]])


@pytest.mark.parametrize("item", ["{}", "ids={}"])
def test_the_lines_of_a_file_are_texts(tmp_path: Path, item: str) -> None:
    _, known = open_model(str(models.text(tmp_path / "m.onnx")))
    (tmp_path / "a.txt").write_text("\ufeffGood film\n\n  [start] bad \n", "utf-8")
    reading = read_inputs([item.format(tmp_path / "a.txt")], [], known)
    np.testing.assert_array_equal(reading.feeds["ids"], [[3, 5], [2, 4]])
    assert reading.sources == ["Good film", "[start] bad"]
    for content, words in ((b" \n", "holds no text"), (b"\xff\xfe", "not text in UTF-8")):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(FeedError, match=words):
            read_inputs([item.format(tmp_path / "a.txt")], [], known)
    with pytest.raises(FeedError, match="a text goes behind --text"):
        read_inputs(["so good"], [], known)
    (tmp_path / "a.txt").write_text("good")
    with pytest.raises(FeedError, match=r"\.txt where the model's file carries a vocabulary"):
        read_inputs([str(tmp_path / "a.txt")], [], signature(A))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("items", "texts", "error", "words"),
    [
        (["nothing.npy"], [], FeedError, "there is no file nothing.npy"),
        (["a=nothing.npy"], [], FeedError, "there is no file nothing.npy"),
        (["c=a.npy"], [], OptionError, "no input 'c'; its inputs are 'a', 'b'"),
        (["a.npy"], [], OptionError, r"for which input is a.npy\? Say NAME=a.npy"),
        (["."], [], FeedError, "is a folder"),
        (["a=a.npy", "b=b.npy", "a.npy"], [], OptionError, "no input of the model is left for a.npy"),
        (["white.png"], [], OptionError, "no input of the model is left for white.png"),
        (["a=white.png"], [], OptionError, r"the shape \[4, 4\], which is none for 'a'"),
        ([], ["words"], OptionError, "onnx-ig annotate MODEL --vocabulary"),
    ],
)
def test_what_is_not_clear(items: list[str], texts: list[str], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        read_inputs(items, texts, signature(A, B))


@pytest.mark.usefixtures("files")
def test_unknown_endings_and_names_inside_archives() -> None:
    Path("a.xyz").write_text("1")
    with pytest.raises(FeedError, match=r"ends in \.xyz, and only these can be read: \.npy"):
        read_inputs(["a.xyz"], [], signature(A))
    with pytest.raises(FeedError, match="holds 'b', and the model has the inputs 'a'"):
        read_inputs(["both.npz"], [], signature(A))
    with pytest.raises(FeedError, match="holds 'a', 'b', and nothing for the input 'c'"):
        read_inputs(["c=both.npz"], [], signature(port("c", None, 2)))


def test_what_is_missing_is_said_with_the_way_to_give_it() -> None:
    with pytest.raises(OptionError, match=r"nothing is given for 'b' \(float32 \[\?, 3\]\): add b=FILE"):
        complete(read_inputs(["a=[[1, 2]]"], [], signature(A, B)), signature(A, B))
    with pytest.raises(OptionError, match=r"give data for the input 'a' \(float32 \[\?, 2\]\): a file"):
        complete(read_inputs([], [], signature(A)), signature(A))


def test_options_override_what_the_file_says() -> None:
    known = Metadata(preprocessing={"image": Preprocessing("NHWC", size=(4, 4), scale=1.0, mean=(3.0,))})
    image = port("image", None, 4, 4, 3)
    given = {"mean": (1.0, 2.0, 3.0), "crop": "2x3", "size": None, "layout": None}
    found = preprocessing_of(given, [image], known)["image"]
    assert found == Preprocessing("NHWC", size=(4, 4), scale=1.0, mean=(1, 2, 3), crop=(2, 3))
    assert preprocessing_of({"mean": None}, [image], known) == {}
    # Where the scale is not told, it follows from the unit of the mean.
    assert preprocessing_of({"mean": (123.0,)}, [image], Metadata())["image"].scale == 1
    assert preprocessing_of({"mean": (0.5,)}, [image], Metadata())["image"].scale == 1 / 255
    with pytest.raises(OptionError, match="--mean is about pictures"):
        preprocessing_of({"mean": (1.0,)}, [], known)
    with pytest.raises(OptionError, match="--scale is one number"):
        preprocessing_of({"scale": (1.0, 2.0)}, [image], known)
    with pytest.raises(OptionError, match="layout"):
        preprocessing_of({"layout": "NXY"}, [image], known)
