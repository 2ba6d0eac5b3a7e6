"""Which picture a result gets, and how it reaches a file."""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from onnx_ig import plot
from onnx_ig.errors import MissingDependencyError, OptionError
from onnx_ig.manifest import Metadata, Preprocessing, Vocabulary


@dataclass
class Given:
    """A result with the fields that a picture needs."""

    attributions: dict[str, Any]
    feeds: dict[str, Any]
    prediction: Any = field(default_factory=lambda: np.array([9.0, 8.0]))
    baseline_prediction: Any = field(default_factory=lambda: np.array([0.5, 0.25]))
    convergence_delta: Any = field(default_factory=lambda: np.array([0.01, np.nan]))
    target: Any = field(default_factory=lambda: np.array([[1], [0]]))
    output: str = "logits"
    method: str = "integrated_gradients"
    curves: dict[str, Any] = field(default_factory=dict)
    labels: Any = ("no", "yes")


def result_of(**inputs: np.ndarray) -> Given:
    return Given({k: v.astype(float) if v.dtype.kind == "i" else v for k, v in inputs.items()}, inputs)


PHOTOS = np.random.default_rng(0).standard_normal((2, 3, 4, 5))


def title(figure: Any) -> str:
    return figure.get_suptitle() or figure.axes[0].get_title()


def test_headlines() -> None:
    result = result_of(x=PHOTOS)
    assert plot.headline(result) == "yes: 9 (baseline 0.5, delta 0.01)"
    assert plot.headline(result, 1) == "no: 8 (baseline 0.25)"
    result.labels, result.target = None, np.array([[1, 2], [3, 4]])
    assert plot.headline(result, 1).startswith("logits[3, 4]: 8")
    result.target = None
    assert plot.headline(result, 1).startswith("logits: 8")


def test_a_photograph_stands_beside_its_heat_map() -> None:
    figure = plot.picture(result_of(x=PHOTOS), sample=1)
    assert title(figure) == "no: 8 (baseline 0.25)"
    assert [len(ax.images) for ax in figure.axes] == [1, 1, 0]


def test_the_photograph_is_restored_by_the_metadata() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (2, 3, 4, 5))
    spec = Preprocessing(mean=(0.5,), std=(0.25,))
    result = result_of(x=((pixels / 255 - 0.5) / 0.25).astype(np.float32))
    figure = plot.picture(result, kind="original_image", metadata=Metadata(preprocessing={"x": spec}))
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), pixels[0].transpose(1, 2, 0) / 255)


def test_layouts_by_the_metadata() -> None:
    x = np.zeros((2, 5, 4, 3), np.float32)  # W and H of NWHC: told, not guessed
    x[0, 4, 0, :] = 1
    figure = plot.picture(
        result_of(x=x), kind="heat_map", metadata=Metadata(preprocessing={"x": Preprocessing("NWHC")})
    )
    array = np.asarray(figure.axes[0].images[0].get_array())
    assert array.shape[:2] == (4, 5)
    assert tuple(np.argwhere(array[:, :, 0] < 0.5)[0]) == (0, 4)


def test_rows_of_features_are_bars_and_long_ones_a_strip() -> None:
    names = {"x": ("age", "fare", "class")}
    figure = plot.picture(result_of(x=np.eye(3)[:2]), metadata=Metadata(features=names))
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["age = 1", "fare = 0", "class = 0"]
    assert plot.picture(result_of(x=np.ones((2, 1, 500)))).axes[0].get_xlabel() == "position"


def test_tabular_inputs_share_one_picture() -> None:
    figure = plot.picture(result_of(a=np.array([[1.0, 2.0]] * 2), b=np.array([[3.0]] * 2)))
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["b: 0 = 3", "a: 1 = 2", "a: 0 = 1"]
    figure = plot.picture(result_of(a=np.array([[1.0, 2.0]] * 2), b=np.array([[3.0]] * 2)), input="b")
    assert len(figure.axes[0].patches) == 1
    with pytest.raises(OptionError, match="name one with input=: 'x', 'y'"):
        plot.picture(result_of(x=PHOTOS, y=PHOTOS))
    with pytest.raises(OptionError, match="nothing was attributed to 'z'"):
        plot.picture(result_of(x=PHOTOS), input="z")


def test_tokens_are_text(tmp_path: Path) -> None:
    result = result_of(ids=np.array([[1, 0, 7], [0, 1, 1]]))
    known = Metadata(vocabulary=Vocabulary(("good", "bad")))
    page = plot.picture(result, metadata=known)
    assert ">bad</span>" in page
    assert ">7</span>" in page  # no such token: its id
    assert ">one</span>" in plot.picture(result, tokens=["one", "two", "three"])
    figure = plot.picture(result, tmp_path / "ids.png", metadata=known)
    assert isinstance(figure, Figure)
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["7", "bad", "good"]


def test_several_targets() -> None:
    result = result_of(x=np.ones((2, 2)))
    result.attributions = {"x": np.arange(12.0).reshape(2, 3, 2)}
    result.prediction = result.baseline_prediction = result.convergence_delta = np.arange(6.0).reshape(2, 3)
    result.target = np.array([[[0], [1]]] * 3)
    figure = plot.picture(result, sample=1, target=2)
    assert sorted(p.get_width() for p in figure.axes[0].patches) == [10, 11]
    with pytest.raises(OptionError, match="no target 3"):
        plot.picture(result, target=3)
    with pytest.raises(OptionError, match="no sample 2"):
        plot.picture(result, sample=2)


def test_curves_along_the_path() -> None:
    result = result_of(x=np.ones((2, 2)))
    with pytest.raises(OptionError, match="interior_gradients"):
        plot.picture(result, kind="curves")
    at = np.linspace(0, 1, 4)
    result.curves = {"alphas": at, "scores": np.stack([at, 2 * at]), "norms:x": np.stack([at, 3 * at])}
    figure = plot.picture(result, kind="curves", sample=1)
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), 3 * at)


def test_curves_of_samples_with_steps_of_their_own() -> None:
    result = result_of(x=np.ones((2, 2)))
    at = np.array([[0.25, 0.5, 0.75], [0.5, np.nan, np.nan]])
    result.curves = {"alphas": at, "scores": at, "slopes": np.ones((2, 3))}
    figure = plot.picture(result, kind="curves", sample=1)
    assert [len(ax.lines[0].get_xdata()) for ax in figure.axes] == [1, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "mosaic"}, "no picture 'mosaic'"),
        ({"kind": ["overlay", "bars"]}, "side by side"),
        ({"kind": "bars"}, "bars need one axis"),
    ],
)
def test_wrong_kinds(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        plot.picture(result_of(x=PHOTOS), **options)


def test_a_shape_without_a_picture_is_said() -> None:
    with pytest.raises(OptionError, match=r"\[2, 3, 4, 5\], which is no picture"):
        plot.picture(result_of(x=np.zeros((2, 2, 3, 4, 5))))


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    result = result_of(x=PHOTOS)
    plot.picture(result, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    for name, words in [("b.xyz", "b.xyz cannot be written"), ("c.html", "is a picture"), ("no/d.png", "no folder")]:
        with pytest.raises(OptionError, match=words):
            plot.picture(result, tmp_path / name)
    with pytest.raises(OptionError, match="text in colours"):
        plot.save("<p>", tmp_path / "e.png")
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def blocked(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [m for m in sys.modules if m.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", blocked)
    for draw in (lambda: plot.heat_map(np.ones((2, 2))), lambda: plot.bars([1.0]), lambda: plot.curves([0, 1], [0, 1])):
        with pytest.raises(MissingDependencyError, match=r"onnx_ig\[plot\]"):
            draw()
    assert "good" in plot.token_html(plot.TokenRow(["good"], [1.0]))  # text needs no matplotlib
