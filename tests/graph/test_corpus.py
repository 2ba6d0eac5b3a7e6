"""Exported models of many kinds, where a folder of them is at hand: prepared they compute the same, and what dataflow
proves about their batch holds."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_ig.graph.batch import batch_axes
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.compare import assert_close
from tests.sessions import single_threaded

FOLDER = Path(__file__).parents[3] / "shared" / "corpus"
SHAPES: dict[str, Any] = {}
for line in (FOLDER / "INDEX.txt").read_text().splitlines() if FOLDER.is_dir() else ():
    name, _, shapes = line.partition("\t")
    SHAPES[name] = json.loads(shapes) if shapes else None
FILES = sorted(f.name for f in FOLDER.glob("*.onnx"))

pytestmark = pytest.mark.skipif(not FILES, reason="there is no corpus beside the repository")


def session_of(model: Any) -> ort.InferenceSession:
    return ort.InferenceSession(model, single_threaded(), providers=["CPUExecutionProvider"])


def feeds_of(session: ort.InferenceSession, name: str, rows: int) -> dict[str, np.ndarray]:
    spec = importlib.util.spec_from_file_location("corpus_feeds", FOLDER / "feeds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.feeds(session, name, rows, SHAPES.get(name))


@pytest.mark.parametrize("name", FILES)
def test_corpus(name: str) -> None:
    session = session_of(FOLDER / name)
    for rows in (2, 1):
        feeds = feeds_of(session, name, rows)
        try:
            together = session.run(None, feeds)
            break
        except Exception:  # a batch that the file fixes at 1
            assert rows == 2
    prepared = prepare(load(FOLDER / name))
    assert all(v.type is not None for g in prepared.graphs() for n in g for v in n.outputs if v.name)
    found = session_of(ir.to_proto(prepared).SerializeToString()).run(None, feeds)
    originals = {o.name for o in session.get_outputs()} & {o.name for o in prepared.graph.outputs}
    assert originals
    for one, other in zip(
        [t for o, t in zip(session.get_outputs(), together, strict=True) if o.name in originals],
        [f for o, f in zip(prepared.graph.outputs, found, strict=True) if o.name in originals],
        strict=True,
    ):
        assert_close(one, other, 1e-4)
    plan = batch_axes(prepared.graph)
    if not plan.batchable or rows == 1:
        return
    axes = {n: plan.axis(n) for n in feeds}
    alone = session.run(None, {n: a if axes[n] is None else np.take(a, [1], axes[n]) for n, a in feeds.items()})
    for output, whole, part in zip(session.get_outputs(), together, alone, strict=True):
        if isinstance(whole, np.ndarray) and output.name in originals:
            axis = plan.axis(output.name)
            assert_close(part, whole if axis is None else np.take(whole, [1], axis), 1e-4)
