from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.rules import LOWERINGS, Lowering
from tests.gradcheck import SHAPES, check, check_model, gradients_of, node_model
from tests.rules.configurations import conv_configuration

rng = np.random.default_rng(0)


def conv(x: tuple[int, ...], w: tuple[int, ...], bias: bool = True) -> dict[str, np.ndarray | None]:
    b = rng.standard_normal(w[0]) if bias else None
    return {"x": rng.standard_normal(x), "w": rng.standard_normal(w), "b": b}


def conv_transpose(x: tuple[int, ...], w: tuple[int, ...], group: int = 1) -> dict[str, np.ndarray | None]:
    return {"x": rng.standard_normal(x), "w": rng.standard_normal(w), "b": rng.standard_normal(w[1] * group)}


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 3, 7), (4, 3, 3), {}),
        ((2, 3, 7), (4, 3, 3), {"pads": [1, 0]}),
        ((2, 3, 7), (4, 3, 1), {"pads": [1, 2]}),  # pads beyond the kernel
        ((2, 3, 8), (4, 3, 3), {"strides": [2], "pads": [1, 0]}),
        ((2, 3, 7), (4, 3, 2), {"strides": [3]}),
        ((2, 4, 9), (6, 2, 3), {"group": 2, "dilations": [3], "pads": [2, 3]}),
        ((2, 4, 6, 5), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),  # depthwise
        ((2, 4, 6, 5), (8, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 1]}),  # with a multiplier
        ((2, 4, 6, 5), (8, 1, 3, 3), {"group": 4, "pads": [1, 0, 0, 1]}),
        ((2, 4, 7, 6), (6, 2, 3, 2), {"group": 2, "dilations": [2, 1], "strides": [1, 3], "pads": [1, 0, 2, 1]}),
        ((1, 2, 4, 5, 4), (2, 2, 2, 3, 1), {"pads": [1, 1, 0, 0, 1, 0]}),
        ((1, 2, 4, 5, 4), (4, 1, 2, 3, 1), {"group": 2, "strides": [2, 1, 3], "dilations": [1, 2, 1]}),
        ((2, 3, 8), (4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2]}),
        ((2, 3, 8), (4, 3, 4), {"auto_pad": "SAME_LOWER", "strides": [3]}),
        ((2, 3, 8), (4, 3, 4), {"auto_pad": "SAME_UPPER"}),
        ((2, 3, 8), (4, 3, 4), {"auto_pad": "SAME_LOWER"}),
        ((2, 3, 7), (4, 3, 3), {"auto_pad": "VALID", "strides": [2]}),
        ((1, 1, 1), (1, 1, 1), {}),
        ((0, 3, 7), (4, 3, 3), {"strides": [2]}),
        ((0, 4, 7), (4, 2, 3), {"group": 2, "pads": [1, 1]}),
    ],
)
def test_conv(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    check("Conv", conv(x, w), attributes)
    check("Conv", conv(x, w, bias=False), {**attributes, "kernel_shape": w[2:]}, constants=("w",), wrt=("x",))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("length", [5, 8])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 3), (3, 2), (5, 3), (2, 2)])
def test_conv_same_at_any_length(length: int, kernel: int, stride: int, upper: bool) -> None:
    attributes = {"auto_pad": "SAME_UPPER" if upper else "SAME_LOWER", "strides": [stride]}
    check("Conv", conv((1, 2, length), (2, 2, kernel)), attributes, shapes=("static", "dynamic", "unranked"))


@pytest.mark.parametrize("seed", range(16))
def test_conv_random(seed: int) -> None:
    attributes, lengths, kernel = conv_configuration(seed)
    rng = np.random.default_rng(seed)
    group, inner, outer = (int(n) for n in rng.integers(1, 3, 3))
    operands = conv((2, group * inner, *lengths), (group * outer, inner, *kernel))
    shapes = ("static", "dynamic") if seed % 2 else ("batch", "unranked")
    check("Conv", operands, {**attributes, "group": group}, shapes=shapes)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 3, 5), (3, 4, 3), {}),
        ((2, 4, 5), (4, 3, 3), {"group": 2, "strides": [2], "pads": [1, 0], "output_padding": [1]}),
        ((2, 4, 5), (4, 1, 3), {"group": 4, "dilations": [2]}),
        ((2, 4, 4, 3), (4, 2, 3, 2), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
        ((2, 4, 4, 3), (4, 2, 3, 4), {"strides": [2, 3], "auto_pad": "SAME_LOWER", "group": 2}),
        ((2, 4, 4, 3), (4, 2, 1, 2), {"strides": [2, 3], "auto_pad": "VALID"}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [5]}),
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [8]}),  # longer than the windows reach
        ((1, 2, 3), (2, 1, 3), {"strides": [2], "output_shape": [6], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 3, 2), (2, 1, 3, 2), {"strides": [2, 2], "output_shape": [7, 4], "output_padding": [1, 0]}),
        ((1, 2, 2, 3, 2), (2, 2, 2, 1, 3), {"strides": [2, 1, 3], "pads": [0, 0, 1, 1, 0, 0]}),
        ((1, 2, 4), (2, 1, 4), {"auto_pad": "SAME_LOWER"}),
        ((1, 1, 1), (1, 1, 1), {}),
        ((0, 2, 5), (2, 3, 3), {"strides": [2]}),
    ],
)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    operands = conv_transpose(x, w, attributes.get("group", 1))
    check("ConvTranspose", operands, attributes)
    check("ConvTranspose", operands, attributes, constants=("w", "b"), wrt=("x",))


@pytest.mark.parametrize("shapes", SHAPES)
def test_output_padding_of_a_whole_step(shapes: str) -> None:
    """ONNX allows output_padding below the dilation; ONNX Runtime only below the stride, so this is float64 alone."""
    operands = conv_transpose((2, 4, 5), (4, 1, 3), group=4)
    attributes = {"group": 4, "dilations": [2], "output_padding": [1]}
    model = node_model("ConvTranspose", operands, attributes, shapes=shapes)
    check_model({np.float64: model}, {n: a for n, a in operands.items() if a is not None}, of="y")


@pytest.mark.parametrize("seed", range(12))
def test_conv_transpose_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel, strides, dilations, lengths = (rng.integers(1, 4, rank) for _ in range(4))
    extra = rng.integers(0, strides)
    full = strides * (lengths - 1) + (kernel - 1) * dilations + 1 + extra
    begins = rng.integers(0, np.maximum(1, full // 2))
    ends = rng.integers(0, np.maximum(1, full // 2))
    attributes: dict[str, Any] = {
        "strides": strides.tolist(), "dilations": dilations.tolist(), "output_padding": extra.tolist(),
        "pads": [*begins.tolist(), *ends.tolist()],
    }  # fmt: skip
    if seed % 3 == 0:
        del attributes["pads"]
        attributes["output_shape"] = (full - begins).tolist()
    group, inner, outer = (int(n) for n in rng.integers(1, 3, 3))
    operands = conv_transpose((2, group * inner, *lengths.tolist()), (group * inner, outer, *kernel.tolist()), group)
    shapes = ("static", "dynamic") if seed % 2 else ("batch", "unranked")
    check("ConvTranspose", operands, {**attributes, "group": group}, shapes=shapes)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_newest_opset(op: str) -> None:
    check(op, conv((2, 4, 5), (4, 4, 3)), {"strides": [2]}, opset=25, shapes=("static", "unranked"))


@pytest.mark.parametrize("seed", range(3))
def test_the_transposed_form_is_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOWERINGS, "transposed", Lowering(conv_stride1="transpose"))
    attributes, lengths, kernel = conv_configuration(seed)
    attributes["strides"] = [1] * len(lengths)
    operands = conv((2, 4, *lengths), (6, 2, *kernel), bias=False)
    feeds = {n: a.astype(np.float32) for n, a in operands.items() if a is not None}
    model = node_model("Conv", operands, {**attributes, "group": 2}, dtype=np.float32)
    shape = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    cotangent = rng.standard_normal(shape).astype(np.float32)
    flipped = gradients_of(model, feeds, "y", ["x"], cotangent)["x"]
    scattered = gradients_of(model, feeds, "y", ["x"], cotangent, runtime="transposed")["x"]
    np.testing.assert_allclose(flipped, scattered, atol=1e-4)
