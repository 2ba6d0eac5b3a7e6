"""What all commands share: warnings, progress, defects, and the end of a run."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner

from onnx_ig.cli.app import Commands, progress
from onnx_ig.errors import FeedError, OnnxIgWarning, OptionError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def outcome(body: Callable[[], Any]) -> Any:
    """The result of a command that does what `body` does."""

    @click.group(cls=Commands)
    def group() -> None:
        pass

    @group.command()
    def go() -> None:
        body()

    return CliRunner().invoke(group, ["go"])


def raising(error: BaseException) -> Any:
    def body() -> None:
        raise error

    return outcome(body)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OptionError("no such name"), 2, "Error: no such name\n"),
        (FeedError("a NaN"), 1, "Error: a NaN\n"),
        (FileNotFoundError(2, "No such file", "x.npy"), 1, "Error: x.npy: No such file\n"),
        (MemoryError(), 1, "Error: out of memory; a smaller --internal-batch-size needs less\n"),
        (KeyError("lost"), 1, "Error: a defect in onnx_ig: KeyError: 'lost' (ONNX_IG_TRACEBACK=1 shows where; "),
    ],
)
def test_errors(error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONNX_IG_TRACEBACK", raising=False)
    result = raising(error)
    assert result.exit_code == status
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_defect_shows_where_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_IG_TRACEBACK", "1")
    assert "Traceback" in raising(KeyError("lost")).stderr


def test_warnings_of_ours_are_lines_and_others_are_silent() -> None:
    def body() -> None:
        warnings.warn("the delta is large", OnnxIgWarning, stacklevel=1)
        warnings.warn("somebody's old function", DeprecationWarning, stacklevel=1)

    result = outcome(body)
    assert (result.exit_code, result.stderr) == (0, "Warning: the delta is large\n")
    shown = warnings.showwarning
    outcome(body)
    assert warnings.showwarning is shown  # and nothing stays behind


def test_interruption() -> None:
    result = raising(KeyboardInterrupt())
    assert result.exit_code == 1
    assert "Traceback" not in result.output


def test_interruption_of_an_import_is_no_defect() -> None:
    def body() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("initialization failed")  # noqa: B904  (as extension modules do it)

    result = outcome(body)
    assert result.exit_code == 1
    assert result.output == "\nAborted!\n"


def test_progress_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress("gradient") as report:
        assert report is None
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TQDM_MININTERVAL", "0")
    with progress("gradient") as report:
        assert report is not None
        report(5, 20)
        report(20, 20)
    assert "20/20" in sys.stderr.getvalue()
    assert "gradient" in sys.stderr.getvalue()
