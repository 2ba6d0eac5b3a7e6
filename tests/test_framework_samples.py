"""One network in the files of several frameworks: each as its framework's own autodiff has it, and all alike.

`sample_models/frameworks/`: a convolutional, a recurrent and an attention network with the same weights from both
exporters of PyTorch, from Keras and from JAX, and a perceptron of scikit-learn; the references were computed in float64.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

import onnx_ig
from tests.sessions import optimised, single_threaded

FOLDER = Path(__file__).parent.parent / "sample_models"
EXPORTS = ("torch_dynamo", "torch_torchscript", "keras", "jax")
NETWORKS = ("cnn", "lstm", "attention")
FILES = [*(f"{n}_{e}" for n, e in itertools.product(NETWORKS, EXPORTS)), "mlp_sklearn"]
METHODS = ("integrated_gradients", "gradient")

Array = NDArray[Any]


@functools.cache
def reference(name: str) -> dict[str, Array]:
    network, _, export = name.partition("_")
    path = FOLDER / "references" / "frameworks" / f"{network}_{export.split('_')[0]}.npz"
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def about(name: str) -> dict[str, Any]:
    return json.loads(str(reference(name)["info"]))


def path(name: str) -> Path:
    return FOLDER / "frameworks" / f"{name}.onnx"


def feeds(name: str) -> dict[str, Array]:
    return {k.removeprefix("input."): v for k, v in reference(name).items() if k.startswith("input.")}


def explained(model: Any, name: str, method: str) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_ig.OnnxIgWarning)  # a black image has a score of its own
        output = "probabilities" if name == "mlp_sklearn" else "logits"
        explainer = onnx_ig.Explainer(model, method, output=output, session_options=single_threaded())
        found = explainer.attribute(feeds(name), target=reference(name)["target"], n_steps=about(name)["steps"])
    (values,) = found.attributions.values()
    return values


@functools.cache
def ours(name: str, method: str) -> Array:
    return explained(path(name), name, method)


def distance(given: Array, right: Array) -> float:
    assert given.shape == right.shape
    return float(np.abs(given - right).max() / np.abs(right).max())


def one_layout(values: Array) -> Array:
    """Images with channels first or last, or rows of them, as [N, 8, 8]."""
    return values.reshape(len(values), 8, 8)


def test_files_and_references_belong_together() -> None:
    assert {p.stem for p in (FOLDER / "frameworks").glob("*.onnx")} == set(FILES)
    for name in FILES:
        assert about(name)["files"][path(name).name] == hashlib.sha256(path(name).read_bytes()).hexdigest()
    used = [p for folder in ("frameworks", "references/frameworks") for p in (FOLDER / folder).iterdir()]
    assert sum(p.stat().st_size for p in used) < 2e6


@pytest.mark.parametrize("name", FILES)
def test_the_file_computes_what_its_framework_did(name: str) -> None:
    session = ort.InferenceSession(str(path(name)), single_threaded(), providers=["CPUExecutionProvider"])
    output = session.run(["probabilities" if name == "mlp_sklearn" else "logits"], feeds(name))[0]
    np.testing.assert_allclose(output, reference(name)["logits"], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FILES)
def test_attributions_are_those_of_the_framework(name: str, method: str) -> None:
    (key,) = (k for k in reference(name) if k.startswith(f"{method}."))
    assert distance(ours(name, method), reference(name)[key]) < 1e-4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("network", NETWORKS)
def test_exports_of_one_network_agree(network: str, method: str) -> None:
    found = [one_layout(ours(f"{network}_{export}", method)) for export in EXPORTS]
    for given, right in itertools.combinations(found, 2):
        assert distance(given, right) < 1e-4


@pytest.mark.parametrize("level", ["BASIC", "EXTENDED"])
@pytest.mark.parametrize("name", FILES)
def test_optimised_or_not(name: str, level: str, tmp_path: Path) -> None:
    """The file as ONNX Runtime saves it after its graph optimisations, fused operators and all."""
    saved = onnx.load(optimised(path(name), level, tmp_path))
    fused = {node.op_type for node in saved.graph.node if node.domain == "com.microsoft"}
    assert fused or level == "BASIC" or not name.startswith("cnn"), "nothing was fused"
    found = explained(saved, name, "integrated_gradients")
    assert distance(found, ours(name, "integrated_gradients")) < 1e-5
