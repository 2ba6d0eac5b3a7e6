"""What `attribute` prints: for people, and for machines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onnx_ig.cli.reading import Reading
from onnx_ig.manifest import Metadata
from onnx_ig.plot.picture import label_of
from onnx_ig.plot.tokens import TokenRow, printable, token_text
from onnx_ig.runtime.rows import row_of

if TYPE_CHECKING:
    from onnx_ig.runtime.result import Attribution

__all__ = ["Row", "header", "paragraphs", "rows_of", "to_json"]


@dataclass(frozen=True)
class Feature:
    """One feature and what it contributes. `index` lies within the sample's row, without channels for pictures."""

    input: str
    index: list[int]
    name: str
    attribution: float


@dataclass
class Row:
    """One target of one sample."""

    sample: int
    source: str
    target: list[int] | None
    label: str
    prediction: float
    baseline_prediction: float
    convergence_delta: float
    relative_delta: float
    error_estimate: float | None
    gradients: int | None
    forwards: int | None
    predicted: list[int] | None
    predicted_label: str | None
    top_features: list[Feature] = field(default_factory=list)
    picture: list[str] = field(default_factory=list)
    place: int = 0
    position: int = 0


def rows_of(
    result: Attribution, reading: Reading, metadata: Metadata, top: int, positions: Sequence[int] | None = None
) -> list[Row]:
    """A row for every sample and target, in order. `positions`: which of all samples those of the result are."""
    several = result.prediction.ndim == 2
    count = result.prediction.shape[1] if several else 1
    rows, samples = [], len(result.prediction)
    for sample in range(samples):
        for place in range(count):
            at: Any = (sample, place) if several else sample
            predicted = _predicted(result, sample)
            rows.append(
                Row(
                    sample=sample,
                    source=reading.sources[sample] if len(reading.sources) == len(result.prediction) else "",
                    target=_target(result, sample, place),
                    label=label_of(result, sample, place),
                    prediction=float(result.prediction[at]),
                    baseline_prediction=float(result.baseline_prediction[at]),
                    convergence_delta=float(result.convergence_delta[at]),
                    relative_delta=float(result.relative_delta[at]),
                    error_estimate=None if result.error_estimate is None else float(result.error_estimate[at]),
                    gradients=None if result.gradient_counts is None else int(result.gradient_counts[sample]),
                    forwards=None if result.forward_counts is None else int(result.forward_counts[sample]),
                    predicted=predicted,
                    predicted_label=_label(predicted, metadata),
                    top_features=_top(result, reading, metadata, sample, place if several else None, top),
                    place=place,
                    position=positions[sample] if positions is not None and len(positions) == samples else sample,
                )
            )
    return rows


def _target(result: Attribution, sample: int, place: int) -> list[int] | None:
    if result.target is None:
        return None
    index = result.target[place, sample] if result.target.ndim == 3 else result.target[sample]
    return [int(i) for i in np.atleast_1d(index)]


def _predicted(result: Attribution, sample: int) -> list[int] | None:
    """Where the output is largest; None where the output explained is inside the model or has no classes."""
    output = result.outputs.get(result.output)
    if output is None or output.dtype.kind not in "fiu":
        return None
    row = output[sample] if output.ndim and output.shape[0] == len(result.prediction) else output
    if row.size < 2 or not np.isfinite(row).any():
        return None
    return [int(i) for i in np.unravel_index(int(np.nanargmax(row)), row.shape)]


def _label(index: list[int] | None, metadata: Metadata) -> str | None:
    labels = metadata.labels
    if index is None or labels is None or len(index) != 1 or index[0] >= len(labels):
        return None
    return labels[index[0]]


def _top(
    result: Attribution, reading: Reading, metadata: Metadata, sample: int, place: int | None, top: int
) -> list[Feature]:
    found: list[Feature] = []
    for name, array in result.items():
        row = np.asarray(row_of(result, name, array, sample, place), np.float64)
        row = _without_channels(row, name, reading, metadata)
        texts = reading.texts.get(name)
        words = texts.tokens[sample] if texts is not None else metadata.features.get(name, ())
        alone = texts is not None or len(result) == 1
        flat = np.nan_to_num(np.abs(row).reshape(-1), nan=np.inf)
        for i in map(int, np.argsort(-flat, kind="stable")[:top]):
            index = [int(k) for k in np.unravel_index(i, row.shape)]
            fits = i < len(words) and (texts is not None or len(words) == row.size)
            title = printable(words[i] if alone else f"{name}: {words[i]}") if fits else f"{name}{index}"
            found.append(Feature(name, index, title, float(row.reshape(-1)[i])))
    found.sort(key=lambda f: -abs(f.attribution))
    return found[:top]


def _without_channels(row: NDArray[Any], name: str, reading: Reading, metadata: Metadata) -> NDArray[Any]:
    """A picture's row summed over its channels, [H, W]."""
    spec = metadata.preprocessing.get(name)
    letters = spec.layout.replace("N", "") if spec is not None else "CHW"
    if (spec is None and name not in reading.photographs) or row.ndim != len(letters) or "C" not in letters:
        return row
    return row.sum(letters.index("C"))


def to_json(
    result: Attribution, rows: list[Row], model: str, saved: str | None, passed: Mapping[int, tuple[str, str]]
) -> str:
    """Everything that is printed, as JSON; numbers that are not finite are null. `passed`: (name, why) of samples that
    were passed over."""
    record = {
        "model": model,
        "method": result.method,
        "output": result.output,
        "n_steps": result.n_steps,
        "quadrature": result.quadrature,
        "tolerance": result.tolerance,
        "gradients": result.gradients,
        "forwards": result.forwards,
        "notes": list(result.notes),
        "results": [_told(row) for row in rows],
        "passed_over": [{"sample": p, "source": name, "reason": why} for p, (name, why) in sorted(passed.items())],
        "saved": saved,
    }
    return json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False)


def _told(row: Row) -> dict[str, Any]:
    record = asdict(row)
    record["sample"] = record.pop("position")
    del record["place"]
    return record


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def header(result: Attribution) -> str:
    """What was computed, and what it took."""
    steps = "" if result.n_steps is None else f", {result.n_steps} steps"
    if result.tolerance is not None:
        steps = f" to a tolerance of {result.tolerance:g}"
    rule = "" if result.quadrature is None else f" ({result.quadrature})"
    return f"{result.method} of {result.output}{steps}{rule}: {result.gradients} gradients"


def paragraphs(result: Attribution, rows: list[Row], reading: Reading, alone: bool) -> list[str]:
    """For people: lines on every row; `alone`: there is one only, which needs no number."""
    return [line for row in rows for line in _paragraph(row, result, reading, alone)]


def _paragraph(row: Row, result: Attribution, reading: Reading, alone: bool) -> list[str]:
    source = f"{printable(row.source)}: " if row.source else "" if alone else f"sample {row.position}: "
    place = "" if row.target is None else f" {row.target[0] if len(row.target) == 1 else row.target}"
    name = printable(row.label)
    known = f"{name} (class{place})" if result.labels is not None and row.target and len(row.target) == 1 else name
    said = "prediction" if row.predicted in (None, row.target) else "explained"
    lines = [f"{source}{said} {known}, score {row.prediction:.6g}, at the baseline {row.baseline_prediction:.6g}"]
    if said == "explained" and row.predicted is not None:
        lines.append(f"  the prediction is {row.predicted_label or row.predicted}")
    if np.isfinite(row.convergence_delta):
        share = f" ({100 * row.relative_delta:.2g} % of the difference)" if np.isfinite(row.relative_delta) else ""
        spent = f", {row.gradients} gradients and {row.forwards} forwards" if result.tolerance is not None else ""
        lines.append(f"  delta {row.convergence_delta:+.3g}{share}{_estimate(row, result)}{spent}")
    for name, text in reading.texts.items():
        if name in result and row.sample < len(text.tokens):
            tokens = text.tokens[row.sample]
            values = row_of(result, name, result[name], row.sample, row.place).reshape(-1)
            colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
            lines.append("  " + token_text(TokenRow(tokens, values[: len(tokens)]), colour=colour))
    width = max((len(f.name) for f in row.top_features), default=0)
    lines.extend(f"  {f.name:<{width}}  {f.attribution:+.4g}" for f in row.top_features)
    lines.extend(f"  picture: {path}" for path in row.picture)
    return lines


_LARGE = 10.0
"""Per cent from which on an estimated error comes with its remedy."""


def _estimate(row: Row, result: Attribution) -> str:
    """The estimated error as a share of the norm of the attributions, and how to lower a large one."""
    if row.error_estimate is None or not np.isfinite(row.error_estimate):
        return ""
    squares = 0.0
    for name, array in result.items():
        one = row_of(result, name, array, row.sample, row.place if result.prediction.ndim == 2 else None)
        squares += float((np.asarray(one, np.float64) ** 2).sum())
    if not squares:
        return ""
    share = 100 * row.error_estimate / np.sqrt(squares)
    remedy = " (--tolerance 0.01 goes on until it is small)" if share > _LARGE and result.tolerance is None else ""
    return f", estimated error {share:.2g} % of the attributions{remedy}"
