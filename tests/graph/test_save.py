"""Files appear whole or not at all, with their weights beside them where these are large or were there already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper

import onnx_ig
from onnx_ig.errors import ModelError
from onnx_ig.graph import save as saving
from onnx_ig.graph.load import load
from onnx_ig.graph.save import save, to_proto
from tests.graph.test_load import W, X, external, model_with_weight

__all__ = ["external"]


def run_file(path: Path) -> np.ndarray:
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]


def files(folder: Path) -> list[str]:
    return sorted(f.name for f in folder.iterdir())


def test_a_small_model_is_one_file(tmp_path: Path) -> None:
    save(load(model_with_weight()), tmp_path / "out.onnx")
    assert files(tmp_path) == ["out.onnx"]
    np.testing.assert_allclose(run_file(tmp_path / "out.onnx"), X @ W, rtol=1e-6)


def test_weights_that_were_beside_stay_beside(external: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    save(load(external), target / "out.onnx")
    assert files(target) == ["out.onnx", "out.onnx.data"]
    target.rename(tmp_path / "elsewhere")
    np.testing.assert_allclose(run_file(tmp_path / "elsewhere" / "out.onnx"), X @ W, rtol=1e-6)


def test_large_weights_go_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "PROTO_LIMIT", 1000)
    model = load(model_with_weight())
    with pytest.raises(ModelError, match="give save_as=PATH"):
        to_proto(model)
    save(model, tmp_path / "out.onnx")
    assert files(tmp_path) == ["out.onnx", "out.onnx.data"]
    np.testing.assert_allclose(run_file(tmp_path / "out.onnx"), X @ W, rtol=1e-6)


def test_the_model_in_memory_is_not_changed(external: Path, tmp_path: Path) -> None:
    model = load(external)
    tensor = model.graph.initializers["w"].const_value
    save(model, tmp_path / "out.onnx")
    assert model.graph.initializers["w"].const_value is tensor


def test_a_model_over_its_own_files(external: Path) -> None:
    original = external.parent / "m.onnx.data"
    (external.parent / "m.bin").rename(original)
    proto = onnx.load(external, load_external_data=False)
    next(e for e in proto.graph.initializer[0].external_data if e.key == "location").value = original.name
    proto.graph.initializer.insert(0, onnx.numpy_helper.from_array(np.zeros(500, np.float32), "unused"))
    external.write_bytes(proto.SerializeToString())
    model = load(external)
    save(model, external)
    np.testing.assert_allclose(run_file(external), X @ W, rtol=1e-6)
    inside = to_proto(model)  # the weights' places in the new file are others; memory still holds the old ones
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(inside.graph.initializer[1]), W)


@pytest.mark.parametrize("name", ["m.bin", "out.onnx"])
def test_weights_of_the_model_that_is_read_are_not_written_over(external: Path, name: str) -> None:
    if name == "out.onnx":  # its data file would be the one that the model reads
        (external.parent / "m.bin").rename(external.parent / "out.onnx.data")
        proto = onnx.load(external, load_external_data=False)
        next(e for e in proto.graph.initializer[0].external_data if e.key == "location").value = "out.onnx.data"
        external.write_bytes(proto.SerializeToString())
    before = files(external.parent)
    with pytest.raises(ModelError, match="holds weights of the model that is read"):
        onnx_ig.add_gradients(external, save_as=external.parent / name)
    assert files(external.parent) == before
    np.testing.assert_allclose(run_file(external), X @ W, rtol=1e-6)


def test_gradients_of_a_model_over_its_own_files(external: Path) -> None:
    returned = onnx_ig.add_gradients(external, save_as=external)
    session = ort.InferenceSession(external, providers=["CPUExecutionProvider"])
    feeds = {"x": X, "grad_y": np.ones((2, 200), np.float32)}
    (gradient,) = session.run(["grad_x"], feeds)
    np.testing.assert_allclose(gradient, np.ones((2, 200)) @ W.T, rtol=1e-4)
    again = ort.InferenceSession(returned.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(again.run(["grad_x"], feeds)[0], gradient)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_in_the_middle_leaves_the_old_files(
    external: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "out.onnx").write_bytes(b"old model")
    (target / "out.onnx.data").write_bytes(b"old data")
    replace, moved = os.replace, []

    def fail(source: Any, destination: Any) -> None:
        if Path(destination).parent == target and "before" not in str(source):
            moved.append(destination)
            if len(moved) > failing:
                raise OSError(28, "No space left on device")
        replace(source, destination)

    model = load(external)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ModelError, match="No space left"):
        save(model, target / "out.onnx")
    assert files(target) == ["out.onnx", "out.onnx.data"]
    assert (target / "out.onnx").read_bytes() == b"old model"
    assert (target / "out.onnx.data").read_bytes() == b"old data"


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ir, "save", fail)
    with pytest.raises(ModelError, match=r"out\.onnx cannot be written"):
        save(load(model_with_weight()), tmp_path / "out.onnx")
    assert files(tmp_path) == []


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    model = load(model_with_weight())
    with pytest.raises(ModelError, match="there is no folder"):
        save(model, tmp_path / "missing" / "out.onnx")
    with pytest.raises(ModelError, match="it is a folder"):
        save(model, tmp_path)


def test_what_the_model_says_about_itself_survives(tmp_path: Path) -> None:
    proto = model_with_weight()
    proto.producer_name, proto.doc_string = "me", "about"
    helper.set_model_props(proto, {"labels": "cat"})
    save(load(proto), tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    assert (written.producer_name, written.doc_string) == ("me", "about")
    assert {p.key: p.value for p in written.metadata_props} == {"labels": "cat"}


def test_a_large_model_is_delivered_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of a message `save_as` is the way: the message returned names the weights by file."""
    monkeypatch.setattr("onnx_ig.graph.save.PROTO_LIMIT", 100)
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N,16] x) => (float[N,16] y) <float[16,16] w> { y = MatMul(x, w) }'
    model = onnx.parser.parse_model(text)
    del model.graph.value_info[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(16, dtype=np.float32), "w"))
    with pytest.raises(ModelError, match="save_as"):
        onnx_ig.add_gradients(model)
    told = onnx_ig.add_gradients(model, save_as=tmp_path / "large.onnx")
    assert told.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL
    session = ort.InferenceSession(tmp_path / "large.onnx")
    x = np.ones((2, 16), np.float32)
    assert session.run(["grad_x"], {"x": x, "grad_y": 3 * x})[0].tolist() == (3 * x).tolist()
