"""What every command shares: one sentence on stderr for what goes wrong, exit statuses, warnings, progress."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from onnx_ig.errors import OnnxIgError, OnnxIgWarning, OptionError

__all__ = ["DONE", "FAILED", "USAGE", "Commands", "note", "progress"]

DONE, FAILED, USAGE = 0, 1, 2


class Commands(click.Group):
    """The commands; whatever one of them raises becomes a line on stderr and an exit status, never a traceback.

    `ONNX_IG_TRACEBACK=1` in the environment shows the traceback as well, for reports.
    """

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", OnnxIgWarning)
            warnings.showwarning = _warn
            try:
                return super().invoke(ctx)
            except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError, KeyboardInterrupt):
                raise
            except OptionError as error:
                _fail(ctx, str(error), USAGE)
            except OnnxIgError as error:
                _fail(ctx, str(error), FAILED)
            except MemoryError:
                _fail(ctx, "out of memory; a smaller --internal-batch-size needs less", FAILED)
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                _fail(ctx, f"{where}{error.strerror or error}", FAILED)
            except Exception as error:  # a defect of ours, which no user should have to read as a traceback
                if _interrupted(error):
                    raise KeyboardInterrupt from error
                _fail(
                    ctx,
                    f"a defect in onnx_ig: {type(error).__name__}: {_first_line(error)} "
                    "(ONNX_IG_TRACEBACK=1 shows where; please report it)",
                    FAILED,
                )


def _fail(ctx: click.Context, message: str, status: int) -> None:
    if os.environ.get("ONNX_IG_TRACEBACK"):
        traceback.print_exc()
    click.echo(f"Error: {message}", err=True)
    ctx.exit(status)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: an extension module that is being imported makes an ImportError of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _warn(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
    if "tqdm" in sys.modules and sys.stderr.isatty():
        sys.modules["tqdm"].tqdm.write(f"Warning: {message}", file=sys.stderr)  # above a bar that is being drawn
    else:
        click.echo(f"Warning: {message}", err=True)


def note(text: str) -> None:
    """Something to know, on stderr."""
    click.echo(f"Note: {text}", err=True)


@contextmanager
def progress(description: str) -> Iterator[Callable[[int, int], None] | None]:
    """A callable (done, total) that draws a bar on stderr; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(desc=description, unit=" gradients", file=sys.stderr, leave=False) as bar:

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report
