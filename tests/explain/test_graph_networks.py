"""Graph networks: the nodes of one graph are no batch, whatever the first axis is called; all of its features move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnx_ig
from tests.explain.differences import Array, integrated

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::onnx_ig.OnnxIgWarning")

rng = np.random.default_rng(0)
WEIGHTS = {
    k: rng.standard_normal(s) for k, s in {"own": (4, 6), "sent": (4, 6), "kind": (2, 6), "head": (6, 3)}.items()
}
ATOMS, BONDS = rng.standard_normal((5, 4)), rng.standard_normal((7, 2))
EDGES = np.array([[0, 1, 1, 2, 3, 4, 4], [1, 0, 2, 1, 2, 3, 0]])

# How exporters hand edges over, gather messages, and read the graph out.
EDGE_INPUTS = {
    "index [2, E]": (
        "int64[2, E] edges",
        """source = Gather <axis = 0> (edges, zero)  goal = Gather <axis = 0> (edges, one)""",
    ),
    "pairs [E, 2]": (
        "int64[E, 2] edges",
        """source = Gather <axis = 1> (edges, zero)  goal = Gather <axis = 1> (edges, one)""",
    ),
    "two lists": ("int64[E] source, int64[E] goal", ""),
}
SUMS = {
    "ScatterElements": """shape = Shape (message)  place = Expand (column, shape)
        state = ScatterElements <axis = 0, reduction = "add"> (own_part, place, message)""",
    "ScatterND": """state = ScatterND <reduction = "add"> (own_part, column, message)""",
}
OUTPUTS: dict[str, tuple[str, str, Any]] = {
    "nodes": ("V, 3", "logits = MatMul (hidden, head)", (2, 1)),
    "graph, one row": (
        "1, 3",
        "first = Constant <value_ints = [0]> () mean = ReduceMean (hidden, first) logits = MatMul (mean, head)",
        (0, 1),
    ),
    "graph": (
        "3",
        """first = Constant <value_ints = [0]> ()  mean = ReduceMean <keepdims = 0> (hidden, first)
        logits = MatMul (mean, head)""",
        1,
    ),
}


def network(edges: str, total: str, output: str) -> onnx.ModelProto:
    """atoms [V, 4], bonds [E, 2], edges -> logits: messages along edges, weighted by the kind of bond."""
    declared, picked = EDGE_INPUTS[edges]
    shape, read_out, _ = OUTPUTS[output]
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (double[V, 4] atoms, {declared}, double[E, 2] bonds) => (double[{shape}] logits) {{
            zero = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()
            last = Constant <value_ints = [-1]> ()
            {picked}
            own_part = MatMul (atoms, own)  features = MatMul (atoms, sent)
            taken = Gather <axis = 0> (features, source)
            strength = MatMul (bonds, kind)  gate = Sigmoid (strength)  message = Mul (taken, gate)
            column = Unsqueeze (goal, last)
            {SUMS[total]}
            hidden = Tanh (state)
            {read_out} }}"""
    )
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in WEIGHTS.items())
    return model


def feeds(edges: str, atoms: Array, links: Any, bonds: Array) -> dict[str, Any]:
    given = {
        "index [2, E]": {"edges": links},
        "pairs [E, 2]": {"edges": links.T},
        "two lists": {"source": links[0], "goal": links[1]},
    }
    return {"atoms": atoms, "bonds": bonds, **given[edges]}


def hidden(atoms: Array, bonds: Array, links: Any = EDGES) -> Array:
    gate = 1 / (1 + np.exp(-bonds @ WEIGHTS["kind"]))
    state = atoms @ WEIGHTS["own"]
    np.add.at(state, links[1], (atoms @ WEIGHTS["sent"])[links[0]] * gate)
    return np.tanh(state)


def score(output: str) -> Any:
    def of(values: Mapping[str, Array]) -> float:
        states = hidden(values["atoms"], values["bonds"])
        logits = states @ WEIGHTS["head"]
        return float(logits[2, 1] if output == "nodes" else logits.mean(0)[1])

    return of


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("total", SUMS)
@pytest.mark.parametrize("edges", EDGE_INPUTS)
def test_nodes_and_bonds_of_one_graph(edges: str, total: str, output: str) -> None:
    explainer = onnx_ig.Explainer(network(edges, total, output))
    found = explainer.attribute(feeds(edges, ATOMS, EDGES, BONDS), target=OUTPUTS[output][2], n_steps=8)
    assert found["atoms"].shape == (5, 4)
    assert found["bonds"].shape == (7, 2)
    expected = integrated(score(output), {"atoms": ATOMS, "bonds": BONDS})
    for name, right in expected.items():
        np.testing.assert_allclose(found[name], right, atol=1e-8)
    assert found.notes[0].startswith("the feeds are one sample")
    assert found.convergence_delta.shape == (1,)


def test_shares_by_group() -> None:
    """Atoms and bonds move together: their shares of the score add up to it."""
    explainer = onnx_ig.Explainer(network("index [2, E]", "ScatterElements", "graph"))
    found = explainer.attribute(feeds("index [2, E]", ATOMS, EDGES, BONDS), target=1)
    shares = np.array([found[name].sum() for name in ("atoms", "bonds")])
    change = found.prediction[0] - found.baseline_prediction[0]
    assert shares.sum() == pytest.approx(change, rel=1e-9)
    assert np.abs(shares / change).min() > 1e-3
    alone = onnx_ig.Explainer(network("index [2, E]", "ScatterElements", "graph"), inputs="atoms")
    part = alone.attribute(feeds("index [2, E]", ATOMS, EDGES, BONDS), target=1)
    assert part["atoms"].sum() == pytest.approx(part.prediction[0] - part.baseline_prediction[0], rel=1e-9)


@pytest.mark.parametrize("output", OUTPUTS)
def test_one_file_for_a_server(output: str) -> None:
    """`rewrite` keeps the shapes of the graph and explains its largest output."""
    import onnxruntime

    model = onnx_ig.rewrite(network("index [2, E]", "ScatterElements", output), n_steps=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = feeds("index [2, E]", ATOMS, EDGES, BONDS)
    names = [o.name for o in session.get_outputs()]
    results = dict(zip(names, session.run(None, given), strict=True))
    entry = np.unravel_index(int(results["logits"].argmax()), results["logits"].shape)
    assert results["attributed_target"].tolist() == [list(map(int, entry))]
    explainer = onnx_ig.Explainer(network("index [2, E]", "ScatterElements", output))
    target = tuple(map(int, entry)) if len(entry) > 1 else int(entry[0])
    expected = explainer.attribute(given, target=target, n_steps=8)
    for name in ("atoms", "bonds"):
        np.testing.assert_allclose(results[f"{name}_attribution"], expected[name], atol=1e-12)
    assert results["convergence_delta"].shape == (1, 1)


@pytest.mark.parametrize("edges", EDGE_INPUTS)
def test_one_atom_without_bonds_settles_nothing_for_the_next_graph(edges: str) -> None:
    """With a single node, rows together are as rows alone: no proof of a batch."""
    explainer = onnx_ig.Explainer(network(edges, "ScatterElements", "nodes"))
    single = explainer.attribute(feeds(edges, ATOMS[:1], EDGES[:, :0], BONDS[:0]), target=(0, 1), n_steps=8)
    assert single["atoms"].sum() == pytest.approx(hidden(ATOMS[:1], BONDS[:0], EDGES[:, :0])[0] @ WEIGHTS["head"][:, 1])
    found = explainer.attribute(feeds(edges, ATOMS, EDGES, BONDS), target=(2, 1), n_steps=8)
    expected = integrated(score("nodes"), {"atoms": ATOMS, "bonds": BONDS})
    np.testing.assert_allclose(found["atoms"], expected["atoms"], atol=1e-8)


def test_a_graph_as_a_matrix() -> None:
    """links [V, V] in place of edges; again a graph of one node first, for which rows alone run."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (double[V, V] links, double[V, 4] atoms) => (double[V, 6] logits) {
            heard = MatMul (links, atoms)  state = Tanh (heard)  logits = MatMul (state, own) }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(WEIGHTS["own"], "own"))
    explainer = onnx_ig.Explainer(model, inputs="atoms")
    explainer.attribute({"links": np.ones((1, 1)), "atoms": ATOMS[:1]}, target="predicted")
    links = (rng.random((5, 5)) < 0.5).astype(np.float64)
    found = explainer.attribute({"links": links, "atoms": ATOMS}, target=(2, 1), n_steps=8)

    def second(values: Mapping[str, Array]) -> float:
        return float((np.tanh(links @ values["atoms"]) @ WEIGHTS["own"])[2, 1])

    np.testing.assert_allclose(found["atoms"], integrated(second, {"atoms": ATOMS})["atoms"], atol=1e-8)


def test_several_graphs_in_one_list_of_nodes() -> None:
    """A vector says which graph a node belongs to; the graphs' number is data."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (double[V, 4] atoms, int64[V] graph) => (double[G, 3] logits) {
            hidden = Tanh (atoms)  features = MatMul (hidden, first)
            one = Constant <value_ints = [1]> ()  last = Constant <value_int = 0> ()
            width = Constant <value_ints = [3]> ()  end = ReduceMax <keepdims = 0> (graph)  unit = Constant <value_int = 1> ()
            count = Add (end, unit)  counted = Unsqueeze (count, last_axis)  shape = Concat <axis = 0> (counted, width)
            empty = ConstantOfShape <value = double[1] {0.0}> (shape)
            column = Unsqueeze (graph, one)  sizes = Shape (features)  place = Expand (column, sizes)
            sums = ScatterElements <axis = 0, reduction = "add"> (empty, place, features)
            logits = Tanh (sums) }"""
    )
    first = rng.standard_normal((4, 3))
    arrays = {"first": first, "last_axis": np.array([0])}
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in arrays.items())
    graph = np.array([0, 0, 1, 1, 1])

    def second(values: Mapping[str, Array]) -> float:
        return float(np.tanh((np.tanh(values["atoms"]) @ first)[graph == 1].sum(0))[2])

    explainer = onnx_ig.Explainer(model)
    found = explainer.attribute({"atoms": ATOMS, "graph": graph}, target=(1, 2), n_steps=8)
    np.testing.assert_allclose(found["atoms"], integrated(second, {"atoms": ATOMS})["atoms"], atol=1e-8)
    assert not found["atoms"][graph == 0].any()


def molecules(dtype: str = "double") -> onnx.ModelProto:
    """atoms [N, A, 4], pairs [N, A, A, 2], mask [N, A] -> logits [N, 3]: pairs learn of their atoms, atoms of their pairs,
    masked where there is no atom, as the molecules of the paper are padded."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g ({dtype}[N, A, 4] atoms, {dtype}[N, A, A, 2] pairs, {dtype}[N, A] mask) => ({dtype}[N, 3] logits) {{
            one = Constant <value_ints = [1]> ()  two = Constant <value_ints = [2]> ()
            three = Constant <value_ints = [3]> ()
            row = Unsqueeze (mask, two)  column = Unsqueeze (mask, one)
            square = Mul (row, column)  both = Unsqueeze (square, three)
            ends = MatMul (atoms, sent)  start = Unsqueeze (ends, two)  end = Unsqueeze (ends, one)
            link = MatMul (pairs, kind)  some = Add (link, start)  all = Add (some, end)
            active = Tanh (all)  kept = Mul (active, both)
            heard = ReduceSum <keepdims = 0> (kept, two)  mine = MatMul (atoms, own)
            sum = Add (mine, heard)  state = Tanh (sum)  known = Mul (state, row)
            molecule = ReduceSum <keepdims = 0> (known, one)  logits = MatMul (molecule, head) }}"""
    )
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in WEIGHTS.items())
    return model


def molecule_score(values: Mapping[str, Array]) -> float:
    """One molecule without padding, output 2."""
    atoms, pairs = values["atoms"][0], values["pairs"][0]
    ends = atoms @ WEIGHTS["sent"]
    heard = np.tanh(pairs @ WEIGHTS["kind"] + ends[:, None] + ends[None]).sum(1)
    return float(np.tanh(atoms @ WEIGHTS["own"] + heard).sum(0) @ WEIGHTS["head"][:, 2])


def single(atoms: int) -> dict[str, Array]:
    draw = np.random.default_rng(atoms)
    return {
        "atoms": draw.standard_normal((1, atoms, 4)),
        "pairs": draw.standard_normal((1, atoms, atoms, 2)),
        "mask": np.ones((1, atoms)),
    }


def padded(singles: list[dict[str, Array]], size: int) -> dict[str, Array]:
    """One batch, with numbers in the padding that must not count."""
    batch = {
        "atoms": np.full((len(singles), size, 4), 0.7),
        "pairs": np.full((len(singles), size, size, 2), -0.4),
        "mask": np.zeros((len(singles), size)),
    }
    for row, feed in enumerate(singles):
        n = feed["atoms"].shape[1]
        batch["atoms"][row, :n], batch["pairs"][row, :n, :n], batch["mask"][row, :n] = (
            feed[k][0] for k in ("atoms", "pairs", "mask")
        )
    return batch


def test_padded_molecules_are_as_single_ones() -> None:
    singles = [single(n) for n in (3, 5, 2)]
    explainer = onnx_ig.Explainer(molecules())
    assert [s.name for s in explainer.subject.moved] == ["atoms", "pairs"]
    found = explainer.attribute(padded(singles, 6), target=2, n_steps=8)
    assert explainer.batching.mode == "free"
    for row, feed in enumerate(singles):
        n = feed["atoms"].shape[1]
        alone = explainer.attribute(feed, target=2, n_steps=8)
        expected = integrated(molecule_score, {k: feed[k] for k in ("atoms", "pairs")})
        for given, real in ((alone, alone), (found, None)):
            atoms, pairs = given["atoms"], given["pairs"]
            atoms, pairs = (atoms[0], pairs[0]) if real else (atoms[row, :n], pairs[row, :n, :n])
            np.testing.assert_allclose(atoms, expected["atoms"][0], atol=1e-8)
            np.testing.assert_allclose(pairs, expected["pairs"][0], atol=1e-8)
        assert not found["atoms"][row, n:].any()
        assert not found["pairs"][row, n:].any()
        assert not found["pairs"][row, :, n:].any()


def test_shares_of_atoms_and_pairs() -> None:
    """As in the paper's table: the parts of the score that atom features and pair features are given."""
    batch = padded([single(n) for n in (3, 5)], 5)
    found = onnx_ig.Explainer(molecules()).attribute(batch, target=[0, 1, 2])
    atoms, pairs = found["atoms"].sum((2, 3)), found["pairs"].sum((2, 3, 4))
    assert atoms.shape == pairs.shape == found.prediction.shape == (2, 3)
    np.testing.assert_allclose(
        atoms + pairs - (found.prediction - found.baseline_prediction), found.convergence_delta, atol=1e-12
    )
    np.testing.assert_allclose(found.convergence_delta, 0, atol=1e-8)
    assert np.abs(pairs).min() > 1e-3
