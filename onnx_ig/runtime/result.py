"""What an attribution run gives, and its file."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnx_ig.arguments import as_path
from onnx_ig.errors import MissingDependencyError, ModelError, OptionError
from onnx_ig.runtime.session import Array
from onnx_ig.runtime.writing import whole_file

__all__ = ["Attribution", "load_result"]

_FORMAT = 1
_ARRAYS = (
    "prediction", "baseline_prediction", "convergence_delta", "target", "error_estimate", "gradient_counts",
    "forward_counts", "samples",
)  # fmt: skip


@dataclass
class Attribution:
    """Attributions of one output, a row a sample; `a["x"]` is that of the input `x`.

    `attributions`        {input: array of the input's shape and type}, [N, K, ...] for a list of K targets, which stand
                          behind the samples (first, [K, ...], where the feeds are one sample without a batch axis); a
                          token input `ids` [N, T] has [N, T], summed over the embedding, in the embedding's type.
    `full`                the same with the embedding axis kept, [N, T, E].
    `prediction`          score of the target at the input, float64 [N] or [N, K].
    `baseline_prediction` score at the baseline, float64 [N] or [N, K].
    `convergence_delta`   sum of attributions - (prediction - baseline_prediction), float64 [N] or [N, K]; NaN for methods that
                          do not claim completeness.
    `error_estimate`      how far the attributions may be from the exact integral, by the difference of two rules:
                          estimated L2 norm of the error over all attributed features (a token is one), [N] or [N, K].
                          The delta, where errors cancel, is often smaller. NaN where there is no second rule; None in
                          results of one-file models.
    `outputs`             the model's outputs at the input, by name.
    `target`              int64 indices into the output's non-batch axes, [N, rank-1] ([K, N, rank-1] for a list); None
                          for a cotangent.
    `curves`              "alphas", "scores", "slopes" (the derivative of the score by alpha) and "norms:<input>" [N, m]
                          for methods that follow the path; the first three with a tolerance too, NaN behind the last
                          gradient of a sample.
    `gradients`, `forwards`: rows of gradient and of forward-only evaluation spent, over all samples; `gradient_counts`
                          and `forward_counts` for each, [N], over all targets.
    `tolerance`           what was asked for; None for a fixed number of steps.
    `samples`             int64 [N], which of what was fed these are, where some could not be; None: all, in order.
    `notes`               what should be known about how the answer was computed.
    `axes`                {input: its batch axis, None where the feeds are one sample}.
    """

    attributions: dict[str, Array]
    prediction: Array
    baseline_prediction: Array
    convergence_delta: Array
    outputs: dict[str, Array]
    target: Array | None
    method: str
    output: str
    n_steps: int | None = None
    quadrature: str | None = None
    gradients: int = 0
    forwards: int = 0
    full: dict[str, Array] = field(default_factory=dict)
    curves: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)
    labels: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    axes: dict[str, int | None] = field(default_factory=dict)
    error_estimate: Array | None = None
    gradient_counts: Array | None = None
    forward_counts: Array | None = None
    tolerance: float | None = None
    samples: Array | None = None

    def __repr__(self) -> str:
        """Shapes and numbers at a glance; the arrays are asked for by name."""
        shapes = ", ".join(f"{name!r}: {list(array.shape)}" for name, array in self.attributions.items())
        steps = "" if self.n_steps is None else f", n_steps={self.n_steps}"
        with np.errstate(all="ignore"):
            delta = float(np.abs(self.convergence_delta).max(initial=0.0))
        return (
            f"Attribution({{{shapes}}}, method={self.method!r}, output={self.output!r}{steps}, "
            f"largest |convergence_delta|={delta:.3g})"
        )

    def __getitem__(self, name: str) -> Array:
        if not isinstance(name, str) or name not in self.attributions:
            raise OptionError(
                f"nothing was attributed to {name!r}; there are {', '.join(map(repr, self.attributions))}"
            )
        return self.attributions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributions)

    def __len__(self) -> int:
        return len(self.attributions)

    def __contains__(self, name: object) -> bool:
        return name in self.attributions

    def keys(self) -> list[str]:
        """Names of what was attributed."""
        return list(self.attributions)

    def items(self) -> list[tuple[str, Array]]:
        """(name, attribution) of each."""
        return list(self.attributions.items())

    @property
    def relative_delta(self) -> Array:
        """|convergence_delta| / |prediction - baseline_prediction|, [N] or [N, K]; 0 where both are 0."""
        change = np.abs(self.prediction - self.baseline_prediction)
        delta = np.abs(self.convergence_delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((delta == 0) & (change == 0), 0.0, delta / change)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to an .npz file, whole or not at all; `load_result` reads it. Returns the path.

        Raises OptionError for what is no path, ModelError where it cannot be written.
        """
        path = as_path(path, "path")
        if path.suffix != ".npz":
            path = path.with_name(path.name + ".npz")
        arrays: dict[str, Array] = {}
        for group in ("attributions", "full", "outputs", "curves", "feeds"):
            arrays.update({f"{group}/{name}": np.asarray(a) for name, a in getattr(self, group).items()})
        arrays.update({name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None})
        about = {
            "format": _FORMAT, "method": self.method, "output": self.output, "n_steps": self.n_steps,
            "quadrature": self.quadrature, "gradients": self.gradients, "forwards": self.forwards,
            "tolerance": self.tolerance,
            "labels": None if self.labels is None else list(self.labels), "notes": list(self.notes), "axes": self.axes,
        }  # fmt: skip
        arrays["onnx_ig"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        with whole_file(path) as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return path

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        input: str | None = None,  # noqa: A002  (the word that the command line uses)
        **options: Any,
    ) -> Any:
        """A picture of the attribution of one input (the only one, or `input`), written to `path` where given.

        See `onnx_ig.plot.picture` for the options. Returns the matplotlib Figure, or the HTML text of tokens.
        Raises OptionError where a name, a number or an option does not fit, MissingDependencyError without the `plot`
        extra.
        """
        try:
            from onnx_ig.plot import picture
        except ImportError as error:
            raise MissingDependencyError(f"pictures need matplotlib: pip install 'onnx_ig[plot]' ({error})") from error
        return picture(self, path, input=input, **options)


def load_result(path: str | os.PathLike[str]) -> Attribution:
    """Read what `Attribution.save` wrote, equal to what was saved.

    Raises ModelError where the file is not such a file, OptionError for what is no path.
    """
    path = as_path(path, "path")
    try:
        with path.open("rb") as opened, np.lib.npyio.NpzFile(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about: Mapping[str, Any] = json.loads(bytes(arrays.pop("onnx_ig")).decode())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelError(f"{path} is not a file that Attribution.save wrote: {error}") from error
    if about.get("format") != _FORMAT:
        raise ModelError(f"{path} has format {about.get('format')!r}; this onnx_ig reads {_FORMAT}")
    groups: dict[str, dict[str, Array]] = {g: {} for g in ("attributions", "full", "outputs", "curves", "feeds")}
    for name, array in arrays.items():
        group, slash, key = name.partition("/")
        if slash:
            groups[group][key] = array
    scores = {name: arrays[name] for name in _ARRAYS if name in arrays}
    return Attribution(
        attributions=groups["attributions"], full=groups["full"], outputs=groups["outputs"], curves=groups["curves"],
        feeds=groups["feeds"], prediction=scores["prediction"], baseline_prediction=scores["baseline_prediction"],
        convergence_delta=scores["convergence_delta"], target=scores.get("target"), method=about["method"],
        output=about["output"], n_steps=about["n_steps"], quadrature=about["quadrature"], gradients=about["gradients"],
        forwards=about["forwards"], labels=None if about["labels"] is None else tuple(about["labels"]),
        notes=tuple(about["notes"]), axes=about.get("axes", {}),
        error_estimate=scores.get("error_estimate"), gradient_counts=scores.get("gradient_counts"),
        forward_counts=scores.get("forward_counts"), tolerance=about.get("tolerance"), samples=scores.get("samples"),
    )  # fmt: skip
