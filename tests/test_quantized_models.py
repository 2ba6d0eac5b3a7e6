"""Trained networks as quantisers and optimisers write them: attributions are those of the plain export.

The networks are those in sample_models; the reference is the plain file's own attribution, which other tests compare
with autograd.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import onnx_ig
from onnx_ig.errors import UnsupportedOperatorError
from tests.quantizing import FORMS, optimised, quantised

pytestmark = [  # that a baseline scores high, and how far from complete an estimate is, is told honestly
    pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning"),
    pytest.mark.filterwarnings("ignore:attributions of:onnx_ig.OnnxIgWarning"),
]

FOLDER = Path(__file__).parents[1] / "sample_models"
STEPS = 12

MODELS = {
    "cnn": ("frameworks/cnn_torch_dynamo.onnx", "frameworks/cnn_torch.npz"),
    "lstm": ("frameworks/lstm_torch_torchscript.onnx", "frameworks/lstm_torch.npz"),
    "attention": ("frameworks/attention_torch_dynamo.onnx", "frameworks/attention_torch.npz"),
    "tokens": ("sentiment.onnx", "sentiment.npz"),
    "two inputs": ("tumour.onnx", "tumour.npz"),
}


@cache
def samples(name: str) -> tuple[Path, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """(file, feeds of 3 samples, targets, integrated gradients as rows)."""
    file, reference = MODELS[name]
    stored = np.load(FOLDER / "references" / reference)
    session = ort.InferenceSession(str(FOLDER / file), providers=["CPUExecutionProvider"])
    feeds = {
        i.name: stored[f"input.{i.name}"][:3].astype(np.int64 if "int64" in i.type else np.float32)
        for i in session.get_inputs()
    }
    result = onnx_ig.Explainer(FOLDER / file).attribute(feeds, n_steps=STEPS)
    return FOLDER / file, feeds, result.target, rows(result)


def rows(result: Any) -> np.ndarray:
    return np.concatenate([result[n].astype(np.float64).reshape(len(result[n]), -1) for n in result], axis=1)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


CASES = [
    *(("cnn", form) for form in FORMS[:-2]),
    *(("attention", form) for form in ("QDQ", "QOperator of bytes", "dynamic", "weights of 4 bits")),
    ("lstm", "dynamic"),
    *(("tokens", form) for form in ("QDQ", "dynamic", "weights of 4 bits")),
    *(("two inputs", form) for form in ("QOperator", "dynamic")),
]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_attributions_of_the_quantised_model(name: str, form: str, tmp_path: Path) -> None:
    path, feeds, target, expected = samples(name)
    file = quantised(path, form, feeds, tmp_path)
    result = onnx_ig.Explainer(file).attribute(feeds, n_steps=STEPS, target=target)
    assert cosine(rows(result), expected).min() > 0.97
    told = [n for n in result.notes if "straight-through" in n]
    assert bool(told) is not form.startswith("weights")
    alone = onnx_ig.Explainer(file).attribute({n: a[1:2] for n, a in feeds.items()}, n_steps=STEPS, target=target[1:2])
    difference = np.abs(rows(alone)[0] - rows(result)[1]).max()
    assert difference <= 1e-4 * np.abs(rows(alone)).max()


@pytest.mark.parametrize("form", ["QDQ", "dynamic"])
def test_refused_on_demand(form: str, tmp_path: Path) -> None:
    path, feeds, _, _ = samples("cnn")
    file = quantised(path, form, feeds, tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="quantized='straight-through'"):
        onnx_ig.Explainer(file, quantized="refuse")
    with pytest.raises(UnsupportedOperatorError, match="quantized='straight-through'"):
        onnx_ig.rewrite(file, quantized="refuse")
    assert not onnx_ig.inspect(file, quantized="refuse").ok
    report = onnx_ig.inspect(file)
    assert report.ok
    assert "note: straight-through estimate" in str(report)


def test_the_one_file_form_says_so(tmp_path: Path) -> None:
    path, feeds, target, expected = samples("cnn")
    file = quantised(path, "QDQ", feeds, tmp_path)
    model = onnx_ig.rewrite(file, n_steps=STEPS, target="input")
    (manifest,) = (p.value for p in model.metadata_props if p.key == "onnx_ig.manifest")
    assert "straight-through estimate" in manifest
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, {**feeds, "target": target}), strict=True))
    assert cosine(outputs["image_attribution"].reshape(3, -1), expected).min() > 0.97
    plain = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    np.testing.assert_allclose(outputs["logits"], plain, atol=0.05 * np.abs(plain).max())


def test_weights_alone_are_exact(tmp_path: Path) -> None:
    """Nothing is estimated where only weights are quantised: differences of the file itself agree."""
    path, feeds, _, _ = samples("attention")
    file = quantised(path, "weights of 8 bits", feeds, tmp_path)
    assert onnx_ig.check(file, feeds, quantized="refuse").ok


@pytest.mark.parametrize("form", ["QDQ", "dynamic"])
def test_check_looks_over_the_steps_of_a_quantised_model(form: str, tmp_path: Path) -> None:
    path, feeds, _, _ = samples("cnn")
    report = onnx_ig.check(quantised(path, form, feeds, tmp_path), feeds)
    assert report.ok
    assert report.tolerance == 0.6
    assert "straight-through" in str(report)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("level", ["BASIC", "EXTENDED", "ALL"])
def test_optimised_files(name: str, level: str, tmp_path: Path) -> None:
    """The same attributions, or, where the runtime wrote its own blocked layout, a refusal that says what to do."""
    path, feeds, target, expected = samples(name)
    file = optimised(path, level, tmp_path)
    if any(n.domain == "com.microsoft.nchwc" for n in onnx.load(file).graph.node):
        assert level == "ALL"
        with pytest.raises(UnsupportedOperatorError, match=r"blocked layout.*EXTENDED or lower"):
            onnx_ig.Explainer(file)
        return
    result = onnx_ig.Explainer(file).attribute(feeds, n_steps=STEPS, target=target)
    np.testing.assert_allclose(rows(result), expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("form", "level"), [("QDQ", "EXTENDED"), ("QDQ", "ALL"), ("dynamic", "EXTENDED")])
def test_optimised_after_quantisation(form: str, level: str, tmp_path: Path) -> None:
    """QLinearConv with channels last, DynamicQuantizeMatMul and the like."""
    path, feeds, target, expected = samples("cnn")
    quantised(path, form, feeds, tmp_path)
    file = optimised(tmp_path / "quantised.onnx", level, tmp_path)
    assert any(n.domain == "com.microsoft" for n in onnx.load(file).graph.node)
    result = onnx_ig.Explainer(file).attribute(feeds, n_steps=STEPS, target=target)
    assert cosine(rows(result), expected).min() > 0.97


@pytest.mark.parametrize("name", ["cnn", "lstm"])
def test_rows_that_share_a_scale_run_alone(name: str, tmp_path: Path) -> None:
    """Also where a probe of two equal rows would find nothing."""
    path, feeds, target, _ = samples(name)
    file = quantised(path, "dynamic", feeds, tmp_path)
    assert "batch: one row a run: DynamicQuantize" in str(onnx_ig.inspect(file))
    explainer = onnx_ig.Explainer(file)
    twice = {n: np.repeat(a[:1], 2, axis=0) for n, a in feeds.items()}
    explainer.attribute(twice, n_steps=2, target=target[:1].repeat(2, axis=0))
    assert explainer.batching.fixed == 1
    loud = {n: np.concatenate([a[:1], 5 * a[1:2]]) for n, a in feeds.items()}
    together = explainer.attribute(loud, n_steps=STEPS, target=target[:2])
    alone = explainer.attribute({n: a[:1] for n, a in loud.items()}, n_steps=STEPS, target=target[:1])
    np.testing.assert_array_equal(rows(together)[0], rows(alone)[0])
    model = onnx_ig.rewrite(file, n_steps=2)
    assert '"batchable": false' in next(p.value for p in model.metadata_props if p.key == "onnx_ig.manifest")
