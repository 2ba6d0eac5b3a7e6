"""Arguments that are words, places or counts: checked where a caller gives them, with errors in the caller's words."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from onnx_ig.errors import OptionError

__all__ = ["as_path", "check_count", "check_word", "is_whole"]


def as_path(given: Any, what: str) -> Path:
    """`given` as the path of a file. Raises OptionError for what names none: a number, bytes, an empty text, a NUL."""
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        if isinstance(path, str) and Path(path).name and "\0" not in path:
            return Path(path)
    raise OptionError(f"{what}={given!r}: the path of a file is needed")


def check_word(given: Any, known: Collection[str], what: str) -> None:
    """Raises OptionError where `given` is not one of the words that are known."""
    if not isinstance(given, str) or given not in known:
        raise OptionError(f"{what}={given!r} is not known; choose from {', '.join(known)}")


def is_whole(given: Any) -> bool:
    """Whether `given` is a whole number, and not a truth value."""
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def check_count(given: Any, what: str) -> None:
    """Raises OptionError where `given` is not a whole number of at least 1."""
    if not is_whole(given) or given < 1:
        raise OptionError(f"{what}={given!r}: a whole number of at least 1 is needed")
