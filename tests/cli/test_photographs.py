"""Pictures to tensors: literals, and the words of the preprocessing one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image

from onnx_ig.cli.photographs import guess_preprocessing, read_photograph
from onnx_ig.cli.ports import Port
from onnx_ig.errors import FeedError, OptionError
from onnx_ig.manifest import Preprocessing

F32 = np.dtype(np.float32)
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)


def port(*shape: int | None, dtype: Any = F32) -> Port:
    return Port("image", np.dtype(dtype), shape)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(PIXELS).save(path)
    return path


def test_mean_std_scale(photo: Path) -> None:
    spec = Preprocessing("NCHW", mean=(0.5, 0.4, 0.3), std=(0.2, 0.1, 0.3))
    read = read_photograph(photo, spec, port(None, 3, None, None))
    expected = ((PIXELS / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.1, 0.3]).transpose(2, 0, 1)[None]
    assert read.tensor.dtype == np.float32
    np.testing.assert_allclose(read.tensor, expected, rtol=1e-6)
    np.testing.assert_array_equal(read.pixels, PIXELS)


@pytest.mark.parametrize(
    ("layout", "axes"), [("NHWC", (0, 1, 2, 3)), ("CHW", (3, 1, 2)), ("HWC", (1, 2, 3)), ("NCWH", (0, 3, 2, 1))]
)
def test_layouts(photo: Path, layout: str, axes: tuple[int, ...]) -> None:
    read = read_photograph(photo, Preprocessing(layout, scale=1), port(*[None] * len(layout)))
    expected = PIXELS[None].transpose(axes if len(axes) == 4 else (0, *axes))
    np.testing.assert_array_equal(read.tensor, expected if len(axes) == 4 else expected[0])


def test_channels(photo: Path) -> None:
    any_size = port(None, 3, None, None)
    read = read_photograph(photo, Preprocessing(scale=1, channels="BGR", mean=(1, 2, 3)), any_size)
    np.testing.assert_array_equal(read.tensor[0, 0], PIXELS[:, :, 2] - 1.0)
    np.testing.assert_array_equal(read.pixels, PIXELS)
    grey = read_photograph(photo, Preprocessing(scale=1), port(None, 1, None, None))
    np.testing.assert_array_equal(grey.tensor[0, 0], np.asarray(Image.fromarray(PIXELS).convert("L")))
    assert read_photograph(photo, Preprocessing("NHW", scale=1), port(None, None, None)).tensor.shape == (1, 6, 8)
    opaque = read_photograph(photo, Preprocessing(scale=1), port(None, 4, None, None))
    np.testing.assert_array_equal(opaque.tensor[0, 3], 255)
    # How many channels follows from mean and std where the model does not say.
    assert read_photograph(photo, Preprocessing(mean=(1, 2, 3)), port(None, None, None, None)).tensor.shape[1] == 3


def test_resize_and_crop(tmp_path: Path) -> None:
    path = tmp_path / "halves.png"
    pixels = np.zeros((20, 40), np.uint8)
    pixels[:, 20:] = 255
    Image.fromarray(pixels).save(path)
    one = port(None, 1, None, None)

    def shape(fed: Port = one, **spec: Any) -> tuple[int, ...]:
        return read_photograph(path, Preprocessing(**spec), fed).tensor.shape[2:]

    assert shape() == (20, 40)
    assert shape(port(None, 1, 5, 7)) == (5, 7)  # the model's own size
    assert shape(size=(8, 6)) == (8, 6)
    assert shape(resize=10) == (10, 20)
    assert shape(resize=(30, 11)) == (30, 11)
    assert shape(resize=10, size=(8, 8), crop="center") == (8, 8)
    assert shape(crop=(8, 8)) == (8, 8)
    assert shape(size=(8, 8), crop="center") == (8, 8)
    stretched = read_photograph(path, Preprocessing(size=(8, 8), resample="nearest"), one).tensor[0, 0]
    np.testing.assert_array_equal(stretched, [[0] * 4 + [1] * 4] * 8)
    cut = read_photograph(path, Preprocessing(resize=20, crop=(4, 6)), one).tensor[0, 0]
    np.testing.assert_array_equal(cut, [[0] * 3 + [1] * 3] * 4)


def test_integer_inputs_take_pixels(photo: Path) -> None:
    fed = port(None, None, None, 3, dtype=np.uint8)
    spec = guess_preprocessing(fed)
    assert (spec.layout, spec.scale) == ("NHWC", 1)
    np.testing.assert_array_equal(read_photograph(photo, spec, fed).tensor[0], PIXELS)


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((None, 3, 224, 224), "NCHW"), ((None, 224, 224, 3), "NHWC"), ((1, 1, 28, 28), "NCHW"), ((3, 8, 8), "CHW"),
        ((8, 8, 3), "HWC"), ((None, 8, 8), "NHW"), ((8, 8), "HW"), ((None, None, None, None), "NCHW"),
    ],
)  # fmt: skip
def test_guesses(shape: tuple[int | None, ...], layout: str) -> None:
    assert guess_preprocessing(port(*shape)).layout == layout


def test_unusual_files(tmp_path: Path) -> None:
    any_size = port(None, 3, None, None)
    clear = np.concatenate([PIXELS, np.zeros((6, 8, 1), np.uint8)], 2)
    Image.fromarray(clear).save(tmp_path / "clear.png")
    np.testing.assert_array_equal(read_photograph(tmp_path / "clear.png", Preprocessing(), any_size).tensor, 1)
    deep = np.array([[0, 65535, 32768]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    read = read_photograph(tmp_path / "deep.png", Preprocessing(scale=1), port(None, 1, None, None))
    np.testing.assert_array_equal(read.tensor[0, 0], [[0, 255, 127]])
    turned = Image.fromarray(PIXELS)
    turned.getexif()[0x0112] = 6  # rotated by a quarter, as phones write it
    turned.save(tmp_path / "turned.jpg", exif=turned.getexif())
    assert read_photograph(tmp_path / "turned.jpg", Preprocessing(), any_size).tensor.shape == (1, 3, 8, 6)


@pytest.mark.parametrize(
    ("spec", "shape", "words"),
    [
        (Preprocessing("NCHW"), (None, 3, 4), "has 4 axes, and the input 'image'.* has 3"),
        (Preprocessing(size=(5, 5)), (None, 3, 4, 4), r"size \[5, 5\] does not fit"),
        (Preprocessing(), (None, 7, 4, 4), "takes 7 channels"),
        (Preprocessing(channels="L"), (None, 3, 4, 4), "takes 3 channels"),
        (Preprocessing(mean=(1, 2, 3)), (None, 1, 4, 4), "mean has 3 values"),
        (Preprocessing("NHW", channels="RGB"), (None, 4, 4), "need a C"),
        (Preprocessing(resize=3, crop=(4, 4)), (None, 3, None, None), "cannot be cropped to 4 x 4"),
    ],
)
def test_contradictions(photo: Path, spec: Preprocessing, shape: tuple[int | None, ...], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_photograph(photo, spec, port(*shape))


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n broken"])
def test_what_is_no_picture(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(FeedError, match=r"x\.png is not a picture"):
        read_photograph(path, Preprocessing(), port(None, 3, None, None))


def test_a_cut_off_picture(photo: Path) -> None:
    Image.fromarray(np.repeat(PIXELS, 50, 0)).save(photo)
    photo.write_bytes(photo.read_bytes()[:-300])
    with pytest.raises(FeedError, match="is not a picture that can be read"):
        read_photograph(photo, Preprocessing(), port(None, 3, None, None))
