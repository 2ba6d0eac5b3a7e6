from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import SHAPES
from tests.linear import check_linear

rng = np.random.default_rng(0)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("batch", "channels", "image", "block", "attributes"),
    [
        (2, 3, (5, 4), (2, 3), {}),
        (1, 2, (5, 6), (3, 2), {"strides": [2, 1], "pads": [1, 0, 1, 2]}),
        (1, 1, (6, 5), (2, 2), {"dilations": [3, 2]}),
        (2, 2, (7,), (3,), {"strides": [2]}),
        (1, 1, (3, 3, 4), (2, 1, 2), {"pads": [1, 0, 0, 0, 0, 1]}),
        (1, 1, (1,), (1,), {}),
        (0, 2, (4, 4), (2, 2), {}),
    ],
)
def test_col2im(
    batch: int, channels: int, image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, Any], stored: bool
) -> None:
    rank = len(image)
    strides, dilations = (np.asarray(attributes.get(n, [1] * rank)) for n in ("strides", "dilations"))
    pads = np.asarray(attributes.get("pads", [0] * 2 * rank))
    counts = (np.asarray(image) + pads[:rank] + pads[rank:] - dilations * (np.asarray(block) - 1) - 1) // strides + 1
    inputs = {
        "x": rng.standard_normal((batch, channels * int(np.prod(block)), int(np.prod(counts)))),
        "image": np.asarray(image, np.int64),
        "block": np.asarray(block, np.int64),
    }
    check_linear("Col2Im", inputs, attributes, constants=("image", "block") if stored else (), shapes=SHAPES)
