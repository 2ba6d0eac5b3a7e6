"""What the framework samples share: the digits, the quadrature, the weights' file, how a reference is written.

Weights are named and laid out as PyTorch has them; every other framework brings them into its own layout. Numpy, onnx
and ONNX Runtime alone, because TensorFlow, PyTorch and JAX do not share a process.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from .. import files

Array = NDArray[Any]
Weights = dict[str, Array]
Gradient = Callable[[Array], Array]

NETWORKS = ("cnn", "lstm", "attention")
STEPS = 50
WIDTH, HEADS = 16, 2  # of the attention network
UNITS = 24  # of the LSTM
EPSILON = 1e-5
LABELS = [str(d) for d in range(10)]
DOC = "Handwritten digits, 8x8, white on black; trained on scikit-learn's copy of the UCI set (CC BY 4.0). {}"
PREPROCESSING = {"size": [8, 8], "resize": 8, "crop": "center", "scale": 1 / 255, "mean": [0.0], "std": [1.0]}


def digits() -> tuple[Array, Array, Array, Array]:
    """(images float32 [., 8, 8] of 0 to 1, classes, rows to train on, one held-out row of each class)."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    pixels = np.rint(data.images * (255 / 16))
    images = (pixels / 255).astype(np.float32)
    train, test = train_test_split(np.arange(len(images)), test_size=0.25, random_state=0, stratify=data.target)
    rows = np.array([test[data.target[test] == digit][0] for digit in range(10)])
    return images, data.target, train, rows


def integrated(gradient: Gradient, x: Array) -> Array:
    """Integrated gradients from zero by Gauss-Legendre quadrature, of the gradient of all rows [N, ...] at once."""
    nodes, weights = np.polynomial.legendre.leggauss(STEPS)
    total = np.zeros(x.shape)
    for alpha, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        total += weight * np.asarray(gradient(alpha * x), np.float64)
    return total * x


def write(
    folder: Path,
    name: str,
    framework: str,
    exports: Mapping[str, onnx.ModelProto],
    rows: Mapping[str, Array],
    logits: Array,
    references: Mapping[str, Array],
    packages: Sequence[str],
    method: str,
    output: str = "logits",
) -> list[str]:
    """Write `frameworks/<name>_<export>.onnx` for every export and `references/frameworks/<name>_<framework>.npz`.

    `rows` is the input by name, `logits` the framework's own output in float64, `references` the attributions in float64
    of the largest output. Raises ValueError where ONNX Runtime's output differs from the framework's. Returns lines.
    """
    said, hashes = [], {}
    (folder / "frameworks").mkdir(parents=True, exist_ok=True)
    for export, model in exports.items():
        path = folder / "frameworks" / f"{name}_{export}.onnx"
        files.strip(model)
        metadata: dict[str, object] = {"labels": LABELS}
        for key, value in rows.items():
            if value.ndim == 4:
                layout = "NCHW" if value.shape[1] == 1 else "NHWC"
                metadata["preprocessing"] = {key: {"layout": layout, **PREPROCESSING}}
        files.save(model, path, DOC.format(method), metadata)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        difference = float(np.abs(files.run(path, rows, output) - logits).max())
        if not difference <= 1e-4:
            raise ValueError(f"{path.name} differs from {framework} by {difference:.2e}")
        hashes[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        said.append(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB, against {framework} {difference:.1e}")
    info = {
        "files": hashes,
        "framework": framework,
        "method": method,
        "steps": STEPS,
        "python": platform.python_version(),
        "packages": {p: importlib.metadata.version(p) for p in packages},
    }
    reference = folder / "references" / "frameworks" / f"{name}_{framework}.npz"
    reference.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"info": np.array(json.dumps(info, indent=1)), "logits": logits, "target": logits.argmax(1)}
    arrays |= {f"input.{k}": v for k, v in rows.items()} | dict(references)
    np.savez_compressed(reference, allow_pickle=False, **arrays)
    return said


def attributions(gradient: Gradient, name: str, x: Array) -> dict[str, Array]:
    """{<method>.<input>: attribution} of a gradient function in float64."""
    wide = x.astype(np.float64)
    return {
        f"integrated_gradients.{name}": integrated(gradient, wide),
        f"gradient.{name}": np.asarray(gradient(wide), np.float64),
    }
