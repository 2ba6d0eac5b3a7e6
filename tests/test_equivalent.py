"""One function in several files has one attribution: batch norm folded or not, optimised by ONNX Runtime or not."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import onnx_ig
from tests.sessions import optimised, single_threaded

FOLDER = Path(__file__).parent.parent / "sample_models"
# Networks with kinks by L2, since single decisions fall the other way in float32; smooth ones entry by entry.
SMOOTH = {"sentiment": True, "tumour": True, "digits": False, "frameworks/cnn_torch_dynamo": True}

Array = NDArray[Any]


def reference(name: str) -> dict[str, Array]:
    with np.load(FOLDER / "references" / f"{name.replace('_dynamo', '')}.npz", allow_pickle=False) as file:
        return dict(file)


def explained(model: Any, name: str) -> dict[str, Array]:
    stored = reference(name)
    feeds = {k.removeprefix("input."): v for k, v in stored.items() if k.startswith("input.")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnx_ig.OnnxIgWarning)
        found = onnx_ig.Explainer(model, session_options=single_threaded()).attribute(feeds, target=stored["target"])
    return {**found.attributions, **found.full}


@functools.cache
def original(name: str) -> dict[str, Array]:
    return explained(FOLDER / f"{name}.onnx", name)


def assert_equal(found: dict[str, Array], name: str) -> None:
    assert found.keys() == original(name).keys()
    for key, right in original(name).items():
        if SMOOTH[name]:
            assert np.abs(found[key] - right).max() <= 1e-5 * np.abs(right).max(), key
        else:
            assert np.linalg.norm(found[key] - right) <= 1e-3 * np.linalg.norm(right), key


@pytest.mark.parametrize("level", ["BASIC", "EXTENDED"])
@pytest.mark.parametrize("name", SMOOTH)
def test_optimised_or_not(name: str, level: str, tmp_path: Path) -> None:
    assert_equal(explained(optimised(FOLDER / f"{name}.onnx", level, tmp_path), name), name)


def with_norms(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same function with a BatchNormalization behind every Conv, whose weights make up for it."""
    rng = np.random.default_rng(0)
    stored = {t.name: t for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type != "Conv":
            continue
        weight, bias = (numpy_helper.to_array(stored[n]).astype(np.float64) for n in node.input[1:3])
        count = len(bias)
        scale, shift, mean = rng.uniform(0.5, 2, count), rng.uniform(-1, 1, count), rng.uniform(-1, 1, count)
        variance = rng.uniform(0.5, 2, count)
        spread = np.sqrt(variance + 1e-5) / scale
        changed = (weight * spread[:, None, None, None], (bias - shift) * spread + mean)
        for name, value in zip(node.input[1:3], changed, strict=True):
            stored[name].CopyFrom(numpy_helper.from_array(value.astype(np.float32), name))
        result = node.output[0]
        node.output[0] = f"{result}.raw"
        parts = {f"{result}.{i}": v for i, v in enumerate((scale, shift, mean, variance))}
        model.graph.initializer.extend(numpy_helper.from_array(v.astype(np.float32), k) for k, v in parts.items())
        nodes.append(helper.make_node("BatchNormalization", [node.output[0], *parts], [result], epsilon=1e-5))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("name", ["digits", "frameworks/cnn_torch_dynamo"])
def test_batch_norm_folded_or_not(name: str) -> None:
    model = with_norms(onnx.load(FOLDER / f"{name}.onnx"))
    assert sum(n.op_type == "BatchNormalization" for n in model.graph.node) == 2
    assert_equal(explained(model, name), name)
