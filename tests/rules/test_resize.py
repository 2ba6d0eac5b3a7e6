"""Against ONNX Runtime's own forward, column by column: `onnx.reference` differs from it in several modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import SHAPES, Runner, gradients_of, node_model
from tests.linear import check_linear

rng = np.random.default_rng(0)

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
ROUNDING = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def operands(
    shape: tuple[int, ...],
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    roi: list[float] | None = None,
) -> dict[str, np.ndarray | None]:
    return {
        "x": rng.standard_normal(shape).astype(np.float32),
        "roi": None if roi is None else np.asarray(roi, np.float32),
        "scales": None if scales is None else np.asarray(scales, np.float32),
        "sizes": None if sizes is None else np.asarray(sizes, np.int64),
    }


def check_resize(inputs: dict[str, np.ndarray | None], attributes: dict[str, Any], **options: Any) -> None:
    """With the operands in the file at every kind of shape, and computed at run time where the rank is known."""
    stored = tuple(n for n in ("roi", "scales", "sizes") if inputs[n] is not None)
    kinds = SHAPES if "axes" not in attributes else SHAPES[:3]
    check_linear("Resize", inputs, attributes, constants=stored, shapes=kinds, **options)
    check_linear(
        "Resize", inputs, attributes, shapes=SHAPES[:3], fixed=stored, **options
    )  # runtimes ask for their length


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_interpolation(mode: str, coordinates: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    check_resize(operands((1, 2, 3, 4), scales=[1, 1, 2, 1.5]), attributes)
    check_resize(operands((2, 1, 5, 4), sizes=[2, 1, 3, 7]), attributes)


@pytest.mark.parametrize("coordinates", [*COORDINATES, "tf_half_pixel_for_nn"])
@pytest.mark.parametrize("rounding", ROUNDING)
def test_nearest(rounding: str, coordinates: str) -> None:
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": coordinates}
    check_resize(operands((1, 2, 2, 3), scales=[1, 1, 2, 3]), attributes)
    check_resize(operands((1, 1, 4, 3), sizes=[1, 1, 3, 7]), attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("shape", [(2, 5), (1, 2, 4), (1, 1, 3, 4), (1, 1, 2, 3, 2)])
def test_ranks(mode: str, shape: tuple[int, ...]) -> None:
    scales = [1.0] * len(shape)
    scales[-1] = 2.0
    scales[-2] = 1.0 if len(shape) == 3 else 1.5
    check_resize(operands(shape, scales=scales), {"mode": mode})


def test_channels_last() -> None:
    check_resize(operands((1, 3, 4, 2), scales=[1, 2, 1.5, 1]), {"mode": "linear"})
    check_resize(operands((2, 3, 4, 2), scales=[1, 2, 2, 1]), {"mode": "nearest"})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode: str) -> None:
    check_resize(operands((1, 1, 6, 5), scales=[1, 1, 0.5, 0.6]), {"mode": mode, "antialias": 1})
    check_resize(operands((1, 1, 6, 3), sizes=[1, 1, 2, 5]), {"mode": mode, "antialias": 1})
    check_resize(operands((1, 1, 6, 5), sizes=[1, 1, 2, 3]), {"mode": mode, "antialias": 1, "exclude_outside": 1})


@pytest.mark.parametrize("a", [-0.5, -0.75])
def test_cubic_coefficients_and_the_outside(a: float) -> None:
    attributes = {"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": 1}
    check_resize(operands((1, 1, 4, 3), sizes=[1, 1, 7, 5]), attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop_and_resize(mode: str) -> None:
    attributes = {
        "mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.5,
        "nearest_mode": "floor",
    }  # fmt: skip
    roi = [0, 0, 0.4, -0.3, 1, 1, 1.3, 0.8]
    check_resize(operands((1, 1, 4, 5), sizes=[1, 1, 3, 6], roi=roi), attributes)
    check_resize(operands((1, 1, 4, 5), scales=[1, 1, 0.8, 1.2], roi=roi), attributes)
    check_resize(operands((1, 1, 4, 5), sizes=[1, 1, 4, 5], roi=roi), attributes)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_axes_and_aspect_ratio(mode: str, policy: str) -> None:
    attributes = {"mode": mode, "axes": [2, 3], "keep_aspect_ratio_policy": policy}
    check_resize(operands((2, 1, 3, 5), sizes=[5, 6]), attributes)
    check_resize(operands((1, 1, 7, 4), sizes=[3, 3]), {**attributes, "axes": [3, 2]})


def test_empty_batch_and_single_elements() -> None:
    for mode in ("nearest", "linear"):
        check_resize(operands((1, 1, 1, 1), scales=[1, 1, 3, 2]), {"mode": mode})
        check_resize(operands((0, 1, 2, 2), scales=[1, 1, 3, 2]), {"mode": mode})
        check_resize(operands((0, 1, 2, 2), sizes=[0, 1, 3, 5]), {"mode": mode})


@pytest.mark.parametrize("opset", [21, 25])
def test_newer_opsets(opset: int) -> None:
    check_resize(operands((1, 1, 3, 4), scales=[1, 1, 2, 1.5]), {"mode": "linear"}, opset=opset)


def test_roi_on_the_path_is_refused() -> None:
    inputs = operands((1, 1, 4, 5), sizes=[1, 1, 3, 6], roi=[0, 0, 0.4, 0, 1, 1, 1, 0.8])
    model = node_model("Resize", inputs, {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"})
    feeds = {n: a for n, a in inputs.items() if a is not None}
    with pytest.raises(UnsupportedOperatorError, match="a path leads to its roi or scales"):
        gradients_of(model, feeds, "y", ["roi"], np.zeros((1, 1, 3, 6)))


def test_the_batch_axis_of_computed_sizes_is_not_resized() -> None:
    """Sizes as exporters compute them, [Shape(x)[:2], 20, 30]: the batch is seen to be copied, and no matrix is made."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["nc"]),
        helper.make_node("Concat", ["nc", "hw"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    stored = [numpy_helper.from_array(np.asarray(v), n) for n, v in (("zero", [0]), ("two", [2]), ("hw", [5, 3]))]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 2, "H", "W"])],
        [helper.make_tensor_value_info("y", 1, ["N", 2, 5, 3])], stored,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    x, cotangent = rng.standard_normal((2, 2, 3, 4)).astype(np.float32), rng.standard_normal((2, 2, 5, 3))
    g = gradients_of(model, {"x": x}, "y", ["x"], cotangent.astype(np.float32))["x"]
    eye = np.eye(12, dtype=np.float32).reshape(12, 3, 4)
    columns = [Runner(model)({"x": np.broadcast_to(e, (1, 2, 3, 4)).copy()})[0][0, 0] for e in eye]
    expected = np.einsum("nchw,ihw->nci", cotangent, np.stack(columns)).reshape(2, 2, 3, 4)
    np.testing.assert_allclose(g, expected, atol=1e-5)
