from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import SHAPES, check, gradients_of, node_model

rng = np.random.default_rng(0)


def roi_inputs(x: tuple[int, ...], rois: list[list[float]], images: list[int]) -> dict[str, np.ndarray | None]:
    return {
        "x": rng.standard_normal(x),
        "rois": np.asarray(rois, float).reshape(-1, 4),
        "i": np.asarray(images, np.int64),
    }


ROIS = [[0.31, 0.57, 4.13, 3.71], [-1.2, -0.9, 2.37, 9.16], [2.11, 1.07, 2.93, 1.61], [1.0, 2.0, 8.27, 3.33]]


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
        {"output_height": 3, "output_width": 2, "sampling_ratio": 0, "spatial_scale": 0.7},
        {},
    ],
)
def test_roi_align(attributes: dict[str, Any], coordinates: str) -> None:
    attributes = {**attributes, "coordinate_transformation_mode": coordinates}
    check(
        "RoiAlign", roi_inputs((2, 2, 5, 6), ROIS, [1, 0, 1, 1]), attributes, shapes=("static", "unranked"), step=1e-6
    )
    check("RoiAlign", roi_inputs((1, 1, 1, 2), ROIS[:2], [0, 0]), attributes, shapes=("dynamic",), wrt=("x",))


def test_no_regions_and_regions_without_extent() -> None:
    check("RoiAlign", roi_inputs((2, 2, 4, 4), [], []), {}, shapes=("static", "dynamic"))
    check("RoiAlign", roi_inputs((1, 2, 4, 4), [[1.2, 1.3, 1.2, 1.3]], [0]), {"output_height": 2}, wrt=("x",))


def test_maximum_of_samples_is_refused() -> None:
    inputs = roi_inputs((1, 1, 4, 4), ROIS[:1], [0])
    feeds = {n: a for n, a in inputs.items() if a is not None}
    with pytest.raises(UnsupportedOperatorError, match="runtimes disagree about the maximum"):
        gradients_of(node_model("RoiAlign", inputs, {"mode": "max"}), feeds, "y", ["x"], np.zeros((1, 1, 1, 1)))


def first_maxima(x: np.ndarray, rois: np.ndarray, size: tuple[int, int], scale: float, g: np.ndarray) -> np.ndarray:
    """Girshick 2015 in a loop; halves are rounded away from zero."""
    gx = np.zeros_like(x)
    for r, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(v * scale + 0.5)) for v in corners)
        for c in range(x.shape[1]):
            for i in range(size[0]):
                for j in range(size[1]):
                    high, wide = max(y2 - y1 + 1, 1) / size[0], max(x2 - x1 + 1, 1) / size[1]
                    rows = range(
                        max(y1 + int(np.floor(i * high)), 0), min(y1 + int(np.ceil((i + 1) * high)), x.shape[2])
                    )
                    cols = range(
                        max(x1 + int(np.floor(j * wide)), 0), min(x1 + int(np.ceil((j + 1) * wide)), x.shape[3])
                    )
                    places = [(x[int(image), c, h, w], -h, -w) for h in rows for w in cols]
                    if places:
                        _, h, w = max(places)
                        gx[int(image), c, -h, -w] += g[r, c, i, j]
    return gx


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize(("size", "scale"), [((2, 3), 1.0), ((1, 1), 0.5), ((4, 4), 1.0)])
def test_max_roi_pool(size: tuple[int, int], scale: float, shapes: str) -> None:
    """By literals of the definition: the pooling is piecewise constant in its regions, and has ties here."""
    x = rng.integers(0, 6, (2, 3, 5, 6)).astype(np.float32)
    rois = np.asarray(
        [[0, 0, 0, 3, 4], [1, 2, 1, 9, 3], [1, 3, 3, 3, 3], [0, -3, -2, 1, 1], [0, 7, 7, 9, 9]], np.float32
    )
    model = node_model(
        "MaxRoiPool", {"x": x, "rois": rois}, {"pooled_shape": size, "spatial_scale": scale}, dtype=np.float32,
        shapes=shapes,
    )  # fmt: skip
    g = rng.standard_normal((5, 3, *size)).astype(np.float32)
    got = gradients_of(model, {"x": x, "rois": rois}, "y", ["x"], g)["x"]
    np.testing.assert_allclose(got, first_maxima(x, rois, size, scale, g), atol=1e-5)
