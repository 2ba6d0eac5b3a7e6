"""The files of `sample_models/`: complete, within their budget, and computing what was recorded when they were made."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from tests.sessions import single_threaded

FOLDER = Path(__file__).parent.parent / "sample_models"
NAMES = ("digits", "efficientnet_lite0", "sentiment", "tumour")
# Quadrature leaves more over the kinks of ReLU than over a smooth function: what 50 steps reach, with a margin.
INTEGRATION = {"digits": 0.02, "efficientnet_lite0": 0.07, "sentiment": 1e-4, "tumour": 2e-4}
PREPARED = {"layout", "size", "resize", "crop", "scale", "mean", "std"}

Arrays = Mapping[str, NDArray[Any]]


@functools.cache
def model(name: str) -> onnx.ModelProto:
    return onnx.load(FOLDER / f"{name}.onnx")


@functools.cache
def session(name: str) -> ort.InferenceSession:
    return ort.InferenceSession(str(FOLDER / f"{name}.onnx"), single_threaded(), providers=["CPUExecutionProvider"])


def logits(name: str, feeds: Arrays) -> NDArray[np.float32]:
    return np.asarray(session(name).run(["logits"], dict(feeds))[0])


@functools.cache
def references(name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with np.load(FOLDER / "references" / f"{name}.npz", allow_pickle=False) as file:
        arrays = dict(file)
    return json.loads(str(arrays.pop("info"))), arrays


def metadata(name: str) -> dict[str, Any]:
    return {p.key: json.loads(p.value) for p in model(name).metadata_props}


def sample_inputs(name: str) -> dict[str, NDArray[Any]]:
    return {v.name: references(name)[1][f"input.{v.name}"] for v in model(name).graph.input}


def test_all_of_it_is_small() -> None:
    files = [p for p in FOLDER.rglob("*") if p.is_file()]
    assert {p.stem for p in FOLDER.glob("*.onnx")} == set(NAMES)
    assert sum(p.stat().st_size for p in files) < 15e6


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_plain(name: str) -> None:
    m = model(name)
    onnx.checker.check_model(m, full_check=True)
    assert [(o.domain, o.version) for o in m.opset_import] == [("", 18)]
    assert [o.name for o in m.graph.output] == ["logits"]
    for value in (*m.graph.input, *m.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "N"
    assert not any(n.doc_string or n.metadata_props for n in m.graph.node)
    assert not any(n.op_type in ("BatchNormalization", "Dropout", "Constant") for n in m.graph.node)
    assert m.doc_string


def test_large_weights_are_halves() -> None:
    weights = [t for t in model("efficientnet_lite0").graph.initializer if len(t.dims) >= 2]
    assert len(weights) == 50
    assert {t.data_type for t in weights} == {onnx.TensorProto.FLOAT16}


@pytest.mark.parametrize("name", NAMES)
def test_metadata(name: str) -> None:
    found = metadata(name)
    assert set(found) <= {f"onnx_ig.{k}" for k in ("preprocessing", "labels", "vocabulary", "features")}
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model(name).graph.input}
    assert len(found["onnx_ig.labels"]) == logits(name, sample_inputs(name)).shape[1]
    assert len(set(found["onnx_ig.labels"])) == len(found["onnx_ig.labels"])
    for key, spec in found.get("onnx_ig.preprocessing", {}).items():
        assert set(spec) == PREPARED
        assert spec["layout"] == "NCHW"
        assert [0, len(spec["mean"]), *spec["size"]] == shapes[key]
        assert len(spec["std"]) == len(spec["mean"])
    for key, names in found.get("onnx_ig.features", {}).items():
        assert shapes[key] == [0, len(set(names))]


def test_vocabulary() -> None:
    words = metadata("sentiment")["onnx_ig.vocabulary"]
    assert set(words) == {"tokens", "unk", "pad", "hold", "lowercase", "split"}
    table = next(t for t in model("sentiment").graph.initializer if t.name == "embedding.weight")
    assert table.dims[0] == len(words["tokens"]) == len(set(words["tokens"]))
    assert {words["unk"], words["pad"], *words["hold"]} <= set(words["tokens"])
    assert not onnx.numpy_helper.to_array(table)[words["tokens"].index(words["pad"])].any()


def prepare(path: Path, spec: Mapping[str, Any]) -> NDArray[np.float32]:
    image = pytest.importorskip("PIL.Image")
    with image.open(path) as file:
        picture = file.convert("L" if len(spec["mean"]) == 1 else "RGB")
    shorter = min(picture.size)
    if shorter != spec["resize"]:
        picture = picture.resize([round(s * spec["resize"] / shorter) for s in picture.size], image.Resampling.BICUBIC)
    pixels = np.asarray(picture, np.float64).reshape(picture.height, picture.width, -1)
    top, left = (np.subtract(pixels.shape[:2], spec["size"]) // 2).tolist()
    pixels = pixels[top : top + spec["size"][0], left : left + spec["size"][1]]
    return ((pixels * spec["scale"] - spec["mean"]) / spec["std"]).transpose(2, 0, 1)[None].astype(np.float32)


def shipped_feeds(name: str, prediction: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    found = metadata(name)
    if "text" in prediction:
        words = found["onnx_ig.vocabulary"]
        text = prediction["text"].lower() if words["lowercase"] else prediction["text"]
        index = {t: i for i, t in enumerate(words["tokens"])}
        return {"ids": np.array([[index.get(w, index[words["unk"]]) for w in re.findall(words["split"], text)]])}
    feeds: dict[str, NDArray[Any]] = {}
    for key, file in prediction["files"].items():
        if file.endswith(".csv"):
            feeds[key] = np.loadtxt(FOLDER / file, np.float32, delimiter=",", ndmin=2)
        else:
            feeds[key] = prepare(FOLDER / file, found["onnx_ig.preprocessing"][key])
    return feeds


@pytest.mark.parametrize("name", NAMES)
def test_shipped_inputs_give_the_recorded_predictions(name: str) -> None:
    labels = metadata(name)["onnx_ig.labels"]
    for prediction in references(name)[0]["predictions"]:
        scores = logits(name, shipped_feeds(name, prediction))[0]
        assert labels[int(scores.argmax())] == prediction["label"]
        assert int(scores.argmax()) == prediction["index"]
        # Another decoder of JPEG may round pixels differently.
        assert scores.max() == pytest.approx(prediction["score"], abs=0.05)


def test_shipped_files_are_the_reference_rows() -> None:
    photo = shipped_feeds("efficientnet_lite0", references("efficientnet_lite0")[0]["predictions"][0])
    np.testing.assert_allclose(photo["image"], sample_inputs("efficientnet_lite0")["image"], atol=2.1 / 128)
    with np.load(FOLDER / "tumour.npz", allow_pickle=False) as rows:
        for key, values in sample_inputs("tumour").items():
            np.testing.assert_array_equal(rows[key], values)
    lines = (FOLDER / "sentiment.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [p["text"] for p in references("sentiment")[0]["predictions"]]


def test_padding_changes_nothing() -> None:
    ids = sample_inputs("sentiment")["ids"]
    longer = np.pad(ids, [(0, 0), (0, 7)])
    np.testing.assert_allclose(logits("sentiment", {"ids": longer}), logits("sentiment", {"ids": ids}), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_references_belong_to_the_file(name: str) -> None:
    info, arrays = references(name)
    assert info["sha256"] == hashlib.sha256((FOLDER / f"{name}.onnx").read_bytes()).hexdigest()
    assert {"torch", "captum", "onnx", "onnxruntime", "numpy"} <= set(info["packages"])
    inputs = sample_inputs(name)
    scores = logits(name, inputs)
    np.testing.assert_allclose(scores, arrays["logits"], atol=1e-4)
    np.testing.assert_array_equal(scores.argmax(1), arrays["target"])
    for method in info["methods"]:
        for key, value in inputs.items():
            stored = arrays[f"{method}.{key}"]
            assert stored.dtype == np.float32
            assert stored.shape[: value.ndim] == value.shape
            assert np.isfinite(stored).all()
            if name != "efficientnet_lite0":
                np.testing.assert_allclose(stored, arrays[f"{method}.{key}.float64"], rtol=1e-4, atol=1e-5)


def complete_methods() -> list[tuple[str, str]]:
    return [(n, m) for n in NAMES for m, s in references(n)[0]["methods"].items() if s["complete"]]


@pytest.mark.parametrize(("name", "method"), complete_methods())
def test_references_are_complete(name: str, method: str) -> None:
    info, arrays = references(name)
    inputs, rows = sample_inputs(name), np.arange(len(arrays["target"]))
    if info["methods"][method].get("baseline") == "baseline_unk":
        reference: Arrays = {"ids": arrays["baseline_unk.ids"]}
    else:
        # Padding has the zero embedding, so zeros are the zero baseline of the tokens too.
        reference = {k: np.zeros_like(v) for k, v in inputs.items()}
    change = (logits(name, inputs) - logits(name, reference))[rows, arrays["target"]]
    total = sum(arrays[f"{method}.{k}"].reshape(len(rows), -1).astype(np.float64).sum(1) for k in inputs)
    tolerance = 1e-5 if method == "deeplift" else INTEGRATION[name]
    np.testing.assert_allclose(total, change, rtol=tolerance, atol=1e-5)


@pytest.mark.parametrize("name", ["digits", "tumour"])
def test_reference_gradients_are_slopes_of_the_file(name: str) -> None:
    """The largest entry of each row's gradient against a central difference through ONNX Runtime."""
    _, arrays = references(name)
    inputs, rows, step = sample_inputs(name), np.arange(len(arrays["target"])), 1e-3
    key = next(iter(inputs))
    gradient = arrays[f"gradient.{key}"].reshape(len(rows), -1)
    largest = np.abs(gradient).argmax(1)
    sides = []
    for sign in (step, -step):
        moved = inputs[key].copy()
        moved.reshape(len(rows), -1)[rows, largest] += sign
        sides.append(logits(name, {**inputs, key: moved})[rows, arrays["target"]].astype(np.float64))
    np.testing.assert_allclose((sides[0] - sides[1]) / (2 * step), gradient[rows, largest], rtol=0.03, atol=1e-3)
