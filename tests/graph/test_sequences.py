from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import NodeProto, TensorProto, helper

from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.gradcheck import Runner, graph_model

rng = np.random.default_rng(0)
make = helper.make_node
LIST = make("SequenceConstruct", ["a", "b", "c"], ["s"])


def resolved(
    nodes: Sequence[NodeProto], feeds: dict[str, Any], constants: dict[str, Any] | None = None, kind: str = "static"
) -> list[str]:
    """Checks that the prepared model computes the same, and returns its operators, those of bodies too."""
    constants = constants or {}
    model = graph_model(nodes, {**feeds, **constants}, ["y"], constants=list(constants), shapes=kind)
    prepared = ir.to_proto(prepare(load(model)))
    for got, expected in zip(Runner(prepared)(feeds), Runner(model)(feeds), strict=True):
        np.testing.assert_array_equal(got, expected)
    return [n.op_type for n in ir.from_proto(prepared).graph.all_nodes()]


def lists_left(operators: Sequence[str]) -> list[str]:
    return [o for o in operators if "Sequence" in o or "Optional" in o]


def tensors() -> dict[str, np.ndarray]:
    return {name: rng.standard_normal((2, 3)) for name in "abc"}


@pytest.mark.parametrize("position", [0, 2, -1, -3])
def test_reading_a_list(position: int) -> None:
    nodes = [LIST, make("SequenceAt", ["s", "i"], ["y"])]
    assert resolved(nodes, tensors(), {"i": np.array(position)}) == ["Identity"]


@pytest.mark.parametrize("position", [None, 0, 3, -1, -3])
def test_inserting(position: int | None) -> None:
    nodes = [
        LIST,
        make("SequenceInsert", ["s", "c", *([] if position is None else ["i"])], ["t"]),
        make("ConcatFromSequence", ["t"], ["y"], axis=1),
    ]
    assert resolved(nodes, tensors(), {} if position is None else {"i": np.array(position)}) == ["Concat"]


@pytest.mark.parametrize("position", [None, 0, -1, -3])
def test_erasing(position: int | None) -> None:
    nodes = [
        LIST,
        make("SequenceErase", ["s", *([] if position is None else ["i"])], ["t"]),
        make("Identity", ["t"], ["u"]),
        make("ConcatFromSequence", ["u"], ["y"], axis=-1, new_axis=1),
    ]
    operators = resolved(nodes, tensors(), {} if position is None else {"i": np.array(position)})
    assert lists_left(operators) == []


def test_an_empty_list_and_lengths() -> None:
    nodes = [
        make("SequenceEmpty", [], ["s"], dtype=TensorProto.DOUBLE),
        make("SequenceInsert", ["s", "a"], ["t"]),
        make("SequenceLength", ["t"], ["n"]),
        make("SequenceAt", ["t", "i"], ["e"]),
        make("Mul", ["e", "e"], ["e2"]),
        make("CastLike", ["n", "a"], ["m"]),
        make("Mul", ["m", "e2"], ["y"]),
    ]
    assert lists_left(resolved(nodes, {"a": rng.standard_normal((2, 2))}, {"i": np.array(0)})) == []


@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("split", [np.array(2), np.array([1, 3]), np.array([4])])
def test_pieces_of_fixed_sizes(split: np.ndarray, kind: str) -> None:
    nodes = [
        make("SplitToSequence", ["a", "split"], ["s"], axis=1),
        make("SequenceAt", ["s", "i"], ["y"]),
    ]
    operators = resolved(nodes, {"a": rng.standard_normal((2, 4))}, {"split": split, "i": np.array(-1)}, kind)
    assert (lists_left(operators) == []) is (kind == "static" or split.ndim == 1)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices_read_at_run_time(axis: int, keepdims: int) -> None:
    nodes = [
        make("SplitToSequence", ["a"], ["s"], axis=axis, keepdims=keepdims),
        make("SequenceAt", ["s", "i"], ["e"]),
        make("SequenceLength", ["s"], ["n"]),
        make("CastLike", ["n", "a"], ["m"]),
        make("Mul", ["e", "m"], ["y"]),
    ]
    assert lists_left(resolved(nodes, {"a": rng.standard_normal((3, 4)), "i": np.array(-2)}, kind="dynamic")) == []


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("along", [0, 1, -1])
@pytest.mark.parametrize(("keepdims", "new"), [(0, 0), (0, 1), (1, 0)])
def test_slices_put_together_again(axis: int, along: int, keepdims: int, new: int) -> None:
    if (keepdims, new) == (0, 0) and axis in (2, -3):
        axis = {2: 1, -3: -2}[axis]
    nodes = [
        make("SplitToSequence", ["a"], ["s"], axis=along, keepdims=keepdims),
        make("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=new),
    ]
    assert lists_left(resolved(nodes, {"a": rng.standard_normal((2, 3, 4))}, kind="dynamic")) == []


def appending(appended: NodeProto, *, start: NodeProto, reads: Sequence[NodeProto]) -> list[NodeProto]:
    """for i in range(n): s.append(e); then t = t + a, carried beside the list."""
    body = helper.make_graph(
        [
            appended,
            make("Add", ["t", "a"], ["t2"]),
            make("SequenceInsert", ["s", "e"], ["s2"]),
            make("Identity", ["c"], ["c2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_empty_tensor_value_info("s"),
            helper.make_empty_tensor_value_info("t"),
        ],
        [helper.make_empty_tensor_value_info(name) for name in ("c2", "s2", "t2")],
    )
    return [start, make("Loop", ["n", "", "s0", "a"], ["s1", "t1"], body=body), *reads]


EMPTY = make("SequenceEmpty", [], ["s0"], dtype=TensorProto.DOUBLE)
TIMES = make("Mul", ["t", "a"], ["e"])


@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize(("axis", "new"), [(0, 0), (1, 0), (-1, 0), (0, 1), (1, 1), (-1, 1)])
def test_a_list_that_a_loop_appends_to_is_scanned_out(axis: int, new: int, kind: str) -> None:
    reads = [make("ConcatFromSequence", ["s1"], ["y"], axis=axis, new_axis=new)]
    feeds = {"a": rng.standard_normal((2, 3)), "n": np.array(3)}
    operators = resolved(appending(TIMES, start=EMPTY, reads=reads), feeds, kind=kind)
    assert lists_left(operators) == []


def test_the_list_itself_is_still_there_for_others() -> None:
    reads = [make("SequenceErase", ["s1", "k"], ["s3"]), make("ConcatFromSequence", ["s3"], ["y"], axis=0)]
    feeds = {"a": rng.standard_normal((2, 3)), "n": np.array(3), "k": np.array(1)}
    operators = resolved(appending(TIMES, start=EMPTY, reads=reads), feeds)
    assert lists_left(operators) == ["SplitToSequence", "SequenceErase", "ConcatFromSequence"]


def test_a_list_that_starts_with_a_tensor_stays() -> None:
    start = make("SequenceConstruct", ["a"], ["s0"])
    reads = [make("ConcatFromSequence", ["s1"], ["y"], axis=0)]
    operators = resolved(
        appending(TIMES, start=start, reads=reads), {"a": rng.standard_normal((2, 3)), "n": np.array(2)}
    )
    assert "SequenceInsert" in operators


def test_tensors_of_changing_shape_stay() -> None:
    part = make("Slice", ["a", "zero", "i1"], ["e"])
    nodes = appending(part, start=EMPTY, reads=[make("ConcatFromSequence", ["s1"], ["y"], axis=0)])
    body = nodes[1].attribute[0].g
    body.node.insert(0, make("Add", ["i", "one"], ["i1"]))
    constants = {"zero": np.array([0]), "one": np.array([1])}
    operators = resolved(nodes, {"a": rng.standard_normal((3, 2)), "n": np.array(3)}, constants)
    assert "SequenceInsert" in operators


def test_optional_values() -> None:
    nodes = [
        make("Optional", ["a"], ["o"]),
        make("OptionalHasElement", ["o"], ["h"]),
        make("OptionalGetElement", ["o"], ["e"]),
        make("OptionalGetElement", ["e"], ["f"]),
        make("CastLike", ["h", "f"], ["m"]),
        make("Mul", ["m", "f"], ["y"]),
    ]
    assert lists_left(resolved(nodes, {"a": rng.standard_normal((2, 3))})) == []


def test_a_list_that_is_an_output_stays() -> None:
    nodes = [LIST, make("SequenceAt", ["s", "i"], ["y"])]
    model = graph_model(nodes, {**tensors(), "i": np.array(1)}, ["y"], constants=["i"])
    model.graph.output.append(helper.make_tensor_sequence_value_info("s", TensorProto.DOUBLE, None))
    prepared = prepare(load(model))
    assert [n.op_type for n in prepared.graph] == ["SequenceConstruct", "Identity"]
    assert [v.name for v in prepared.graph.outputs] == ["y", "s"]
