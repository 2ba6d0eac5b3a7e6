from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_ig
from onnx_ig.graph.load import load


def branching() -> onnx.ModelProto:
    """y = x * w in one branch, x + w in the other: copies of the branches read w under other names."""
    branches = [
        helper.make_graph(
            [
                helper.make_node("Constant", [], [f"one_{op}"], value=numpy_helper.from_array(np.float32(1), "one")),
                helper.make_node(op, ["x", "w"], [f"z_{op}"]),
                helper.make_node("Mul", [f"z_{op}", f"one_{op}"], [f"u_{op}"]),
            ],
            op,
            [],
            [helper.make_tensor_value_info(f"u_{op}", TensorProto.FLOAT, [2])],
        )
        for op in ("Mul", "Add")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]
    weights = [numpy_helper.from_array(np.array([2, 3], np.float32), "w")]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_the_model_given_is_not_changed() -> None:
    model = branching()
    before = model.SerializeToString()
    onnx_ig.add_gradients(model, wrt="x")
    assert model.SerializeToString() == before


def test_the_onnx_ir_model_given_is_not_changed() -> None:
    model = ir.from_proto(branching())
    before = ir.to_proto(model).SerializeToString()
    onnx_ig.add_gradients(model, wrt="x")
    assert ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT4,
                                     TensorProto.FLOAT8E4M3FN, TensorProto.INT64, TensorProto.STRING])  # fmt: skip
def test_tensors_keep_type_and_bytes(element: int) -> None:
    model = branching()
    values = [b"a", b"b", b"c"] if element == TensorProto.STRING else [1, 2, 3]
    model.graph.initializer.append(helper.make_tensor("t", element, [3], values))
    loaded = ir.to_proto(load(model))
    kept = next(t for t in loaded.graph.initializer if t.name == "t")
    assert (kept.data_type, list(kept.dims)) == (element, [3])
    np.testing.assert_array_equal(numpy_helper.to_array(kept), numpy_helper.to_array(model.graph.initializer[-1]))
