"""Blocks of samples: joined results, folders that keep them, samples that cannot be fed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_ig import Explainer
from onnx_ig.errors import FeedError, ModelError, OnnxIgWarning, OptionError, RunError
from onnx_ig.explain.long_runs import Block, Kept, blocks, rows_apart
from onnx_ig.runtime import load_result
from onnx_ig.runtime.joining import join_saved
from onnx_ig.runtime.result import Attribution
from tests.explain.nets import made_of, perceptron

X = np.random.default_rng(0).standard_normal((9, 12)).astype(np.float32)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnnxIgWarning)
        yield


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "steps": ("integrated_gradients", {"n_steps": 8}),
    "several targets": ("integrated_gradients", {"n_steps": 8, "target": [0, 2]}),
    "tolerance": ("integrated_gradients", {"tolerance": 0.02, "target": [0, 2]}),
    "curves": ("interior_gradients", {"n_steps": 8, "gradients": True}),
    "end": ("gradient", {}),
}


def equal(a: Attribution, b: Attribution) -> None:
    for group in ("attributions", "full", "outputs", "curves", "feeds"):
        ours, theirs = getattr(a, group), getattr(b, group)
        assert set(ours) == set(theirs)
        for name, array in ours.items():
            np.testing.assert_allclose(array, theirs[name], rtol=1e-4, atol=1e-5, err_msg=f"{group}/{name}")
    for name in ("prediction", "convergence_delta", "target", "error_estimate", "gradient_counts", "forward_counts"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-3, atol=1e-4, err_msg=name)
    assert (a.gradients, a.forwards, a.method, a.axes) == (b.gradients, b.forwards, b.method, b.axes)


@pytest.mark.parametrize("case", CASES)
def test_joined_files_are_the_whole(case: str, tmp_path: Path) -> None:
    method, options = CASES[case]
    tool = Explainer(perceptron(seed=1), method)
    parts = [
        tool.attribute(X[first:last], **options).save(tmp_path / f"{first}.npz")
        for first, last in ((0, 4), (4, 5), (5, 9))
    ]
    equal(load_result(join_saved(parts, tmp_path / "all.npz")), tool.attribute(X, **options))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.npz", "4.npz", "5.npz", "all.npz"]


def test_samples_along_another_axis(tmp_path: Path) -> None:
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("ReduceSum", ["t", "a"], ["y"], keepdims=0)]
    tool = Explainer(made_of(nodes, [3, "N", 2], ["N", 2], {"a": np.int64([0])}), batch_axes={"x": 1})
    x = np.random.default_rng(0).standard_normal((3, 5, 2)).astype(np.float32)
    parts = [
        tool.attribute(x[:, s], n_steps=4).save(tmp_path / f"{i}.npz") for i, s in enumerate((slice(2), slice(2, 5)))
    ]
    equal(load_result(join_saved(parts, tmp_path / "all.npz")), tool.attribute(x, n_steps=4))


def test_files_that_are_no_results(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("text")
    with pytest.raises(ModelError, match=r"a\.npz"):
        join_saved([tmp_path / "a.npz"], tmp_path / "all.npz")
    assert not (tmp_path / "all.npz").exists()


def made(tool: Explainer, positions: Sequence[int]) -> Attribution:
    return tool.attribute(X[list(positions)], n_steps=4)


def test_what_is_kept_is_not_made_again(tmp_path: Path) -> None:
    tool = Explainer(perceptron(seed=1))
    asked: list[tuple[int, int]] = []

    def attribute(first: int, last: int) -> Block:
        asked.append((first, last))
        return Block(first, last, made(tool, range(first, last)), list(range(first, last)))

    kept = Kept(tmp_path / "a.npz", {"run": 1})
    for block in blocks(9, attribute, kept, size=2):
        if block.last == 4:
            break
    (tmp_path / "a.npz.partial" / "000000000004.npz").write_bytes(
        b"half a file"
    )  # without its record it does not count
    again = Kept(tmp_path / "a.npz", {"run": 1})
    seen = list(blocks(9, attribute, again, size=3))
    assert asked == [(0, 2), (2, 4), (4, 7), (7, 9)]
    assert [(b.first, b.last) for b in seen] == asked
    assert again.finish() == tmp_path / "a.npz"
    equal(load_result(tmp_path / "a.npz"), tool.attribute(X, n_steps=4))
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def halves(tool: Explainer, path: Path) -> Kept:
    """Blocks 0..4 and 4..9, kept."""
    kept = Kept(path, {"run": 1})
    for first, last in ((0, 4), (4, 9)):
        kept.keep(Block(first, last, made(tool, range(first, last)), list(range(first, last))))
    return kept


@pytest.mark.parametrize("damaged", ["000000000004.npz", "000000000004.json"])
def test_a_damaged_block_is_made_again(damaged: str, tmp_path: Path) -> None:
    tool = Explainer(perceptron(seed=1))
    kept = halves(tool, tmp_path / "a.npz")
    whole = (tmp_path / "a.npz.partial" / damaged).read_bytes()
    (tmp_path / "a.npz.partial" / damaged).write_bytes(whole[: len(whole) // 2])
    asked: list[tuple[int, int]] = []

    def attribute(first: int, last: int) -> Block:
        asked.append((first, last))
        return Block(first, last, made(tool, range(first, last)), list(range(first, last)))

    assert [(b.first, b.last) for b in blocks(9, attribute, kept, size=3)] == [(0, 4), (4, 7), (7, 9)]
    assert asked == [(4, 7), (7, 9)]
    kept.finish()
    equal(load_result(tmp_path / "a.npz"), tool.attribute(X, n_steps=4))


def test_what_lies_behind_a_gap_is_dropped(tmp_path: Path) -> None:
    kept = halves(Explainer(perceptron(seed=1)), tmp_path / "a.npz")
    (kept.folder / "000000000000.json").unlink()
    assert list(kept.blocks()) == []
    assert not list(kept.folder.glob("0*.json"))


def test_blocks_whose_record_is_gone_belong_to_nobody(tmp_path: Path) -> None:
    """A run that is killed while it removes its folder leaves such blocks."""
    halves(Explainer(perceptron(seed=1)), tmp_path / "a.npz")
    (tmp_path / "a.npz.partial" / "run.json").unlink()
    assert list(Kept(tmp_path / "a.npz", {"run": 2}).blocks()) == []


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    halves(Explainer(perceptron(seed=1)), tmp_path / "a.npz")
    (tmp_path / "a.npz.partial" / "run.json").write_text("{")
    with pytest.raises(OptionError, match="another run"):
        Kept(tmp_path / "a.npz", {"run": 1})


def test_two_runs_at_once_are_not_joined(tmp_path: Path) -> None:
    tool = Explainer(perceptron(seed=1))
    kept = halves(tool, tmp_path / "a.npz")
    kept.keep(Block(2, 9, made(tool, range(2, 9)), list(range(2, 9))))
    with pytest.raises(ModelError, match="two runs at once"):
        kept.finish()
    assert not (tmp_path / "a.npz").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.npz.partial").write_text("a file")
    with pytest.raises(ModelError, match=r"a\.npz\.partial cannot be written"):
        Kept(tmp_path / "a.npz", {"run": 1})


def test_a_run_that_kept_nothing_is_in_nobodys_way(tmp_path: Path) -> None:
    Kept(tmp_path / "a.npz", {"tolerance": 5})
    kept = Kept(tmp_path / "a.npz", {"tolerance": 0.05})
    assert json.loads((kept.folder / "run.json").read_text()) == {"tolerance": 0.05}


def test_another_run_is_refused(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a.npz", {"steps": 1, "model": "m"})
    kept.keep(Block(0, 1, None, [], {0: "bad"}))
    with pytest.raises(OptionError, match="differs in steps"):
        Kept(tmp_path / "a.npz", {"steps": 2, "model": "m"})


def test_blocks_without_a_folder_keep_positions_where_some_are_missing() -> None:
    tool = Explainer(perceptron(seed=1))

    def attribute(first: int, last: int) -> Block:
        good = [i for i in range(first, last) if i != 5]
        return Block(first, last, made(tool, good), good, {5: "bad"} if first <= 5 < last else {})

    found = list(blocks(9, attribute, size=4))
    assert found[0].result.samples is None  # type: ignore[union-attr]
    assert found[1].result.samples.tolist() == [4, 6, 7]  # type: ignore[union-attr]
    assert found[1].bad == {5: "bad"}


def test_bad_samples_are_told_apart() -> None:
    tool = Explainer(perceptron(seed=1))

    def attribute(positions: Sequence[int]) -> Attribution:
        if 3 in positions or 7 in positions:
            raise RunError("index out of range")
        return made(tool, positions)

    def check(positions: Sequence[int]) -> None:
        if positions[0] in (3, 7):
            raise RunError(f"index of {positions[0]} out of range")

    result, good, bad = rows_apart(attribute, check, range(9))
    assert good == [0, 1, 2, 4, 5, 6, 8]
    assert bad == {3: "index of 3 out of range", 7: "index of 7 out of range"}
    assert len(result.prediction) == 7  # type: ignore[union-attr]
    assert rows_apart(attribute, check, [3]) == (None, [], {3: "index of 3 out of range"})
    assert rows_apart(attribute, check, []) == (None, [], {})


def test_what_no_sample_causes_is_raised() -> None:
    def attribute(positions: Sequence[int]) -> Attribution:
        raise FeedError("a kernel is missing")

    with pytest.raises(FeedError, match="kernel"):
        rows_apart(attribute, lambda positions: None, range(4))
