"""Numbers from files: what is read, and how what cannot be read is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_ig.cli.ports import Port
from onnx_ig.cli.tables import fit_rows, literal, read_npy, read_npz, read_table
from onnx_ig.errors import FeedError


def port(*shape: int | None, dtype: Any = np.float32) -> Port:
    return Port("x", np.dtype(dtype), shape)


def table(tmp_path: Path, text: str, fed: Port) -> Any:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return fit_rows(read_table(path), fed)


@pytest.mark.parametrize(
    "text", ["1,2.5\n3,-4e1\n", "1;2.5\n3;-4e1", "1\t2.5\r\n3\t-4e1\r\n\r\n", "﻿a,b\n 1 , 2.5\n3,-4e1\n"]
)
def test_tables(tmp_path: Path, text: str) -> None:
    array = table(tmp_path, text, port(None, 2))
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, [[1, 2.5], [3, -40]])


def test_a_row_takes_the_shape_of_the_input(tmp_path: Path) -> None:
    assert table(tmp_path, "1,2,3,4,5,6", port(None, 2, 3)).shape == (1, 2, 3)
    assert table(tmp_path, "1,2,3", port(3)).shape == (3,)
    assert table(tmp_path, "1,2,3", port(None, None)).shape == (1, 3)
    assert table(tmp_path, "7", port(dtype=np.int64)) == 7
    assert table(tmp_path, "true,False", port(None, 2, dtype=np.bool_)).tolist() == [[True, False]]
    assert table(tmp_path, "a,b", port(None, 2, dtype=object)).tolist() == [["a", "b"]]


def test_the_header_names_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,fare\n1,2\n")
    assert read_table(path).names == ["age", "fare"]
    path.write_text("1,2\n")
    assert read_table(path).names is None


@pytest.mark.parametrize(
    ("text", "fed", "words"),
    [
        ("", port(None, 2), "no rows"),
        ("1,2\n3\n", port(None, 2), "row 2 has 1 columns, and the first has 2"),
        ("a,b\n1,x\n", port(None, 2), "row 1, column b is 'x'"),
        ("1,\n", port(None, 2), "column 2 is empty"),
        ("1,2,3\n", port(None, 2), r"3 columns a row, which do not fit the input 'x' \(float32 \[\?, 2\]\)"),
        ("1.5,2\n", port(None, 2, dtype=np.int64), "is 1.5, and .* whole numbers"),
        ("nan,2\n", port(None, 2, dtype=np.int64), "whole numbers"),
        ("1,2\n", port(), "2 values, and the input .* takes one"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, text: str, fed: Port, words: str) -> None:
    with pytest.raises(FeedError, match=words):
        table(tmp_path, text, fed)


def test_numpy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), [0, 1, 2])
    assert sorted(read_npz(tmp_path / "a.npz")) == ["x", "y"]


def test_numpy_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for content in (b"", b"\x93NUMPY broken", b"PK\x03\x04 broken", b"words"):
        path.write_bytes(content)
        for read in (read_npy, read_npz):
            with pytest.raises(FeedError, match="is not a NumPy file"):
                read(path)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FeedError, match="no plain array"):
        read_npy(path)
    np.savez(tmp_path / "b.npz", a=np.ones(2))
    (tmp_path / "b.npz").rename(path)
    with pytest.raises(FeedError, match=r"name it \.npz"):
        read_npy(path)
    np.savez(tmp_path / "empty.npz")
    with pytest.raises(FeedError, match="holds no arrays"):
        read_npz(tmp_path / "empty.npz")


def test_literals() -> None:
    np.testing.assert_array_equal(literal("[[1, 2.5]]", port(None, 2)), [[1, 2.5]])
    assert literal("16000", port(dtype=np.int64)) == 16000
    np.testing.assert_array_equal(literal("3", port(None, 1)), [[3]])
    assert literal("photo.jpg", port(None, 2)) is None
    assert literal('"a"', port(None, 2)) is None
    with pytest.raises(FeedError, match="differ in length"):
        literal("[[1], [1, 2]]", port(None, 2))
    with pytest.raises(FeedError, match="does not fit"):
        literal("[1.5]", port(None, dtype=np.int64))
