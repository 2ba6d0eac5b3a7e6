"""Products of matrices, shapes, slices, indexing, Det and attention against PyTorch's autograd in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.gradcheck import gradients_of, node_model

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework
rng = np.random.default_rng(12)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def compare(
    op: str, feeds: dict[str, Any], function: Callable[..., Any], attributes: dict[str, Any] | None = None,
    *, opset: int = 20, wrt: list[str] | None = None, outputs: tuple[str, ...] = ("y",), rtol: float = 1e-9,
    shapes: tuple[str, ...] = ("static", "unranked"),
) -> None:  # fmt: skip
    """The gradients of one node are those of `function` of the same arrays."""
    tensors = {
        n: None if a is None else torch.tensor(np.asarray(a), requires_grad=np.asarray(a).dtype.kind == "f")
        for n, a in feeds.items()
    }
    y = function(*tensors.values())
    cotangent = rng.standard_normal(tuple(y.shape))
    wrt = wrt or [n for n, a in feeds.items() if a is not None and np.asarray(a).dtype.kind == "f"]
    expected = torch.autograd.grad(y, [tensors[n] for n in wrt], torch.tensor(cotangent))
    given = {n: np.asarray(a) for n, a in feeds.items() if a is not None}
    for kind in shapes:
        model = node_model(op, feeds, attributes, opset=opset, outputs=outputs, shapes=kind)
        got = gradients_of(model, given, "y", wrt, cotangent)
        for name, gradient in zip(wrt, expected, strict=True):
            np.testing.assert_allclose(got[name], gradient.numpy(), rtol=rtol, atol=1e-12, err_msg=f"{kind} {name}")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5,), (5,)),
        ((4, 5), (5, 3)),
        ((5,), (2, 5, 3)),
        ((2, 4, 5), (5,)),
        ((2, 1, 4, 5), (3, 5, 6)),
        ((7, 4, 5), (5, 6)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    compare("MatMul", {"a": floats(*a), "b": floats(*b)}, torch.matmul)


@pytest.mark.parametrize("across_b", [0, 1])
def test_gemm(across_b: int) -> None:
    compare(
        "Gemm",
        {"a": floats(4, 5), "b": floats(*((6, 5) if across_b else (5, 6))), "c": floats(6)},
        lambda a, b, c: torch.addmm(c, a, b.T if across_b else b, alpha=0.5, beta=2.0),
        {"transB": across_b, "alpha": 0.5, "beta": 2.0},
    )


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("bij,bjk,bkl->il", [(2, 3, 4), (2, 4, 5), (2, 5, 6)]),
        ("ii->i", [(4, 4)]),
        ("iij->j", [(4, 4, 3)]),
        ("ij->", [(4, 3)]),
        ("ij,kl->ik", [(2, 3), (4, 5)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    feeds = {f"x{i}": floats(*s) for i, s in enumerate(shapes)}
    compare("Einsum", feeds, lambda *xs: torch.einsum(equation, *xs), {"equation": equation})


def test_shapes() -> None:
    compare("Expand", {"x": floats(3, 1), "s": np.array([2, 3, 4])}, lambda x, s: x.expand(2, 3, 4))
    compare("Tile", {"x": floats(2, 3), "r": np.array([3, 2])}, lambda x, r: x.repeat(3, 2))
    compare("Transpose", {"x": floats(2, 3, 4)}, lambda x: x.permute(2, 0, 1), {"perm": [2, 0, 1]})
    compare("Concat", {"a": floats(2, 3), "b": floats(2, 1)}, lambda a, b: torch.cat([a, b], 1), {"axis": 1})
    compare("Flatten", {"x": floats(2, 3, 4)}, lambda x: x.flatten(0, 1), {"axis": 2})
    compare("Trilu", {"x": floats(2, 4, 4), "k": np.array(1)}, lambda x, k: torch.triu(x, 1))
    compare("Trilu", {"x": floats(4, 5), "k": np.array(-1)}, lambda x, k: torch.tril(x, -1), {"upper": 0})


def test_slices() -> None:
    def operands(*values: list[int]) -> dict[str, Any]:
        return {"x": floats(6, 7), **{n: np.array(v) for n, v in zip("bead", values, strict=True)}}

    compare("Slice", operands([1, -5], [5, 100], [0, 1], [2, 3]), lambda x, *_: x[1:5:2, -5::3])
    compare("Slice", operands([-2, 1], [-100, 4], [1, 0], [-2, 1]), lambda x, *_: x.flip(1)[1:4, 1::2])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reading_by_index(axis: int) -> None:
    indices = np.array([1, 0, 1, 1])
    compare("Gather", {"x": floats(2, 3, 2), "i": indices}, lambda x, i: x.index_select(axis, i), {"axis": axis})
    places = rng.integers(0, 2, (2, 2, 2))
    compare("GatherElements", {"x": floats(2, 3, 2), "i": places}, lambda x, i: x.gather(axis, i), {"axis": axis})


def test_reading_by_tuples_of_indices() -> None:
    tuples = np.array([[0, 1], [1, 2], [0, 1]])
    compare("GatherND", {"x": floats(2, 3, 2), "i": tuples}, lambda x, i: x[i[:, 0], i[:, 1]])


@pytest.mark.parametrize(
    ("reduction", "torch_name"), [("none", None), ("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin")]
)
@pytest.mark.parametrize("ties", [False, True])
def test_writing_by_index(reduction: str, torch_name: str | None, ties: bool) -> None:
    indices = np.array([[0, 2, 1], [1, 1, 0]]) if torch_name else np.array([[0, 2, 1], [1, 0, 2]])
    data, updates = floats(3, 3), floats(2, 3)
    if ties:
        data, updates = data.round(), np.ones((2, 3))
        updates[0, 0] = 0

    def function(x: Any, i: Any, u: Any) -> Any:
        if torch_name is None:
            return x.scatter(0, i, u)
        return x.scatter_reduce(0, i, u, torch_name, include_self=True)

    compare("ScatterElements", {"x": data, "i": indices, "u": updates}, function, {"reduction": reduction})


def test_writing_by_tuples_of_indices() -> None:
    tuples = np.array([[0, 1], [1, 2], [0, 1]])
    compare(
        "ScatterND",
        {"x": floats(2, 3, 2), "i": tuples, "u": floats(3, 2)},
        lambda x, i, u: x.index_put((i[:, 0], i[:, 1]), u, accumulate=True),
        {"reduction": "add"},
    )


def test_subsets() -> None:
    compare("TopK", {"x": floats(4, 7), "k": np.array([3])}, lambda x, k: x.topk(3)[0], outputs=("y", "i"))
    mask = np.array([True, False, True, True])
    compare("Compress", {"x": floats(4, 3), "m": mask}, lambda x, m: x[m], {"axis": 0})


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_det(size: int) -> None:
    """Of regular matrices: of exactly singular ones PyTorch gives zeros, and the cofactors are not."""
    compare("Det", {"x": floats(2, size, size)}, torch.linalg.det, rtol=1e-7)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("heads", [2, 6])
def test_attention(heads: int, mask: str | None, causal: bool) -> None:
    given = {None: None, "bool": rng.random((4, 4)) < 0.7, "float": floats(2, 1, 4, 4)}[mask]
    if mask == "bool":
        np.fill_diagonal(given, True)

    def function(q: Any, k: Any, v: Any, m: Any) -> Any:
        if causal:
            allowed = torch.ones(4, 4, dtype=torch.bool).tril()
            m = allowed if m is None else m & allowed if m.dtype == torch.bool else m.masked_fill(~allowed, -torch.inf)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, m, enable_gqa=True)

    feeds = {"q": floats(2, heads, 4, 3), "k": floats(2, 2, 4, 3), "v": floats(2, 2, 4, 5), "m": given}
    compare("Attention", feeds, function, {"is_causal": int(causal)}, opset=23)
