"""Numbers from files: .npy, .npz, .csv, and values written on the command line."""

from __future__ import annotations

import csv
import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_ig.cli.ports import Port
from onnx_ig.errors import FeedError

__all__ = ["Table", "fit_rows", "literal", "read_npy", "read_npz", "read_table"]


@dataclass(frozen=True)
class Table:
    """A .csv: cells row by row, and the names of the columns where the first row gives them."""

    path: Path
    rows: list[list[str]]
    names: list[str] | None

    def columns(self, wanted: Sequence[int]) -> Table:
        names = None if self.names is None else [self.names[i] for i in wanted]
        return Table(self.path, [[row[i] for i in wanted] for row in self.rows], names)


def read_npy(path: Path) -> NDArray[Any]:
    """The array of a .npy file. Raises FeedError where it is none."""
    loaded = _numpy(path)
    if not isinstance(loaded, np.ndarray):
        raise FeedError(f"{path} is a .npz archive under another name; name it .npz")
    return loaded


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file. Raises FeedError where it is none, or empty."""
    loaded = _numpy(path)
    if isinstance(loaded, np.ndarray):
        raise FeedError(f"{path} is a .npy file under another name; name it .npy")
    if not loaded:
        raise FeedError(f"{path} holds no arrays")
    return loaded


def _numpy(path: Path) -> NDArray[Any] | dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, OSError, SyntaxError, zipfile.BadZipFile, zlib.error) as error:
        # numpy's own words speak of pickles, which these files must not hold.
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no plain array"
        raise FeedError(f"{path} is not a NumPy file that can be read: {why}") from error


def read_table(path: Path) -> Table:
    """The cells of a .csv with commas, semicolons or tabs. Raises FeedError where it is no table."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FeedError(f"{path} cannot be read as text: {error}") from error
    first = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=delimiter)]
    rows = [row for row in rows if any(row)]
    if not rows:
        raise FeedError(f"{path} holds no rows")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise FeedError(f"{path}: row {number} has {len(row)} columns, and the first has {len(rows[0])}")
    header = rows[0] if any(cell and _number(cell) is None for cell in rows[0]) and len(rows) > 1 else None
    return Table(path, rows[1:] if header else rows, header)


def fit_rows(table: Table, port: Port) -> NDArray[Any]:
    """The cells as the input takes them: a row a sample, [N, D], or reshaped to [N, ...] where the model fixes that.

    Raises FeedError for a cell that is no number, and for a number of columns that does not fit.
    """
    if port.dtype is None:
        raise FeedError(f"the input {port} takes no table")
    array = np.array([[_cell(c, port, table, i, j) for j, c in enumerate(r)] for i, r in enumerate(table.rows)], object)
    rows, columns = array.shape
    row = None if port.shape is None else port.shape[1:]
    if row is None or (len(row) == 1 and row[0] in (None, columns)):
        shape: tuple[int, ...] = (rows, columns)
    elif port.shape == (columns,) and rows == 1:
        shape = (columns,)
    elif port.shape is not None and row is not None and None not in row and _product(row) == columns:
        shape = (rows, *(d or 0 for d in row))
    elif port.shape == ():
        shape = ()
    else:
        raise FeedError(f"{table.path} has {columns} columns a row, which do not fit the input {port}")
    if shape == () and array.size != 1:
        raise FeedError(f"{table.path} has {array.size} values, and the input {port} takes one")
    return array.reshape(shape).astype(port.dtype)


def _product(dims: Sequence[int | None]) -> int:
    return int(np.prod([d or 0 for d in dims], dtype=np.int64))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _cell(cell: str, port: Port, table: Table, row: int, column: int) -> Any:
    assert port.dtype is not None
    if port.dtype.kind == "O":
        return cell
    number = _number({"true": "1", "false": "0"}.get(cell.lower(), cell))
    where = f"{table.path}: row {row + 1}, column {table.names[column] if table.names else column + 1}"
    if number is None:
        raise FeedError(f"{where} is {'empty' if not cell else repr(cell)}, and the input {port} takes numbers")
    if port.dtype.kind in "iub" and number != int(number if np.isfinite(number) else 0.5):
        raise FeedError(f"{where} is {cell}, and the input {port} takes whole numbers")
    return int(number) if port.dtype.kind in "iub" else number


def literal(text: str, port: Port) -> NDArray[Any] | None:
    """A number or nested list written on the command line, as the input's type; None where the text is neither."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return None
    if isinstance(value, dict | str) or value is None or port.dtype is None:
        return None
    try:
        array = np.array(value)
    except ValueError as error:
        raise FeedError(f"{text} is not an array: its rows differ in length") from error
    if array.dtype.kind not in "iufb" or (port.dtype.kind in "iub" and not (array == np.rint(array)).all()):
        raise FeedError(f"{text} does not fit the input {port}")
    if array.ndim == 0 and port.rank is not None:
        # One number stands for an input of one element.
        array = array.reshape((1,) * port.rank)
    return array.astype(port.dtype)
