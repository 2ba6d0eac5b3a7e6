"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from onnx_ig.errors import ModelError
from onnx_ig.runtime.writing import whole_file


def test_a_file_takes_the_place_of_the_old_one_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    with whole_file(path) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_it_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    """Results are for colleagues too; files of `tempfile` are for nobody else."""
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "a") as stream:
            np.save(stream, np.ones(2))
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("x")])
def test_nothing_is_left_of_what_fails(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def fail() -> None:
        with whole_file(tmp_path / "a") as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"a cannot be written: No space left"), whole_file(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ModelError, match=r"nowhere/a cannot be written"), whole_file(tmp_path / "nowhere" / "a"):
        pass
