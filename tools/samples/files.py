"""What the .onnx files have in common, whichever framework wrote them. Needs onnx and ONNX Runtime alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray


def save(model: onnx.ModelProto, path: Path, doc: str, metadata: Mapping[str, object]) -> None:
    """Write the file with its description and the `onnx_ig.*` metadata, each value as JSON."""
    model.doc_string = doc
    for key, value in metadata.items():
        model.metadata_props.add(key=f"onnx_ig.{key}", value=json.dumps(value, ensure_ascii=False))
    onnx.save(model, path)


def strip(model: onnx.ModelProto) -> None:
    """Remove stack traces, doc strings and other notes of the exporter; the graph stays as it was written."""
    graph = model.graph
    del model.metadata_props[:], graph.metadata_props[:]
    for item in (*graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info):
        item.doc_string = ""
        del item.metadata_props[:]
    graph.name = "main"


def run(path: Path, feeds: Mapping[str, NDArray[Any]], output: str = "logits") -> NDArray[np.float32]:
    """One output by ONNX Runtime on the CPU."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run([output], dict(feeds))[0])
