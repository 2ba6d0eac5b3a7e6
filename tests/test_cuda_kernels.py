"""Without a GPU: augmented models hold no operator on the float path that ONNX Runtime's CUDA provider has no kernel for.

`data/cuda_kernels_ort1.31.1.txt` is a measured table: operator, then opset ranges with the placement of float32, float16,
bfloat16 and float64 (G on the provider, C falls back to the CPU, x no kernel at all, s not allowed by the schema).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

import onnx_ig

HERE = Path(__file__).parent
SAMPLES = sorted((HERE.parent / "sample_models").glob("*.onnx"))
TYPES = {TensorProto.FLOAT: 0, TensorProto.FLOAT16: 1, TensorProto.BFLOAT16: 2, TensorProto.DOUBLE: 3}
CASTS = ("Cast", "CastLike", "Constant")


def table() -> dict[str, list[tuple[range, list[str]]]]:
    found: dict[str, list[tuple[range, list[str]]]] = {}
    for line in (HERE / "data" / "cuda_kernels_ort1.31.1.txt").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        for first, last, places in re.findall(r"(\d+)(?:-(\d+))?:(\S+)", rest):
            if places != "n/a":
                found.setdefault(name, []).append((range(int(first), int(last or first) + 1), places.split("/")))
    return found


def variant(node: onnx.NodeProto) -> str:
    """The row of the table for a node."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "MaxPool":
        return "MaxPool+Indices" if len(node.output) > 1 else "MaxPool"
    if node.op_type == "Pad":
        return f"Pad_{attributes.get('mode', b'constant').decode().replace('constant', 'const')}"
    if node.op_type == "Resize":
        return f"Resize_{attributes.get('mode', b'nearest').decode()}"
    if node.op_type.startswith("Scatter") and attributes.get("reduction", b"none") != b"none":
        return f"{node.op_type}+{attributes['reduction'].decode()}"
    if node.op_type == "LayerNormalization" and len(node.output) > 1:
        return "LayerNormalization+stats"
    return node.op_type


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from graphs(inner)


def off_cuda(model: onnx.ModelProto) -> list[str]:
    """Nodes that touch floats and are not on the provider at the model's opset, or are not in the table."""
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    rows, types, wrong = table(), {}, []
    for graph in graphs(model.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            types[info.name] = info.type.tensor_type.elem_type
        types.update({i.name: i.data_type for i in graph.initializer})
    for graph in graphs(model.graph):
        for node in graph.node:
            floats = [types[n] for n in (*node.output, *node.input) if types.get(n) in TYPES]
            if not floats or node.op_type in CASTS:
                continue
            places = [p for versions, p in rows.get(variant(node), []) if opset in versions]
            if not places or places[0][TYPES[floats[0]]] != "G":
                wrong.append(f"{variant(node)} ({node.name}) at opset {opset}")
    return wrong


def test_the_table_is_read() -> None:
    assert table()["MaxPool"] == [(range(16, 22), ["G", "G", "s", "G"]), (range(22, 26), ["C", "C", "x", "C"])]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize(
    "options", [{}, {"loop": "looped"}, {"method": "gradient_x_input"}], ids=["batched", "looped", "gradient"]
)
def test_samples_stay_on_cuda(path: Path, options: dict[str, str]) -> None:
    assert off_cuda(onnx_ig.rewrite(path, n_steps=4, runtime="cuda", **options)) == []


def test_a_fallback_is_noticed() -> None:
    node = onnx.helper.make_node("Atan", ["x"], ["y"], "far_off")
    info = [onnx.helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", info[:1], info[1:]), opset_imports=[onnx.helper.make_opsetid("", 20)]
    )
    assert off_cuda(model) == ["Atan (far_off) at opset 20"]
