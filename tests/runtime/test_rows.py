"""One sample of a result, wherever its batch axis is, and whether or not it has one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_ig
from onnx_ig.cli.reading import Reading
from onnx_ig.cli.report import _top
from onnx_ig.manifest import Metadata
from onnx_ig.runtime.rows import row_of

DRAW = np.random.default_rng(11)
W = DRAW.standard_normal((3, 2)).astype(np.float32)


def model_of(shape: str, output: str, axis: int) -> onnx.ModelProto:
    """Sums over one axis of x, weighted by position, and W behind: every entry's attribution is known."""
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]>\n'
        f"m (float{shape} x) => (float{output} y) <float[3,2] W = {{{', '.join(map(str, W.ravel()))}}}, int64[1] a = {{{axis}}}>"
        "{ s = ReduceSum<keepdims=0>(x, a)  y = MatMul(s, W) }"
    )


CASES = {
    "axis 0": ("[N,3,3]", "[N,2]", 1, (3, 3, 3), 0),
    "axis 1": ("[3,N,3]", "[N,2]", 0, (3, 3, 3), 1),
    "none": ("[2,3]", "[2]", 0, (2, 3), None),
    "none, one row": ("[1,3]", "[2]", 0, (1, 3), None),
}


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_the_sample_and_the_target(case: str, several: bool, saved: bool, tmp_path: Path) -> None:
    shape, output, summed, sizes, axis = CASES[case]
    x = DRAW.standard_normal(sizes).astype(np.float32)
    result = onnx_ig.Explainer(model_of(shape, output, summed)).attribute(x, target=[0, 1] if several else 1, n_steps=3)
    if saved:
        result = onnx_ig.load_result(result.save(tmp_path / "result"))
    assert result.axes == {"x": axis}
    for sample in range(len(result.prediction)):
        for target in (0, 1) if several else (None,):
            given = x if axis is None else x.take(sample, axis)
            expected = given * W[:, 1 if target is None else target]
            row = row_of(result, "x", result["x"], sample, target)
            np.testing.assert_allclose(row.reshape(expected.shape), expected, rtol=1e-4, atol=1e-6)
            found = _top(result, Reading({}), Metadata(), sample, target, 9)
            assert sum(f.attribution for f in found) == pytest.approx(float(expected.sum()), rel=1e-4, abs=1e-5)
    result.plot(tmp_path / "picture.png", sample=len(result.prediction) - 1, target=int(several))
