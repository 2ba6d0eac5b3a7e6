"""Writing drawings: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ig.arguments import as_path
from onnx_ig.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save"]

_HTML = (".html", ".htm")


def save(drawing: Figure | str, path: str | os.PathLike[str], dpi: int = 100) -> Path:
    """Write a Figure (.png, .svg, .pdf, .jpg ...) or an HTML text (.html) to `path`, and return it.

    The file appears whole or not at all. Raises OptionError where the folder does not exist, cannot be written, or the
    ending does not fit the drawing, and for what is no drawing or no path.
    """
    path = as_path(path, "path")
    if not isinstance(drawing, str) and not hasattr(drawing, "savefig"):
        raise OptionError(f"a drawing is a matplotlib Figure or an HTML text, not {type(drawing).__name__}")
    if isinstance(drawing, str) != (path.suffix.lower() in _HTML):
        kind, ending = ("text in colours", ".html") if isinstance(drawing, str) else ("picture", ".png, .svg or .pdf")
        raise OptionError(f"this drawing is a {kind}: its file ends in {ending}, not {path.suffix or path.name!r}")
    if not path.parent.is_dir():
        raise OptionError(f"{path} cannot be written: there is no folder {path.parent}")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
            written = Path(scratch) / path.name
            if isinstance(drawing, str):
                written.write_text(drawing, encoding="utf-8")
            else:
                drawing.savefig(written, dpi=dpi)
            os.replace(written, path)
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # matplotlib, for an ending it does not know
        raise OptionError(f"{path} cannot be written: {error}") from error
    return path
