"""What can be read, and what is said about what cannot."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnx_ig.errors import ModelError
from onnx_ig.graph.load import load
from onnx_ig.graph.save import to_proto
from tests.graph.compare import run

W = np.arange(600, dtype=np.float32).reshape(3, 200) / 600
X = np.ones((2, 3), np.float32)


def model_with_weight() -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 200])],
        [numpy_helper.from_array(W, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture
def external(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(model_with_weight(), folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    return folder / "m.onnx"


def result(model: ir.Model) -> np.ndarray:
    return run(to_proto(model), {"x": X})[0]


def test_weights_beside_the_model_stay_mapped(external: Path) -> None:
    model = load(external)
    assert isinstance(model.graph.initializers["w"].const_value, ir.ExternalTensor)
    np.testing.assert_allclose(result(model), X @ W, rtol=1e-6)


def test_a_relative_path_and_another_working_directory(external: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(external.parent)
    model = load("m.onnx")
    monkeypatch.chdir("/")
    np.testing.assert_allclose(result(model), X @ W, rtol=1e-6)


def test_a_moved_folder(external: Path, tmp_path: Path) -> None:
    shutil.move(external.parent, tmp_path / "moved")
    np.testing.assert_allclose(result(load(tmp_path / "moved" / "m.onnx")), X @ W, rtol=1e-6)


def test_a_download_cache_of_links(external: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    for file, blob in ((external, "a1"), (external.parent / "m.bin", "b2")):
        shutil.move(file, blobs / blob)
        os.symlink(blobs / blob, snapshot / file.name)
    np.testing.assert_allclose(result(load(snapshot / "m.onnx")), X @ W, rtol=1e-6)


def test_a_link_to_the_model_alone(external: Path, tmp_path: Path) -> None:
    os.symlink(external, tmp_path / "link.onnx")
    np.testing.assert_allclose(result(load(tmp_path / "link.onnx")), X @ W, rtol=1e-6)


def test_a_missing_weight_file(external: Path) -> None:
    (external.parent / "m.bin").unlink()
    with pytest.raises(ModelError, match=r"the weight 'w' in the file 'm\.bin', which is not in .*keep the data file"):
        load(external)


def test_a_truncated_weight_file(external: Path) -> None:
    data = external.parent / "m.bin"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ModelError, match="which has 100 bytes and should have 2400"):
        load(external)


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname"])
def test_weights_outside_the_folder_are_not_read(external: Path, location: str) -> None:
    (external.parent.parent / "secret").write_bytes(b"x" * 2400)
    proto = onnx.load(external, load_external_data=False)
    next(e for e in proto.graph.initializer[0].external_data if e.key == "location").value = location
    external.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="outside its own folder"):
        load(external)


def test_a_proto_whose_weights_were_not_loaded(external: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = onnx.load(external, load_external_data=False)
    with pytest.raises(ModelError, match=r"the ModelProto given keeps the weight 'w' .*give the model by its path"):
        load(proto)
    monkeypatch.chdir(external.parent)
    np.testing.assert_allclose(result(load(proto)), X @ W, rtol=1e-6)


def test_weights_in_constant_nodes_are_found_too(external: Path) -> None:
    proto = onnx.load(external, load_external_data=False)
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.append(helper.make_attribute("value", proto.graph.initializer[0]))
    proto.graph.node.insert(0, constant)
    del proto.graph.initializer[:]
    external.write_bytes(proto.SerializeToString())
    model = load(external)
    np.testing.assert_array_equal(model.graph[0].attributes["value"].as_tensor().numpy(), W)


def test_every_kind_of_model_is_read_and_left_alone() -> None:
    proto = model_with_weight()
    before = proto.SerializeToString(deterministic=True)
    ours = ir.from_proto(proto)
    graph = gs.import_onnx(proto)
    for model in (proto, ours, graph):
        read = load(model)
        read.graph.initializers["w"].name = "renamed"
        read.graph[0].name = "renamed"
        np.testing.assert_allclose(result(read), X @ W, rtol=1e-6)
    assert proto.SerializeToString(deterministic=True) == before
    assert list(ours.graph.initializers) == ["w"]
    assert ours.graph[0].name == "product"
    assert graph.nodes[0].name == "product"


def test_sparse_weights() -> None:
    dense = np.array([[0, 2, 0], [0, 0, 3]], np.float32)
    flat = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([2, 3], np.float32), "w"), numpy_helper.from_array(np.array([1, 5])), [2, 3]
    )
    places = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([2, 3], np.float32), "v"),
        numpy_helper.from_array(np.array([[0, 1], [1, 2]])),
        [2, 3],
    )
    nodes = [
        helper.make_node("Constant", [], ["c"], sparse_value=flat),
        helper.make_node("Sum", ["w", "v", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        sparse_initializer=[flat, places],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    np.testing.assert_array_equal(run(to_proto(load(proto)), {})[0], 3 * dense)
    assert len(proto.graph.sparse_initializer) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"hello, this is no model\n" * 20, "is not an ONNX model"),
        (bytes(range(256)) * 4, "is not an ONNX model"),
        (b"PK\x03\x04" + b"\0" * 100, "zip archive"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 100, "HDF5"),
        (b"\x00\x00\x00\x00ORTM" + b"\0" * 100, "ORT format"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "it holds no graph"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(content)
    with pytest.raises(ModelError, match=words):
        load(file)


def test_text_that_is_no_model(tmp_path: Path) -> None:
    for name in ("m.json", "m.textproto", "m.onnxtxt"):
        (tmp_path / name).write_text("not this")
        with pytest.raises(ModelError, match="is not an ONNX model"):
            load(tmp_path / name)


def test_a_folder_a_missing_file_and_other_objects(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(ModelError, match="there is no file"):
        load(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="not dict"):
        load({})  # type: ignore[arg-type]


def test_a_graph_that_names_a_value_twice() -> None:
    proto = model_with_weight()
    proto.graph.node.append(proto.graph.node[0])
    with pytest.raises(ModelError, match="Output 'y' is redeclared"):
        load(proto)


def test_what_the_file_says_about_itself_survives(tmp_path: Path) -> None:
    proto = model_with_weight()
    proto.producer_name, proto.producer_version, proto.domain, proto.model_version = "me", "3", "org.me", 7
    proto.doc_string = "about"
    helper.set_model_props(proto, {"labels": "cat"})
    proto.graph.doc_string = "graph"
    proto.graph.input[0].doc_string = "input"
    onnx.save(proto, tmp_path / "m.onnx")
    written = to_proto(load(tmp_path / "m.onnx"))
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        assert getattr(written, field) == getattr(proto, field)
    assert {p.key: p.value for p in written.metadata_props} == {"labels": "cat"}
    assert written.graph.doc_string == "graph"
    assert written.graph.input[0].doc_string == "input"


def test_a_text_model(tmp_path: Path) -> None:
    proto = parser.parse_model('<ir_version: 8, opset_import: ["" : 20]> g (float[N] x) => (float[N] y) { y = Neg(x) }')
    onnx.save(proto, tmp_path / "m.textproto", format="textproto")
    assert load(tmp_path / "m.textproto").graph[0].op_type == "Neg"
