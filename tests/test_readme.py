"""The README's Python, as it stands there, from the top of the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.filterwarnings("ignore:the baseline's own score:onnx_ig.OnnxIgWarning")
def test_the_blocks_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, names)
    a = names["a"]
    assert a["worst"].shape == (4, 10)
    assert a.prediction.shape == a.convergence_delta.shape == (4,)
    assert names["d_image"].name == "grad_image"
    assert {p.name for p in tmp_path.iterdir()} == {
        "sample_models", "tumour_attribution.npz", "digits_ig.onnx", "digits_gradient.onnx"
    }  # fmt: skip
