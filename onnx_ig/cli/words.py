"""Lists of words from files or from the command line: labels, vocabularies, names of features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onnx_ig.errors import OptionError

__all__ = ["read_json_or_lines", "word_list"]


def word_list(text: str, option: str) -> list[str]:
    """Words from a file (a .json list, or one a line), or with commas between. Raises OptionError."""
    if not Path(text).is_file():
        if Path(text).suffix.lower() in (".txt", ".json", ".csv"):
            raise OptionError(f"{option}: there is no file {text}")
        return [word.strip() for word in text.split(",")]
    value = read_json_or_lines(Path(text), option)
    if not isinstance(value, list) or not all(isinstance(v, str | int) for v in value):
        raise OptionError(f"{option}: {text} must hold a list of words")
    return [str(v) for v in value]


def read_json_or_lines(path: Path, option: str) -> Any:
    """The value of a .json file, or the lines of another one without empty ones at the end. Raises OptionError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{option}: {path} cannot be read: {error}") from error
    if path.suffix.lower() != ".json":
        # Only line feeds: other separators of Unicode may be tokens of a vocabulary.
        return [line.rstrip("\r") for line in text.rstrip("\r\n").split("\n")] if text.strip() else []
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(f"{option}: {path} is not JSON: {error}") from error
