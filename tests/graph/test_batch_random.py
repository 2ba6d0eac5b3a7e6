"""Random graphs: whatever is called proven must hold in the runtime."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_ig.graph.batch import batch_axes, open_batch
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.save import to_proto
from tests.graph.compare import run
from tests.graph.random_graphs import ROWS, Growing


@pytest.mark.parametrize("seed", range(30))
def test_what_is_proven_holds(seed: int) -> None:
    graph = Growing(seed)
    for step in range(8):
        graph.grow(f"v{step}")
    for output in [o for n in graph.nodes for o in n.output][-4:]:
        model = graph.ending_at(output)
        plan = batch_axes(prepare(load(model)).graph)
        if not plan.batchable:
            continue
        (together,) = run(model, graph.feeds)
        for row in range(ROWS):
            axes = {n: plan.axis(n) for n in graph.feeds}
            one = {n: a if axes[n] is None else np.take(a, [row], axes[n]) for n, a in graph.feeds.items()}
            (alone,) = run(model, one)
            axis = plan.axis(output)
            part = together if axis is None else np.take(together, [row], axis)
            assert part.shape == alone.shape
            np.testing.assert_allclose(part, alone, rtol=1e-4, atol=1e-4)


def test_the_random_graphs_prove_something_and_refuse_something() -> None:
    verdicts = []
    for seed in range(30):
        graph = Growing(seed)
        for step in range(8):
            graph.grow(f"v{step}")
        outputs = [o for n in graph.nodes for o in n.output][-4:]
        verdicts += [batch_axes(prepare(load(graph.ending_at(o))).graph).batchable for o in outputs]
    assert sum(verdicts) > 15
    assert len(verdicts) - sum(verdicts) > 15


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_a_fixed_batch_that_is_opened_computes_what_the_file_does(seed: int, rows: int) -> None:
    graph = Growing(seed, rows)
    for step in range(8):
        graph.grow(f"v{step}")
    for output in [o for n in graph.nodes for o in n.output][-4:]:
        model = graph.ending_at(output)
        prepared = prepare(load(model))
        axes = dict.fromkeys(graph.feeds, 0)
        open_batch(prepared, axes, rows)
        plan = batch_axes(prepared.graph, axes)
        if not plan.batchable:
            continue
        feeds = graph.samples(2 * rows)
        (got,) = run(to_proto(prepared), feeds)
        blocks = [run(model, {n: a[k : k + rows] for n, a in feeds.items()})[0] for k in (0, rows)]
        axis = plan.axis(output)
        for wanted in blocks if axis is None else [np.concatenate(blocks, axis)]:
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_the_fixed_batches_are_opened_now_and_then() -> None:
    opened = 0
    for seed in range(6):
        graph = Growing(seed, 3)
        for step in range(8):
            graph.grow(f"v{step}")
        for output in [o for n in graph.nodes for o in n.output][-4:]:
            prepared = prepare(load(graph.ending_at(output)))
            open_batch(prepared, dict.fromkeys(graph.feeds, 0), 3)
            opened += batch_axes(prepared.graph, dict.fromkeys(graph.feeds, 0)).batchable
    assert opened >= 6
