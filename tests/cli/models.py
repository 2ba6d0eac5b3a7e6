"""Small models that the command line is tried on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def _save(
    path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any], **metadata: Any
) -> Path:
    graph = helper.make_graph(
        nodes, "main", inputs, outputs, [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    write_metadata(model, metadata)
    onnx.save(model, path)
    return path


def write_metadata(model: onnx.ModelProto, metadata: Mapping[str, Any]) -> None:
    for key, value in metadata.items():
        model.metadata_props.add(key=f"onnx_ig.{key}", value=json.dumps(value))


def linear(path: Path, **metadata: Any) -> Path:
    """x [N, 3] -> y [N, 2] = x @ [[1, 2], [3, 4], [5, 6]] + 1: attributions from zero are x * column."""
    return _save(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Add", ["xw", "b"], ["y"])],
        [helper.make_tensor_value_info("x", FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 2])],
        {"w": np.arange(1, 7, dtype=np.float32).reshape(3, 2), "b": np.ones(2, np.float32)},
        **metadata,
    )


def two_inputs(path: Path) -> Path:
    """a [N, 1], b [N, 2] -> y [N, 2] = b * a: product."""
    return _save(
        path,
        [helper.make_node("Mul", ["b", "a"], ["y"])],
        [helper.make_tensor_value_info("a", FLOAT, ["N", 1]), helper.make_tensor_value_info("b", FLOAT, ["N", 2])],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 2])],
        {},
    )


def image(path: Path, layout: str = "NCHW", **metadata: Any) -> Path:
    """image [N, 3, 4, 4] (or NHWC) -> y [N, 2]: the sum and minus the sum of the first channel."""
    shape = {"NCHW": ["N", 3, 4, 4], "NHWC": ["N", 4, 4, 3]}[layout]
    axis = layout.index("C")
    return _save(
        path,
        [
            helper.make_node("Slice", ["image", "zero", "one", "axis"], ["first"]),
            helper.make_node("ReduceSum", ["first", "rest"], ["sum"], keepdims=0),
            helper.make_node("Neg", ["sum"], ["minus"]),
            helper.make_node("Unsqueeze", ["sum", "one"], ["s"]),
            helper.make_node("Unsqueeze", ["minus", "one"], ["m"]),
            helper.make_node("Concat", ["s", "m"], ["y"], axis=1),
        ],
        [helper.make_tensor_value_info("image", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 2])],
        {"zero": np.array([0]), "one": np.array([1]), "axis": np.array([axis]), "rest": np.array([1, 2, 3])},
        **metadata,
    )


VOCABULARY = {
    "tokens": ["[pad]", "[unk]", "[start]", "good", "bad", "film"],
    "unk": "[unk]",
    "pad": "[pad]",
    "hold": ["[start]"],
    "lowercase": True,
    "split": r"\w+",
}
TABLE = np.array([[0, 0], [0.5, 0.25], [1, 1], [2, 0], [0, 2], [0.25, 0.25]], np.float32)


def text(path: Path, **metadata: Any) -> Path:
    """ids [N, T], attention_mask [N, T] -> y [N, 2]: the sum of the embeddings where the mask is one."""
    return _save(
        path,
        [
            helper.make_node("Gather", ["table", "ids"], ["embedded"]),
            helper.make_node("Cast", ["attention_mask"], ["m"], to=FLOAT),
            helper.make_node("Unsqueeze", ["m", "last"], ["mask"]),
            helper.make_node("Mul", ["embedded", "mask"], ["masked"]),
            helper.make_node("ReduceSum", ["masked", "one"], ["y"], keepdims=0),
        ],
        [
            helper.make_tensor_value_info("ids", INT64, ["N", "T"]),
            helper.make_tensor_value_info("attention_mask", INT64, ["N", "T"]),
        ],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 2])],
        {"table": TABLE, "last": np.array([-1]), "one": np.array([1])},
        **{"vocabulary": VOCABULARY, "labels": ["positive", "negative"], **metadata},
    )


def no_path(path: Path) -> Path:
    """x [N, 3] -> y [N, 3] = floor(x): no derivative but zero."""
    return _save(
        path,
        [helper.make_node("Floor", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 3])],
        {},
    )


def no_rule(path: Path) -> Path:
    """x [N, 3] through an operator of another domain, which nobody can differentiate."""
    graph = helper.make_graph(
        [helper.make_node("Mystery", ["x"], ["y"], "strange node", domain="com.example")],
        "main",
        [helper.make_tensor_value_info("x", FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 3])],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def external(path: Path) -> Path:
    """`linear` with its weights in a file beside it."""
    model = onnx.load(linear(path))
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.weights", size_threshold=0)
    return path


def mixing(path: Path, share: float) -> Path:
    """x [N, 3] -> y [N, 3] = x * x + share * (the sum of all rows): independent samples only for a share of 0."""
    return _save(
        path,
        [
            helper.make_node("ReduceSum", ["x", "rows"], ["total"], keepdims=1),
            helper.make_node("Mul", ["total", "share"], ["part"]),
            helper.make_node("Mul", ["x", "x"], ["square"]),
            helper.make_node("Add", ["square", "part"], ["y"]),
        ],
        [helper.make_tensor_value_info("x", FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", FLOAT, ["N", 3])],
        {"rows": np.array([0]), "share": np.float32(share)},
    )
