"""What the package offers, and that a serving image needs onnxruntime and numpy alone."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import onnx_ig

MODULES = sorted(m.name for m in pkgutil.walk_packages(onnx_ig.__path__, "onnx_ig.") if not m.name.endswith("__main__"))


def test_names_are_sorted_documented_and_there() -> None:
    assert onnx_ig.__all__ == sorted(onnx_ig.__all__)
    assert dir(onnx_ig) == onnx_ig.__all__
    for name in onnx_ig.__all__:
        assert getattr(onnx_ig, name).__doc__, name
    with pytest.raises(AttributeError, match="nothing"):
        _ = onnx_ig.nothing
    assert onnx_ig.__version__


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_and_keeps_its_word(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for public in getattr(module, "__all__", []):
        assert hasattr(module, public), public


def test_the_runtime_needs_onnxruntime_and_numpy_alone() -> None:
    program = (
        "import sys\n"
        "for name in ('onnx', 'onnx_ir', 'onnx_graphsurgeon', 'matplotlib', 'PIL', 'click', 'tqdm', 'google'):\n"
        "    sys.modules[name] = None\n"
        "import onnx_ig\n"
        "assert onnx_ig.runtime.load\n"
        "assert onnx_ig.OptionError\n"
        "assert onnx_ig.load_result\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_is_light() -> None:
    program = "import sys, onnx_ig; assert not {'onnx', 'onnxruntime', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
