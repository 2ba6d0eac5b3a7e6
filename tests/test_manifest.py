"""Metadata of model files: what is written is read again, what is wrong is refused in words."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from onnx_ig.errors import ModelError, OptionError
from onnx_ig.manifest import FORMAT, KEYS, AttributedInput, Manifest, Metadata, Preprocessing, Vocabulary, read


def full() -> Metadata:
    return Metadata(
        manifest=Manifest(
            method="integrated_gradients",
            inputs={
                "x": AttributedInput("x_attribution_1"),
                "ids": AttributedInput("ids_attribution", kind="tokens", batch_axis=1),
                "s": AttributedInput("s_attribution", batch_axis=None),
            },
            output="logits",
            held=("mask",),
            target=(3, 10, 20),
            baselines={"x": 0.5, "ids": [0, 0], "s": "input"},
            n_steps=50,
            quadrature="gausslegendre",
            batchable=False,
            reason="the first dimension of 's' is fixed to 1",
            names={"x_attribution": "x_attribution_1"},
            notes={"calibrated": {"delta": 0.01}},
            version="0.1.0",
        ),
        preprocessing={"x": Preprocessing("NHWC", (224, 200), 256, "center", 1 / 255, (0.5, 0.4, 0.3), (0.2,) * 3)},
        labels=("cat", "Käse", "犬"),
        vocabulary=Vocabulary(("[pad]", "[unk]", "<s>", "good"), "[unk]", "[pad]", ("<s>",), True, r"\w+", start="<s>"),
        features={"s": ("age", "fare")},
    )


def test_round_trip() -> None:
    written = full().write()
    assert sorted(written) == [f"onnx_ig.{k}" for k in sorted(KEYS)]
    assert read(written) == full()
    assert read(written).write() == written


def test_the_keys_of_the_contract() -> None:
    written = full().write()
    manifest = json.loads(written["onnx_ig.manifest"])
    assert {"format", "version", "method", "inputs", "held", "output", "target", "baselines"} <= set(manifest)
    assert {"n_steps", "quadrature", "batchable", "reason"} <= set(manifest)
    assert manifest["format"] == FORMAT
    assert manifest["inputs"]["ids"] == {"attribution": "ids_attribution", "kind": "tokens", "batch_axis": 1}
    assert manifest["target"] == [3, 10, 20]
    image = json.loads(written["onnx_ig.preprocessing"])["x"]
    assert {"layout", "size", "resize", "crop", "scale", "mean", "std"} <= set(image)
    assert json.loads(written["onnx_ig.labels"]) == ["cat", "Käse", "犬"]
    vocabulary = json.loads(written["onnx_ig.vocabulary"])
    assert {"tokens", "unk", "pad", "hold", "lowercase", "split"} <= set(vocabulary)


def test_silence() -> None:
    assert Metadata().write() == {}
    assert read({}) == Metadata()
    assert read({"author": "{ not ours", "onnx.infer": "x"}) == Metadata()


def test_numpy_values_become_plain_ones() -> None:
    manifest = Manifest(
        "gradient", {"x": AttributedInput("a")}, "y", target=np.int64(3), baselines={"x": np.array([0.5, 1.0])}
    )
    found = read(Metadata(manifest).write()).manifest
    assert found is not None
    assert found.target == 3
    assert found.baselines == {"x": [0.5, 1.0]}


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("labels", "[cat", "not JSON"),
        ("labels", '"cat"', "list of texts"),
        ("labels", "[1, 2]", "one of them is 1"),
        ("labels", "{}", "list of texts"),
        ("preprocessing", "[]", "JSON object"),
        ("preprocessing", '{"x": 3}', "for 'x'.*JSON object"),
        ("preprocessing", '{"x": {"layuot": "NCHW"}}', "'layuot' is unknown; known are layout"),
        ("preprocessing", '{"x": {"layout": "NCCW"}}', "layout"),
        ("preprocessing", '{"x": {"std": [1, 0, 1]}}', "std must not be 0"),
        ("preprocessing", '{"x": {"mean": "a"}}', "mean must be a number"),
        ("preprocessing", '{"x": {"mean": [1, 2], "std": [1, 2, 3]}}', "mean has 2, std 3"),
        ("preprocessing", '{"x": {"mean": [1, 2, 3], "channels": "L"}}', "mean has 3"),
        ("preprocessing", '{"x": {"size": [1, 2, 3]}}', "size"),
        ("preprocessing", '{"x": {"resize": 0}}', "resize"),
        ("preprocessing", '{"x": {"crop": "left"}}', "crop"),
        ("preprocessing", '{"x": {"scale": NaN}}', "scale must be a number"),
        ("vocabulary", "{}", "'tokens' is missing"),
        ("vocabulary", '{"tokens": []}', "tokens is empty"),
        ("vocabulary", '{"tokens": ["a"], "unk": "b"}', "unk is 'b'"),
        ("vocabulary", '{"tokens": ["a"], "hold": ["b"]}', "hold names 'b'"),
        ("vocabulary", '{"tokens": ["a"], "split": "("}', "regular expression"),
        ("features", '{"x": "age"}', "list of texts"),
        ("features", "3", "JSON object"),
        ("manifest", "{}", "'method'.*missing"),
        ("manifest", '{"format": 99, "shape": "new"}', "update onnx_ig"),
        ("manifest", '{"method": "m", "inputs": {"x": {}}, "output": "y"}', "for 'x'.*'attribution' is missing"),
        ("manifest", '{"method": "m", "inputs": {"x": {"attribution": "a", "kind": "word"}}, "output": "y"}', "kind"),
        ("manifest", '{"method": "m", "inputs": {}, "output": "y", "target": "best"}', "target"),
        ("manifest", '{"method": "m", "inputs": {}, "output": "y", "n_steps": 0}', "n_steps"),
        ("manifest", '{"method": "m", "inputs": {}, "output": "y", "batchable": false}', "reason"),
        ("manifest", '{"method": "m", "inputs": {}, "output": "y", "baselines": {"x": 0}}', "not among the inputs"),
    ],
)
def test_wrong_entries_are_named(key: str, text: str, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        read({f"onnx_ig.{key}": text})
    assert f"onnx_ig.{key}" in str(caught.value)


def test_records_check_what_they_are_given() -> None:
    with pytest.raises(OptionError, match="AttributedInput"):
        Manifest("m", {"x": "a"}, "y")  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="JSON"):
        Metadata(Manifest("m", {"x": AttributedInput("a")}, "y", baselines={"x": np.nan})).write()
    with pytest.raises(dataclasses.FrozenInstanceError):
        Preprocessing().layout = "NHWC"  # type: ignore[misc]


def test_scale_follows_the_unit_of_mean_and_std() -> None:
    assert Preprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)).scale == 1 / 255
    assert Preprocessing(mean=(123.7, 116.3, 103.5)).scale == 1
    assert Preprocessing(mean=127, scale=2).scale == 2  # type: ignore[arg-type]


def test_sizes_may_be_one_number() -> None:
    entry = '{"x": {"size": 8, "crop": 6, "resize": [9, 10], "mean": 0.5}}'
    assert read({"onnx_ig.preprocessing": entry}).preprocessing["x"] == Preprocessing(
        size=(8, 8), crop=(6, 6), resize=(9, 10), mean=(0.5,)
    )
