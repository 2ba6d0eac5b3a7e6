"""Running the command line as a user does, in a folder of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onnx_ig.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Callable[..., Result]:
    """`run("inspect", "m.onnx")`: the result, after what holds for every call has been checked."""

    def call(*arguments: str | os.PathLike[str], status: int = 0) -> Result:
        result = CliRunner().invoke(main, [os.fspath(a) for a in arguments])
        assert "Traceback" not in result.output, result.output
        assert "defect" not in result.stderr, result.stderr
        assert result.exit_code == status, result.output
        # Scratch files of half-done writes start with a point.
        assert not [p.name for p in folder.rglob(".*")]
        return result

    return call


@pytest.fixture
def fail(run: Callable[..., Result]) -> Callable[..., str]:
    """`fail(...)`: what stderr says of a call that must fail."""

    def call(*arguments: str | os.PathLike[str]) -> str:
        for status in (1, 2):
            try:
                result = run(*arguments, status=status)
            except AssertionError as error:
                if status == 2:
                    raise
                if "Traceback" in str(error) or "defect" in str(error):
                    raise
                continue
            assert result.stdout == ""
            assert "Error: " in result.stderr
            return result.stderr
        raise AssertionError("unreachable")

    return call


def parsed(result: Result) -> Any:
    """The JSON on stdout."""
    return json.loads(result.stdout)
