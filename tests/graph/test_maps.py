from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import onnx_ig
from onnx_ig.errors import ModelError, OnnxIgWarning
from onnx_ig.graph.load import load
from onnx_ig.graph.maps import NOTES
from tests.gradcheck import Runner

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]


def classifier(*, tensor_too: bool = False, behind: bool = False) -> onnx.ModelProto:
    """A linear classifier that gives a list of {label: probability}, as skl2onnx writes it."""
    weights = [1.0, -2.0, 0.5, 0.3, 0.1, -0.4]
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "p"], name="classifier", domain="ai.onnx.ml", coefficients=weights,
            intercepts=[0.1, -0.1], classlabels_ints=[0, 1], post_transform="SOFTMAX",
        ),
        helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
    ]  # fmt: skip
    if behind:
        nodes.append(helper.make_node("Identity", ["z"], ["out"]))
    probabilities = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    listed = helper.make_sequence_type_proto(probabilities)
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
        helper.make_value_info("out" if behind else "z", listed),
    ]
    if tensor_too:
        outputs.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, ["N", 2]))
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    return helper.make_model(helper.make_graph(nodes, "g", given, outputs), opset_imports=OPSETS, ir_version=8)


@pytest.mark.parametrize("behind", [False, True])
def test_the_tensor_stands_for_the_list(behind: bool) -> None:
    proto = classifier(behind=behind)
    before = proto.SerializeToString()
    model = load(proto)
    assert proto.SerializeToString() == before
    assert [v.name for v in model.graph.outputs] == ["label", "p"]
    (note,) = model.graph.meta[NOTES]
    assert "'p'" in note
    assert ("'out'" if behind else "'z'") in note
    assert model.clone().graph.meta[NOTES] == [note]


def test_a_tensor_that_is_an_output_already() -> None:
    assert [v.name for v in load(classifier(tensor_too=True)).graph.outputs] == ["label", "p"]


def test_probabilities_and_gradients() -> None:
    proto = classifier()
    x = np.array([[0.5, -0.2, 0.1]], np.float32)
    runner = Runner(proto)
    by_label = runner({"x": x})[1][0]
    with pytest.warns(OnnxIgWarning, match="left out"):
        augmented = onnx_ig.add_gradients(proto)
    label, p, gradient = Runner(augmented)({"x": x, "grad_p": np.array([[0.0, 1.0]], np.float32)})
    assert label[0] == max(by_label, key=by_label.get)
    np.testing.assert_allclose(p[0], [by_label[0], by_label[1]], rtol=1e-5)
    step = 1e-2
    for k in range(3):
        moved = [runner({"x": x + s * step * np.eye(3, dtype=np.float32)[k]})[1][0][1] for s in (1, -1)]
        assert gradient[0, k] == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-3)


def test_an_input_that_is_a_dictionary_is_refused() -> None:
    kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("DictVectorizer", ["d"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    graph = helper.make_graph(
        [node], "g", [helper.make_value_info("d", kind)], [helper.make_tensor_value_info("y", 1, None)]
    )
    with pytest.raises(ModelError, match="'d' is a dictionary"):
        load(helper.make_model(graph, opset_imports=OPSETS, ir_version=8))


def test_models_without_maps_are_not_copied() -> None:
    proto = classifier(tensor_too=True)
    del proto.graph.output[1]
    del proto.graph.node[1]
    model = load(proto)
    assert model.graph.meta[NOTES] == []
    assert isinstance(model, ir.Model)
