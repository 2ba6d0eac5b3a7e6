"""Models with subgraphs from onnx's text form, checked against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper

from tests.gradcheck import check_model


def parse(text: str, dtype: Any = np.float64, opset: int = 20, more: dict[str, int] | None = None) -> onnx.ModelProto:
    """A model from text in which `T` is the float type, and `DTYPE` its number; `more` are opsets of other domains."""
    name = {np.float64: "double", np.float32: "float", np.float16: "float16"}[dtype]
    for written, meant in (
        ("DTYPE", str(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))),
        ("T[", f"{name}["),
        ("(T)", f"({name})"),
    ):
        text = text.replace(written, meant)
    opsets = ", ".join(f'"{domain}" : {version}' for domain, version in {"": opset, **(more or {})}.items())
    header = f"<ir_version: 10, opset_import: [{opsets}]>\n"
    model = onnx.parser.parse_model(header + text)
    onnx.checker.check_model(model)
    return model


def check_text(text: str, *feeds: dict[str, Any], of: str = "y", wrt: list[str] | None = None, **options: Any) -> None:
    """Compare the gradient of `of` with central differences, for each of `feeds`."""
    models = {dtype: parse(text, dtype) for dtype in (np.float64, np.float32)}
    for number, feed in enumerate(feeds):
        arrays = {name: np.asarray(value) for name, value in feed.items()}
        check_model(models, arrays, of=of, wrt=wrt, where=f"feed {number}", **options)


def names_of(model: onnx.ModelProto) -> list[str]:
    """Every value name of every scope, once for each place that defines it."""
    found: list[str] = []

    def visit(graph: onnx.GraphProto) -> None:
        found.extend(v.name for v in (*graph.input, *graph.initializer))
        for node in graph.node:
            found.extend(name for name in node.output if name)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(helper.get_attribute_value(attribute))

    visit(model.graph)
    return found
