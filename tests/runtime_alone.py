"""Run by CI where only onnxruntime and numpy are installed: a rewritten model is explained without onnx.

onnx-ig rewrite sample_models/digits.onnx -o digits_ig.onnx     # elsewhere
python tests/runtime_alone.py digits_ig.onnx
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np

import onnx_ig

ABSENT = ("onnx", "onnx_ir", "onnx_graphsurgeon", "matplotlib", "click")


def main() -> None:
    present = [name for name in ABSENT if importlib.util.find_spec(name) is not None]
    assert not present, f"this environment also has {present}"
    model = onnx_ig.runtime.load(sys.argv[1])
    x = np.random.default_rng(0).random((5, 1, 8, 8), np.float32)
    result = model.run(x, internal_batch_size=2)
    assert result["image"].shape == x.shape
    assert np.abs(result.convergence_delta).max() < 0.05 * np.abs(result.prediction).max()
    print("onnx_ig.runtime works with onnxruntime and numpy alone")


if __name__ == "__main__":
    main()
