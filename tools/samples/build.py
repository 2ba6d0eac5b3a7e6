"""The common end of every sample: save, check, compute references, report one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from torch import nn

from . import files, onnx_file, references
from .packages import versions


@dataclass(frozen=True)
class Sample:
    """A trained module with everything that goes into its files.

    `inputs` are the reference rows, already prepared; `shipped` says for each row of `shipped_inputs` what files or
    text it was prepared from, so that a test can compare its own preparation and prediction.
    """

    name: str
    module: nn.Module
    model: onnx.ModelProto
    doc: str
    metadata: Mapping[str, Any]
    inputs: Mapping[str, NDArray[Any]]
    baselines: Mapping[str, NDArray[Any]]
    methods: Mapping[str, references.Method]
    shipped: Sequence[Mapping[str, object]]
    shipped_inputs: Mapping[str, NDArray[Any]]
    facts: Mapping[str, object] = field(default_factory=dict)
    extra_arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    compact: bool = False  # shortened float32 references alone, for large inputs


def finish(sample: Sample, folder: Path) -> str:
    """Write `<name>.onnx` and `references/<name>.npz` into `folder`; returns one line to print.

    Raises ValueError where ONNX Runtime and PyTorch disagree on the logits.
    """
    path = folder / f"{sample.name}.onnx"
    files.save(sample.model, path, sample.doc, sample.metadata)
    difference = onnx_file.check_against(sample.module, path, [sample.inputs, sample.baselines, sample.shipped_inputs])

    logits = files.run(path, sample.inputs)
    base = files.run(path, sample.baselines)
    target = logits.argmax(1).astype(np.int64)
    arrays = references.compute(sample.module, sample.inputs, target, sample.methods)
    described = _described(sample, arrays, logits, base, target)
    if sample.compact:
        arrays = {k: references.shorten(v) for k, v in arrays.items() if v.dtype == np.float32}

    labels = sample.metadata["labels"]
    outputs = files.run(path, sample.shipped_inputs)
    predictions = [
        {**what, "index": int(row.argmax()), "label": labels[int(row.argmax())], "score": float(row.max())}
        for what, row in zip(sample.shipped, outputs, strict=True)
    ]
    info = {
        "packages": versions(sample.name),
        "methods": described,
        "predictions": predictions,
        **sample.facts,
    }
    stored: references.Arrays = {f"input.{k}": v for k, v in sample.inputs.items()}
    stored |= {"target": target, "logits": logits, "baseline_logits": base, **sample.extra_arrays, **arrays}
    references.write(folder / "references" / f"{sample.name}.npz", path, stored, info)
    said = ", ".join(f"{p['label']} {p['score']:.2f}" for p in predictions)
    size = path.stat().st_size / 1024
    return f"{sample.name}: {size:.0f} KiB, against PyTorch {difference:.1e}; {dict(sample.facts)}; {said}"


def _described(
    sample: Sample,
    arrays: references.Arrays,
    logits: NDArray[np.float32],
    base: NDArray[np.float32],
    target: NDArray[np.int64],
) -> dict[str, object]:
    """Settings per method, its float32 noise, and the relative delta of captum's sums against ONNX Runtime's logits."""
    rows = np.arange(len(target))
    described: dict[str, object] = {}
    for name, method in sample.methods.items():
        text = method.described()
        text["float32_relative_l2"] = references.noise(arrays, name, list(sample.inputs))
        if method.complete and method.baseline == "zero":
            signal = [arrays[f"{name}.{k}"] for k in sample.inputs]
            text["relative_delta"] = references.relative_delta(signal, logits[rows, target], base[rows, target])
        described[name] = text
    return described
