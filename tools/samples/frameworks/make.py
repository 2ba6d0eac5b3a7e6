"""Every network from every framework: `make` of the samples called `frameworks`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from . import pytorch, sklearn_

NAME = "frameworks"
TOOLS = Path(__file__).resolve().parents[2]


def make(folder: Path, downloads: Path) -> str:
    """Train in PyTorch, bring the weights to the other frameworks, each in a process of its own; returns lines.

    tf2onnx does not name and merge constants alike every time, so the Keras files differ in bytes, not in what they
    compute. Raises subprocess.CalledProcessError where a process fails; what it printed is shown.
    """
    weights = downloads / "framework_weights.npz"
    said = pytorch.make(folder, weights) + sklearn_.make(folder)
    fixed = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    for module in ("keras_", "jax_"):
        command = [sys.executable, "-m", f"samples.frameworks.{module}", str(folder.resolve()), str(weights.resolve())]
        done = subprocess.run(
            command, cwd=TOOLS, env={**os.environ, **fixed}, check=True, stdout=subprocess.PIPE, text=True
        )
        said += done.stdout.splitlines()
    return "\n".join(said)
