from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gradcheck import check

rng = np.random.default_rng(0)


def deform_inputs(
    n: int, c: int, m: int, lengths: tuple[int, int], kernel: tuple[int, int], attributes: dict[str, Any], *,
    bias: bool, mask: bool,
) -> dict[str, np.ndarray | None]:  # fmt: skip
    """Offsets whose fractional part is in (0.1, 0.9): no tap is at an element."""
    group, offsets = attributes.get("group", 1), attributes.get("offset_group", 1)
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0] * 4)
    out = [
        (lengths[i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(2)
    ]
    taps = kernel[0] * kernel[1]
    offset = rng.integers(-2, 2, (n, offsets * taps * 2, *out)) + rng.uniform(0.1, 0.9, (n, offsets * taps * 2, *out))
    return {
        "x": rng.standard_normal((n, c, *lengths)),
        "w": rng.standard_normal((m, c // group, *kernel)),
        "offset": offset,
        "b": rng.standard_normal(m) if bias else None,
        "mask": rng.uniform(0, 1, (n, offsets * taps, *out)) if mask else None,
    }


@pytest.mark.parametrize(
    ("n", "c", "m", "lengths", "kernel", "attributes"),
    [
        (2, 2, 3, (4, 5), (3, 2), {"pads": [1, 0, 1, 1]}),
        (1, 4, 6, (5, 4), (2, 2), {"group": 2, "offset_group": 2, "strides": [2, 1]}),
        (2, 4, 2, (5, 5), (2, 3), {"offset_group": 2, "dilations": [2, 1], "pads": [0, 1, 2, 0]}),
        (1, 4, 4, (3, 3), (1, 1), {"group": 4}),
        (0, 2, 2, (3, 3), (2, 2), {}),
    ],
)
@pytest.mark.parametrize(("bias", "mask"), [(True, True), (False, False)])
def test_deform_conv(
    n: int, c: int, m: int, lengths: tuple[int, int], kernel: tuple[int, int], attributes: dict[str, Any], bias: bool,
    mask: bool,
) -> None:  # fmt: skip
    inputs = deform_inputs(n, c, m, lengths, kernel, attributes, bias=bias, mask=mask)
    check("DeformConv", inputs, attributes, shapes=("static", "unranked") if bias else ("dynamic",), step=1e-6)
    if mask:
        check(
            "DeformConv", inputs, {**attributes, "kernel_shape": kernel}, constants=("w",), shapes=("batch",), step=1e-6
        )


def test_newest_opset() -> None:
    inputs = deform_inputs(1, 1, 1, (3, 3), (2, 2), {}, bias=True, mask=True)
    check("DeformConv", inputs, opset=25, shapes=("dynamic",), step=1e-6)
