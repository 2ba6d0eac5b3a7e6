from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import gradients_of, node_model

rng = np.random.default_rng(0)


def rotate(
    x: np.ndarray, cos: np.ndarray, sin: np.ndarray, positions: np.ndarray | None, *, interleaved: int, packed: bool
) -> np.ndarray:
    """Each pair as a complex number times cos + i sin, in float64; x [B, H, L, D] or [B, L, H * D] with two heads."""
    heads = x.reshape(*x.shape[:2], 2, -1).swapaxes(1, 2) if packed else x
    turn = cos + 1j * sin
    turn = (turn if positions is None else turn[positions])[:, None]  # [B, 1, L, R / 2]
    half = turn.shape[-1]
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    )
    turned = (heads[..., first] + 1j * heads[..., second]) * turn
    y = heads.copy()
    y[..., first], y[..., second] = turned.real, turned.imag
    return y.swapaxes(1, 2).reshape(x.shape) if packed else y


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rotated", [0, 4])
@pytest.mark.parametrize("packed", [False, True])
def test_rotary_embedding(packed: bool, rotated: int, interleaved: int, positions: bool) -> None:
    """The operator has no float64 form; it is linear in x and in (cos, sin), so differences are exact."""
    half = (rotated or 6) // 2
    shapes = {"x": (2, 3, 2 * 6) if packed else (2, 2, 3, 6)}
    shapes.update(dict.fromkeys(("cos", "sin"), (5, half) if positions else (2, 3, half)))
    feeds: dict[str, Any] = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    places = np.array([[0, 1, 1], [4, 4, 0]]) if positions else None
    given = {**feeds, **({"positions": places} if positions else {})}
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": rotated}
    if packed or rotated:
        attributes["num_heads"] = 2
    cotangent = rng.standard_normal(shapes["x"])
    layout = {"interleaved": interleaved, "packed": packed}
    directions = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    for kind in ["static", "batch", "dynamic", *([] if "num_heads" in attributes else ["unranked"])]:
        model = node_model("RotaryEmbedding", given, attributes, opset=23, shapes=kind, dtype=np.float32)
        single = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in given.items()}
        got = gradients_of(model, single, "y", list(shapes), cotangent.astype(np.float32))
        for name, direction in directions.items():
            moved, still = ({**feeds, name: feeds[name] + sign * direction} for sign in (1, 0))
            difference = rotate(**moved, positions=places, **layout) - rotate(**still, positions=places, **layout)
            assert got[name].shape == shapes[name]
            np.testing.assert_allclose((got[name] * direction).sum(), (cotangent * difference).sum(), rtol=1e-4)


def test_caches_of_an_unknown_layout_are_refused() -> None:
    operands = {"x": rng.standard_normal((1, 3, 4)), "cos": np.ones((1, 3, 1)), "sin": np.ones((1, 3, 1))}
    operands = {name: array.astype(np.float32) for name, array in operands.items()}
    model = node_model("RotaryEmbedding", operands, {"num_heads": 2}, opset=23, shapes="unranked", dtype=np.float32)
    with pytest.raises(UnsupportedOperatorError, match=r"RotaryEmbedding \(node 'node'\): the number of axes"):
        gradients_of(model, operands, "y", ["cos"], np.ones((1, 3, 4)))
