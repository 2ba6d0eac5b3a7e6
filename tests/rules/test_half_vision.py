"""Convolutions, pooling, padding, resizing, sampling and transforms in float16: right type, near to float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import Runner, gradients_of, node_model

rng = np.random.default_rng(13)


def floats(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape)


def integers(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


WINDOW = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}
REPEAT = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Conv", {"x": floats(2, 4, 6, 5), "w": floats(4, 2, 3, 3), "b": floats(4)}, {"group": 2, "pads": [1] * 4}),
    ("Conv", {"x": floats(2, 4, 6, 5), "w": floats(4, 2, 3, 3), "b": floats(4)}, {"group": 2, "strides": [2, 2]}),
    ("ConvTranspose", {"x": floats(2, 4, 6, 5), "w": floats(4, 2, 3, 3)}, {"group": 2, "strides": [2, 2]}),
    ("MaxPool", {"x": rng.permutation(180).reshape(2, 3, 6, 5) / 64}, {**WINDOW, "strides": [2, 1]}),
    ("AveragePool", {"x": floats(2, 3, 6, 5)}, WINDOW),
    ("AveragePool", {"x": floats(2, 3, 6, 5)}, {**WINDOW, "strides": [2, 1]}),
    ("AveragePool", {"x": floats(2, 3, 6, 4)}, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("LpPool", {"x": floats(2, 3, 6, 5)}, {"kernel_shape": [3, 2], "strides": [2, 1], "p": 3}),
    ("GlobalAveragePool", {"x": floats(2, 3, 6, 5)}, {}),
    ("GlobalMaxPool", {"x": floats(2, 3, 6, 5)}, {}),
    ("GlobalLpPool", {"x": floats(2, 3, 6, 5)}, {}),
    ("Pad", {"x": floats(2, 3, 4), "p": integers(0, 1, 2, 0, 1, 2)}, {"mode": "reflect"}),
    ("Pad", {"x": floats(2, 3, 4), "p": integers(0, 1, 2, 0, 1, 2)}, {"mode": "edge"}),
    ("Pad", {"x": floats(2, 3, 4), "p": integers(0, 1, 2, 0, 1, 2), "v": floats()}, {}),
    ("Resize", {"x": floats(1, 2, 3, 4), "r": None, "c": None, "s": integers(1, 2, 6, 7)}, {"mode": "linear"}),
    ("Resize", {"x": floats(1, 2, 3, 4), "r": None, "c": None, "s": integers(1, 2, 6, 7)}, {"mode": "cubic"}),
    ("Resize", {"x": floats(1, 2, 3, 4), "r": None, "c": None, "s": integers(1, 2, 6, 8)}, REPEAT),
    ("DepthToSpace", {"x": floats(1, 8, 3, 4)}, {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", {"x": floats(1, 2, 4, 4)}, {"blocksize": 2}),
    ("MaxUnpool", {"x": floats(1, 1, 2, 2), "i": integers(5, 7, 13, 15).reshape(1, 1, 2, 2)},
     {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("GridSample", {"x": floats(1, 2, 4, 4), "grid": rng.choice([-0.9, -0.4, 0.1, 0.6], (1, 3, 3, 2))}, {}),
    ("AffineGrid", {"theta": floats(2, 2, 3), "s": integers(2, 1, 3, 3)}, {}),
    ("Col2Im", {"x": floats(1, 4, 9), "s": integers(4, 4), "b": integers(2, 2)}, {}),
    ("DeformConv", {"x": floats(1, 2, 4, 4), "w": floats(2, 2, 2, 2), "o": rng.choice([-0.6, 0.3], (1, 8, 3, 3))}, {}),
    ("DFT", {"x": floats(1, 6, 1)}, {"onesided": 1}),
    ("STFT", {"x": floats(1, 16, 1), "s": np.asarray(3, np.int64), "w": floats(4)}, {}),
    ("CenterCropPad", {"x": floats(3, 4), "s": integers(4, 2)}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attributes"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_float16(op: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    stored = [n for n, a in inputs.items() if a is not None and a.dtype.kind == "i"]
    wrt = [n for n, a in inputs.items() if a is not None and a.dtype.kind == "f"]
    half = {n: inputs[n].astype(np.float16) for n in wrt}
    single = {n: a.astype(np.float32) for n, a in half.items()}
    models = {d: node_model(op, inputs, attributes, constants=stored, dtype=d) for d in (np.float16, np.float32)}
    cotangent = rng.uniform(-1, 1, Runner(models[np.float32])(single)[0].shape).astype(np.float16)
    expected = gradients_of(models[np.float32], single, "y", wrt, cotangent.astype(np.float32))
    got = gradients_of(models[np.float16], half, "y", wrt, cotangent)
    for name in wrt:
        assert got[name].dtype == np.float16
        scale = max(1.0, float(np.abs(expected[name]).max()))
        np.testing.assert_allclose(got[name].astype(np.float32), expected[name], atol=5e-3 * scale, err_msg=name)
