"""The picture that suits a result: a photograph with its heat map, coloured text, bars or a strip."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onnx_ig.arguments import is_whole
from onnx_ig.errors import OptionError
from onnx_ig.manifest import Metadata, Preprocessing
from onnx_ig.plot.bars import bars, series
from onnx_ig.plot.curves import curves
from onnx_ig.plot.files import save
from onnx_ig.plot.images import PICTURES, heat_map, panels
from onnx_ig.plot.photograph import restore
from onnx_ig.plot.scale import each
from onnx_ig.plot.tokens import TokenRow, token_html
from onnx_ig.runtime.rows import row_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Result", "headline", "picture"]

KINDS = (*PICTURES, "bars", "series", "tokens", "curves")
_FEW = 64
"""Features up to this many are bars; more are a strip."""


class Result(Protocol):
    """What is drawn: `onnx_ig.runtime.Attribution` or anything with these fields."""

    attributions: dict[str, NDArray[Any]]
    prediction: NDArray[Any]
    baseline_prediction: NDArray[Any]
    convergence_delta: NDArray[Any]
    target: NDArray[Any] | None
    output: str
    method: str
    feeds: dict[str, NDArray[Any]]
    curves: dict[str, NDArray[Any]]
    labels: Sequence[str] | None


def picture(
    result: Result,
    path: str | os.PathLike[str] | None = None,
    *,
    input: str | None = None,  # noqa: A002  (the word of `Attribution.plot`)
    sample: int = 0,
    target: int = 0,
    kind: str | Sequence[str] | None = None,
    metadata: Metadata | None = None,
    image: ArrayLike | None = None,
    tokens: Sequence[str] | None = None,
    held: Sequence[bool] | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    colours: str | None = None,
    **options: Any,
) -> Figure | str:
    """Draw one sample, and write the drawing to `path` where given.

    Args:
        input: which attributed input; default: the only one, or all together where all are tabular.
        sample, target: which of the samples, and of the targets where a list was asked for.
        kind: names of pictures ("blended_heat_map" ..., several stand side by side), "bars", "series", "tokens" or
            "curves" (score and gradient norm along the path); default: by the shape, the type and the metadata.
        metadata: what the model's file says, for the photograph's pixels, feature names and tokens.
        image: the photograph; default: the input itself, with its preprocessing undone where the metadata tell it.
        tokens: one text a token, from the left; positions beyond them are padding and not drawn. Default: from the
            vocabulary of the metadata, else the ids.
        held: which tokens were held along the path; they are marked.
        names: one text a feature.
        title: default: label, score and delta.
        colours: "blue_orange" or "red_green", or for heat maps a colour map of matplotlib.
        options: of the drawing function: sign, vmin, vmax, and others that it has.

    Returns the matplotlib Figure, or the HTML text of tokens.
    Raises OptionError where a name, a shape or an option does not fit; MissingDependencyError without matplotlib.
    """
    if not isinstance(metadata, Metadata | None):
        raise OptionError(f"metadata={metadata!r}: an onnx_ig.manifest.Metadata is needed")
    metadata = metadata or Metadata()
    _check_place(result, sample, target)
    kinds = None if kind is None else (kind,) if isinstance(kind, str) else tuple(each(kind, "kind"))
    tokens, held, names = (
        None if given is None else each(given, what)
        for given, what in ((tokens, "tokens"), (held, "held"), (names, "names"))
    )
    name = _one_input(result, input, kinds)
    line = headline(result, sample, target) if title is None else title
    options = {"title": line, **options}
    if kinds == ("curves",):
        drawing: Figure | str = _curves(result, name, sample, target, _fitting("curves", (curves,), options, None))
    elif name is None:
        drawing = _all_bars(result, sample, target, metadata, _fitting("bars", (bars,), options, colours))
    else:
        row = row_of(result, name, result.attributions[name], sample, target)
        given = row_of(result, name, result.feeds[name], sample) if name in result.feeds else None
        one = _One(name, row, given, image, tokens, held, names, metadata)
        drawing = one.draw(_kind_for(kinds, path, one), options, colours)
    if path is not None:
        save(drawing, path)
    return drawing


def headline(result: Result, sample: int = 0, target: int = 0) -> str:
    """Label, score, score of the baseline and delta of one sample in a line.

    Raises OptionError where there is no such sample or target, or `result` is none.
    """
    _check_place(result, sample, target)

    def one(values: NDArray[Any]) -> float:
        rows = np.asarray(values)
        return float(rows[sample, target] if rows.ndim == 2 else rows[sample])

    what = label_of(result, sample, target)
    delta = one(result.convergence_delta)
    ending = "" if np.isnan(delta) else f", delta {delta:.2g}"
    return f"{what}: {one(result.prediction):.4g} (baseline {one(result.baseline_prediction):.4g}{ending})"


def label_of(result: Result, sample: int = 0, target: int = 0) -> str:
    """The class explained, by its label where there is one, else output and index."""
    if result.target is None:
        return result.output
    index = np.asarray(result.target)
    index = index[target, sample] if index.ndim == 3 else index[sample]
    place = [int(i) for i in np.atleast_1d(index)]
    if len(place) == 1 and result.labels is not None and 0 <= place[0] < len(result.labels):
        return result.labels[place[0]]
    return f"{result.output}{place}" if place else result.output


@dataclass(frozen=True)
class _One:
    """One row of one input, with what is known about it."""

    name: str
    row: NDArray[Any]
    given: NDArray[Any] | None
    image: ArrayLike | None
    tokens: Sequence[str] | None
    held: Sequence[bool] | None
    names: Sequence[str] | None
    metadata: Metadata

    @property
    def spec(self) -> Preprocessing | None:
        return self.metadata.preprocessing.get(self.name)

    @property
    def is_tokens(self) -> bool:
        return self.tokens is not None or (
            self.given is not None and self.given.dtype.kind in "iu" and self.given.shape == self.row.shape
        )

    @property
    def line(self) -> NDArray[Any] | None:
        """The row as one axis, where it has no more than one that is longer than 1."""
        return self.row.reshape(-1) if sum(n > 1 for n in self.row.shape) <= 1 else None

    def draw(self, kinds: Sequence[str], options: Mapping[str, Any], colours: str | None) -> Figure | str:
        if kinds == ("tokens",):
            options = _fitting("tokens", (token_html,), options, colours)
            tokens = self._tokens()
            held = None if self.held is None else [bool(h) for h in self.held[: len(tokens)]]
            return token_html(TokenRow(tokens, self.row.reshape(-1)[: len(tokens)], held=held), **options)
        if kinds in (("bars",), ("series",)):
            if self.line is None:
                raise OptionError(f"{kinds[0]} need one axis, and a row of {self.name!r} has {list(self.row.shape)}")
            given = None if self.given is None or self.given.dtype.kind not in "fiub" else self.given.reshape(-1)
            if kinds == ("series",):
                return series(self.line, given, **_fitting("series", (series,), options, colours))
            options = _fitting("bars", (bars,), options, colours)
            if self.is_tokens:
                tokens = self._tokens()
                return bars(self.line[: len(tokens)], tokens, **options)
            return bars(self.line, self._names(), given=given, **options)
        attribution, axis = self._plane()
        photograph = self._photograph()
        if photograph is None:
            return heat_map(attribution, channel_axis=axis, **_fitting("heat_map", (heat_map,), options, colours))
        options = _fitting(", ".join(kinds), [PICTURES[k] for k in kinds], options, colours)
        return panels(attribution, photograph, kinds, channel_axis=axis, **options)

    def _tokens(self) -> list[str]:
        if self.tokens is not None:
            return list(self.tokens)
        ids = [] if self.given is None else [int(i) for i in self.given.reshape(-1)]
        known: Sequence[str] = self.metadata.vocabulary.tokens if self.metadata.vocabulary else ()
        return [known[i] if 0 <= i < len(known) else str(i) for i in ids]

    def _names(self) -> Sequence[str] | None:
        names = self.names if self.names is not None else self.metadata.features.get(self.name)
        return names if names is None or len(names) == self.row.size else None

    def _plane(self) -> tuple[NDArray[Any], int | None]:
        """The row as [H, W] or with a channel axis."""
        row, letters = self.row, "CHW"
        if self.spec is not None:
            letters = self.spec.layout.replace("N", "")
        elif row.ndim == 3 and row.shape[2] in (1, 3, 4) and row.shape[0] not in (1, 3, 4):
            letters = "HWC"
        if row.ndim == 3 and "C" in letters:
            row = row.transpose([letters.index(c) for c in "CHW"])
            return row, 0
        if row.ndim != 2:
            raise OptionError(
                f"a row of {self.name!r} has the shape {list(row.shape)}, which is no picture: draw a part of it with "
                "the functions of onnx_ig.plot"
            )
        return (row.T if letters == "WH" else row), None

    def _photograph(self) -> ArrayLike | None:
        if self.image is not None:
            return self.image
        if self.given is None or self.given.dtype.kind not in "fiu" or self.given.ndim < 3:
            return None
        return restore(self.given, self.spec) if self.spec is not None else self.given


def _fitting(
    what: str, functions: Sequence[Callable[..., Any]], options: Mapping[str, Any], colours: str | None
) -> dict[str, Any]:
    """The options, with the colours under the names that the functions know; an unknown option is an error."""
    known = {name for function in functions for name in signature(function).parameters}
    for name in options:
        if name not in known:
            raise OptionError(f"{what}: there is no option {name!r}")
    chosen = dict(options)
    if colours is not None:
        chosen.update((name, colours) for name in ("cmap", "palette") if name in known)
    return chosen


def _one_input(result: Result, asked: str | None, kinds: tuple[str, ...] | None) -> str | None:
    """The input to draw; None stands for all, side by side as bars."""
    names = list(result.attributions)
    if asked is not None:
        if asked not in names:
            raise OptionError(f"nothing was attributed to {asked!r}; there are {', '.join(map(repr, names))}")
        return asked
    if len(names) == 1 or kinds == ("curves",):
        return names[0]
    flat = all(a.size <= _FEW * len(result.prediction) and a.ndim <= 2 for a in result.attributions.values())
    if kinds in (None, ("bars",)) and flat and all(result.feeds.get(n, np.zeros(1)).dtype.kind == "f" for n in names):
        return None
    raise OptionError(f"several inputs are attributed, name one with input=: {', '.join(map(repr, names))}")


def _check_place(result: Result, sample: int, target: int) -> None:
    if not hasattr(result, "prediction"):
        raise OptionError(f"a result of `attribute` or `run` is needed, not {type(result).__name__}")
    samples, targets = (*np.shape(result.prediction), 1)[:2]
    for what, given, there in (("sample", sample, samples), ("target", target, targets)):
        if not is_whole(given) or not 0 <= given < there:
            raise OptionError(f"there is no {what} {given!r}; there are {there}, from 0 to {there - 1}")


def _kind_for(kinds: tuple[str, ...] | None, path: str | os.PathLike[str] | None, one: _One) -> tuple[str, ...]:
    if kinds is not None:
        for name in kinds:
            if name not in KINDS:
                raise OptionError(f"there is no picture {name!r}; there are {', '.join(KINDS)}")
        if len(kinds) > 1 and not set(kinds) <= set(PICTURES):
            raise OptionError(f"only {', '.join(PICTURES)} stand side by side, not {', '.join(kinds)}")
        return kinds
    if one.is_tokens:
        ending = Path(path).suffix.lower() if path is not None else ".html"
        return ("tokens",) if ending in (".html", ".htm") else ("bars",)
    if one.spec is None and one.image is None and one.line is not None:
        return ("bars",) if one.line.size <= _FEW else ("series",)
    return ("original_image", "blended_heat_map")


def _all_bars(result: Result, sample: int, target: int, metadata: Metadata, options: Mapping[str, Any]) -> Figure:
    values: list[NDArray[Any]] = []
    names: list[str] = []
    given: list[NDArray[Any]] = []
    for name, array in result.attributions.items():
        row = row_of(result, name, array, sample, target).reshape(-1)
        known = metadata.features.get(name)
        titles = known if known is not None and len(known) == row.size else [str(i) for i in range(row.size)]
        names.extend(f"{name}: {t}" for t in titles)
        values.append(row)
        if name in result.feeds:
            given.append(row_of(result, name, result.feeds[name], sample).reshape(-1))
    told = np.concatenate(given) if len(given) == len(values) else None
    return bars(np.concatenate(values), names, given=told, **options)


def _curves(result: Result, name: str | None, sample: int, target: int, options: Mapping[str, Any]) -> Figure:
    if "alphas" not in result.curves or "scores" not in result.curves:
        raise OptionError(f"{result.method} keeps no curves; interior_gradients does, and every answer to a tolerance")
    several = np.ndim(result.prediction) == 2

    def row(key: str) -> NDArray[Any]:
        values = np.asarray(result.curves[key])
        values = values[sample] if values.ndim > 1 else values
        return values[target] if several and values.ndim > 1 else values

    alphas = row("alphas")
    there = np.isfinite(alphas)  # samples of one answer may have different steps
    norms = row(f"norms:{name}")[there] if f"norms:{name}" in result.curves else None
    slopes = row("slopes")[there] if "slopes" in result.curves else None
    place: Any = (sample, target) if several else sample
    start = np.asarray(result.baseline_prediction)[place]
    return curves(alphas[there], row("scores")[there], norms, slopes=slopes, baseline_score=start, **options)
