"""The coverage page says what the registry says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import onnx
import pytest

TOOL = Path(__file__).parents[1] / "tools" / "op_coverage.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("op_coverage", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(tool: ModuleType) -> None:
    written = TOOL.with_suffix(".md").read_text(encoding="utf-8")
    if f"onnx {onnx.__version__};" not in written:
        pytest.skip("the page was written with another version of onnx")
    assert tool.page() == written, "run python tools/op_coverage.py --write"


def test_every_differentiable_operator_is_covered(tool: ModuleType) -> None:
    missing = [s.name for s in tool.newest() if tool.differentiable(s) and tool.status(s) == "refused"]
    assert missing == []
