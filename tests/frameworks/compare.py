"""What is compared with a framework's own autodiff, and how closely. Knows no framework.

Each framework is tested in a process of its own, `pytest -m framework tests/frameworks/torch` and so on: TensorFlow,
PyTorch and JAX bring protobuf and thread pools that do not always share one.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import onnx_ig
from tests.sessions import single_threaded

FRAMEWORKS = ("torch", "tensorflow", "jax")
METHODS = ("integrated_gradients", "gradient")
STEPS = 16

Array = NDArray[Any]
Target = Sequence[tuple[int, ...]]


def alone(framework: str, *packages: str) -> None:
    """Skip the module unless the packages are there and no other framework is loaded in this process."""
    others = [name for name in FRAMEWORKS if name != framework and name in sys.modules]
    if others:
        pytest.skip(
            f"{others[0]} is loaded in this process: run pytest -m framework tests/frameworks/{framework} by itself",
            allow_module_level=True,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for package in (framework, *packages):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed", allow_module_level=True)
            importlib.import_module(package)


def explained(
    model: onnx.ModelProto,
    feeds: Mapping[str, Array],
    target: Target,
    method: str = "integrated_gradients",
    steps: int = STEPS,
    **options: Any,
) -> dict[str, Array]:
    """{input: attribution} by onnx_ig, one target a sample; of a token input by embedding dimension."""
    with warnings.catch_warnings():
        # Random networks have scores at zero and large deltas; what is compared is the sum over the same points.
        warnings.simplefilter("ignore", onnx_ig.OnnxIgWarning)
        explainer = onnx_ig.Explainer(model, method, session_options=single_threaded(), **options)
        entries = np.array(target)
        found = explainer.attribute(feeds, target=entries[:, 0] if entries.shape[1] == 1 else entries, n_steps=steps)
    return {**found.attributions, **found.full}


def integrated(
    gradient: Callable[[list[Array]], Sequence[Array]], points: Sequence[Array], steps: int = STEPS
) -> list[Array]:
    """Integrated gradients from zero by Gauss-Legendre quadrature, of any gradient function of all inputs at once."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    totals = [np.zeros(x.shape) for x in points]
    for alpha, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        slopes = gradient([(alpha * x).astype(x.dtype) for x in points])
        totals = [t + weight * np.asarray(s, np.float64) for t, s in zip(totals, slopes, strict=True)]
    return [t * x for t, x in zip(totals, points, strict=True)]


def largest(output: Array) -> list[tuple[int, ...]]:
    """The largest entry of each sample [N, ...]."""
    return [tuple(map(int, np.unravel_index(int(row.argmax()), row.shape))) for row in output]


def cotangent(output: Array, target: Target) -> Array:
    """One at each sample's target, zero elsewhere."""
    ones = np.zeros_like(output)
    for sample, entry in enumerate(target):
        ones[(sample, *entry)] = 1
    return ones


def agree(
    found: Mapping[str, Array], expected: Mapping[str, Array], *, smooth: bool = True, bound: float = 1e-4
) -> None:
    """Entry by entry within `bound` of the largest one.

    Where there are kinks, a decision near one can fall the other way in float32: there within 1e-3 by L2.
    """
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        given = found[name]
        assert given.shape == right.shape, name
        assert np.abs(right).max() > 1e-6, f"{name}: nothing to compare"
        off = np.abs(given - right).max() / np.abs(right).max()
        apart = np.linalg.norm(given - right) / np.linalg.norm(right)
        assert off <= bound if smooth else apart <= 1e-3, f"{name}: {off:.1e} of the largest, {apart:.1e} by L2"
