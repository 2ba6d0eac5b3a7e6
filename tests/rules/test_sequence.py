from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from tests.gradcheck import SHAPES, check_model, graph_model

rng = np.random.default_rng(0)
make = helper.make_node


def verify(nodes: Sequence[NodeProto], feeds: dict[str, Any], of: str = "y", *, shapes: Sequence[str] = SHAPES) -> None:
    for kind in shapes:
        models = {d: graph_model(nodes, feeds, [of], shapes=kind, dtype=d) for d in (np.float64, np.float32)}
        check_model(models, feeds, of=of, where=kind)


def tensors(*shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: rng.standard_normal(shape) for name, shape in zip("abcd", shapes, strict=False)}


LIST = make("SequenceConstruct", ["a", "b", "c"], ["s"])


@pytest.mark.parametrize("position", [0, 1, -1, -3])
def test_at(position: int) -> None:
    feeds = tensors((2, 3), (4,), (1, 2, 2))
    feeds["b"], feeds["c"] = rng.standard_normal((2, 1)), rng.standard_normal((3, 3))
    nodes = [LIST, make("SequenceAt", ["s", "i"], ["y"])]
    verify(nodes, {**feeds, "i": np.array(position)}, shapes=["dynamic", "unranked"])


def test_at_several_times() -> None:
    """Contributions to one sequence are added tensor by tensor."""
    nodes = [
        LIST,
        *(make("SequenceAt", ["s", name], [f"{name}_at"]) for name in "ijk"),
        make("Mul", ["i_at", "j_at"], ["ij"]),
        make("Mul", ["ij", "k_at"], ["y"]),
    ]
    places = {"i": np.array(0), "j": np.array(-1), "k": np.array(0, np.int32)}
    verify(nodes, {**tensors((2, 3), (2, 3), (2, 3)), **places})


@pytest.mark.parametrize("position", [None, 0, 2, 3, -1, -3])
@pytest.mark.parametrize("read", [0, 2, 3])
def test_insert(position: int | None, read: int) -> None:
    feeds: dict[str, Any] = {**tensors((2, 3), (2, 3), (2, 3), (2, 3)), "k": np.array(read)}
    if position is not None:
        feeds["i"] = np.array(position)
    nodes = [
        LIST,
        make("SequenceInsert", ["s", "d", *(["i"] if position is not None else [])], ["t"]),
        make("SequenceAt", ["t", "k"], ["y"]),
    ]
    verify(nodes, feeds, shapes=["static", "unranked"])


@pytest.mark.parametrize("position", [None, 0, 1, -1, -2])
def test_erase(position: int | None) -> None:
    feeds: dict[str, Any] = {**tensors((2, 3), (2, 3), (2, 3)), "k": np.array(1)}
    if position is not None:
        feeds["i"] = np.array(position)
    nodes = [
        LIST,
        make("SequenceErase", ["s", *(["i"] if position is not None else [])], ["t"]),
        make("SequenceAt", ["t", "k"], ["y"]),
    ]
    verify(nodes, feeds, shapes=["static", "unranked"])


@pytest.mark.parametrize(("axis", "new"), [(0, 0), (1, 0), (-1, 0), (0, 1), (2, 1), (-1, 1)])
def test_concat_of_a_list_changed_at_run_time(axis: int, new: int) -> None:
    feeds: dict[str, Any] = tensors((2, 3), (2, 3), (2, 3))
    if not new:
        wide = [2, 3]
        wide[axis] = 5
        feeds["b"] = rng.standard_normal(wide)
    nodes = [
        LIST,
        make("SequenceErase", ["s", "i"], ["t"]),
        make("ConcatFromSequence", ["t"], ["y"], axis=axis, new_axis=new),
    ]
    verify(nodes, {**feeds, "i": np.array(-1)}, shapes=["static", "unranked"])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("split", "keepdims"), [(None, None), (None, 0), (2, None), ([1, 3], None), ([4, 0], 0)])
def test_split(axis: int, split: int | list[int] | None, keepdims: int | None) -> None:
    shape = [2, 2]
    shape[axis] = 4
    feeds: dict[str, Any] = {"a": rng.standard_normal(shape), "i": np.array(0)}
    if split is not None:
        feeds["split"] = np.array(split)
    attributes = {"axis": axis} if keepdims is None else {"axis": axis, "keepdims": keepdims}
    nodes = [
        make("SplitToSequence", ["a", *(["split"] if split is not None else [])], ["s"], **attributes),
        make("SequenceAt", ["s", "i"], ["y"]),
    ]
    verify(nodes, feeds)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("varying", [False, True])
def test_a_list_that_a_loop_appends_to(count: int, axis: int, varying: bool) -> None:
    """s = [a]; for i in range(count): s.append(a * w, or a part of it that depends on i); y = concat(s)."""
    part = make("Slice", ["aw", "zero", "end", "axes"], ["e"]) if varying else make("Identity", ["aw"], ["e"])
    body = helper.make_graph(
        [
            make("Mul", ["a", "w"], ["aw"]),
            make("Add", ["i", "one"], ["end"]),
            part,
            make("SequenceInsert", ["s", "e"], ["s2"]),
            make("Identity", ["c"], ["c2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_empty_tensor_value_info("s"),
        ],
        [helper.make_tensor_value_info("c2", TensorProto.BOOL, []), helper.make_empty_tensor_value_info("s2")],
    )
    nodes = [
        make("SequenceConstruct", ["a"], ["s0"]),
        make("Loop", ["n", "", "s0"], ["s1"], body=body),
        make("ConcatFromSequence", ["s1"], ["y"], axis=axis),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "axes": np.array([axis])}
    for kind in SHAPES:
        feeds: dict[str, Any] = {
            "a": rng.standard_normal((3, 3)),
            "w": rng.standard_normal((3, 3)),
            "n": np.array(count),
        }
        models = {
            d: graph_model(nodes, {**feeds, **constants}, ["y"], constants=list(constants), shapes=kind, dtype=d)
            for d in (np.float64, np.float32)
        }
        check_model(models, feeds, of="y", where=kind, wrt=["a", "w"] if count else ["a"])


def test_a_list_read_inside_a_loop() -> None:
    """y = Σ s[i] * w over i: the body reads a list of an outer scope."""
    body = helper.make_graph(
        [
            make("SequenceAt", ["s", "i"], ["e"]),
            make("Mul", ["e", "w"], ["ew"]),
            make("Add", ["t", "ew"], ["t2"]),
            make("Identity", ["c"], ["c2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_empty_tensor_value_info("t"),
        ],
        [helper.make_tensor_value_info("c2", TensorProto.BOOL, []), helper.make_empty_tensor_value_info("t2")],
    )
    nodes = [LIST, make("Loop", ["n", "", "w"], ["y"], body=body)]
    verify(nodes, {**tensors((2, 3), (2, 3), (2, 3)), "w": rng.standard_normal((2, 3)), "n": np.array(2)})


def test_optional() -> None:
    nodes = [make("Optional", ["a"], ["o"]), make("OptionalGetElement", ["o"], ["e"]), make("Mul", ["e", "a"], ["y"])]
    verify(nodes, tensors((2, 3)))


def test_a_list_in_the_branches_of_if() -> None:
    def branch(position: str) -> Any:
        return helper.make_graph(
            [make("SequenceAt", ["s", position], ["e"])], position, [], [helper.make_empty_tensor_value_info("e")]
        )

    nodes = [LIST, make("If", ["taken"], ["y"], then_branch=branch("i"), else_branch=branch("j"))]
    for taken in (True, False):
        feeds = {**tensors((2, 3), (2, 3), (2, 3)), "taken": np.array(taken), "i": np.array(0), "j": np.array(-1)}
        verify(nodes, feeds)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_map_over_a_list(kind: str) -> None:
    """SequenceMap is expanded into a Loop that appends."""
    feeds = tensors((2, 3), (1, 3), (2, 3))
    models = {}
    for dtype, element in ((np.float64, TensorProto.DOUBLE), (np.float32, TensorProto.FLOAT)):
        body = helper.make_graph(
            [make("Mul", ["e", "c"], ["ec"]), make("Tanh", ["ec"], ["z"])],
            "body",
            [helper.make_tensor_value_info("e", element, None)],
            [helper.make_tensor_value_info("z", element, None)],
        )
        nodes = [
            make("SequenceConstruct", ["a", "b"], ["s"]),
            make("SequenceMap", ["s"], ["t"], body=body),
            make("ConcatFromSequence", ["t"], ["y"], axis=0),
        ]
        models[dtype] = graph_model(nodes, feeds, ["y"], shapes=kind, dtype=dtype)
    check_model(models, feeds, of="y", where=kind)
