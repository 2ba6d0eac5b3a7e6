"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from onnx_ig.errors import ModelError

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file `path` when the block ends; nothing is left where it fails.

    The file gets the rights that new files get, unlike those of `tempfile`. Raises ModelError where it cannot be written.
    """
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        try:
            with scratch.open("xb") as stream:
                yield stream
            os.replace(scratch, path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror or error}") from error
