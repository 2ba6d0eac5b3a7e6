from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import SHAPES, check, gradients_of, node_model

rng = np.random.default_rng(0)
OUTPUTS = ["y", "key", "value", "scores"]


def operands(
    *, heads: int = 2, kv_heads: int = 2, rows: int = 3, keys: int = 4, past: int = 0, packed: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Operands of two samples, heads of width 2 (values 3 wide), and the attributes that packed ones need."""

    def heads_of(count: int, length: int, width: int) -> np.ndarray:
        return rng.standard_normal((2, length, count * width) if packed else (2, count, length, width))

    given: dict[str, Any] = {
        "q": heads_of(heads, rows, 2),
        "k": heads_of(kv_heads, keys, 2),
        "v": heads_of(kv_heads, keys, 3),
        "mask": None,
        "past_key": rng.standard_normal((2, kv_heads, past, 2)) if past else None,
        "past_value": rng.standard_normal((2, kv_heads, past, 3)) if past else None,
    }
    return given, {"q_num_heads": heads, "kv_num_heads": kv_heads} if packed else {}


def verify(given: dict[str, Any], attributes: dict[str, Any], **options: Any) -> None:
    options = {"opset": 23, **options}
    outputs = OUTPUTS if given.get("past_key") is not None else ["y"]
    # shape inference says 0 for a hidden size, and for the width of the scores, that it does not know
    wrong = given["q"].ndim == 3 or options.get("of") == "scores"
    shapes = ["static", "batch"] if wrong else SHAPES
    check("Attention", given, attributes, **{"outputs": outputs, "shapes": shapes, **options})


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the standard allows and ONNX Runtime does not run."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("NOT_IMPLEMENTED")

    monkeypatch.setattr("tests.gradcheck.ort.InferenceSession", refuse)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (3, 1), (1, 1)])
@pytest.mark.parametrize(
    "attributes", [{}, {"scale": 0.3}, {"is_causal": 1}, {"softcap": 0.7, "is_causal": 1}], ids=str
)
def test_attention(attributes: dict[str, Any], heads: int, kv_heads: int, packed: bool) -> None:
    given, needed = operands(heads=heads, kv_heads=kv_heads, packed=packed)
    verify(given, {**attributes, **needed})


@pytest.mark.parametrize("shape", [(3, 4), (2, 1, 3, 4), (2, 2, 3, 4), (1, 2, 3, 4)])
@pytest.mark.parametrize("causal", [0, 1])
def test_masks(shape: tuple[int, ...], causal: int) -> None:
    given, _ = operands()
    given["mask"] = rng.standard_normal(shape)
    verify(given, {"is_causal": causal})
    given["mask"] = rng.random(shape) < 0.6
    given["mask"][..., 0] = True
    verify(given, {"is_causal": causal, "softcap": 1.5})


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_past(causal: int, packed: bool) -> None:
    given, needed = operands(heads=4, past=2, packed=packed, keys=3)
    verify(given, {"is_causal": causal, **needed})
    given["mask"] = rng.standard_normal((3, 5))
    for of in ("key", "value"):
        verify(given, needed, of=of, wrt=["k", "past_key"] if of == "key" else ["v", "past_value"])


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("softcap", [0.0, 0.9])
def test_scores_as_output(mode: int, softcap: float) -> None:
    given, _ = operands(heads=4, past=1, keys=2)
    given["mask"] = rng.standard_normal((3, 3))
    wrt = ["q", "k", "past_key", *(["mask"] if mode >= 2 else [])]
    verify(given, {"qk_matmul_output_mode": mode, "softcap": softcap}, of="scores", wrt=wrt)


@pytest.mark.parametrize("float_mask", [False, True])
def test_rows_masked_throughout_stay_finite(float_mask: bool) -> None:
    given, _ = operands()
    allowed = np.ones((3, 4), bool)
    allowed[1] = False
    allowed[0, 2:] = False
    given["mask"] = np.where(allowed, 0.0, -np.inf) if float_mask else allowed
    model = node_model("Attention", given, opset=23)
    feeds = {n: a for n, a in given.items() if a is not None}
    got = gradients_of(model, feeds, "y", ["q", "k", "v"], np.ones((2, 2, 3, 3)))
    assert all(np.isfinite(g).all() for g in got.values())
    assert (got["q"][:, :, 1] == 0).all()
    assert (got["q"][:, :, 0] != 0).all()


def test_lengths() -> None:
    given, _ = operands()
    for causal in (0, 1):
        verify({**given, "lengths": np.array([4, 3])}, {"is_causal": causal}, opset=24)


@pytest.mark.usefixtures("reference")
def test_masks_for_every_row() -> None:
    given, _ = operands()
    given["mask"] = rng.standard_normal((1, 4))
    verify(given, {})


@pytest.mark.usefixtures("reference")
def test_masks_shorter_than_the_keys() -> None:
    given, _ = operands(rows=2)
    given["lengths"] = np.array([2, 3])
    given["mask"] = rng.standard_normal((2, 3))
    verify(given, {}, opset=24)
    given["mask"] = np.ones((2, 3), bool)
    verify(given, {}, opset=24)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("left", "right"), [(1, -1), (-1, 1), (1, 0), (0, 2)])
def test_windows(left: int, right: int, causal: int) -> None:
    given, _ = operands(rows=4)
    attributes = {"left_window_size": left, "right_window_size": right, "is_causal": causal}
    verify(given, attributes, opset=25)


def test_precision_of_the_softmax() -> None:
    given, _ = operands()
    verify(given, {"softmax_precision": 11})


def test_operands_of_an_unknown_layout_are_refused() -> None:
    given, needed = operands(packed=True)
    model = node_model("Attention", given, needed, opset=23, shapes="unranked")
    with pytest.raises(UnsupportedOperatorError, match=r"Attention \(node 'node'\): the number of axes"):
        gradients_of(model, {n: given[n] for n in "qkv"}, "y", ["q"], np.ones((2, 3, 6)))
