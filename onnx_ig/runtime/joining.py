"""Results of blocks of samples as one: in memory, and from file to file without holding them all."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onnx_ig.errors import ModelError
from onnx_ig.runtime.session import Array
from onnx_ig.runtime.writing import whole_file

__all__ = ["as_long", "join_saved"]

_SUMS = ("gradients", "forwards")


def join_saved(parts: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str]) -> Path:
    """Write the results in `parts`, files of `Attribution.save`, behind each other to one such file, whole or not at all.

    One array of one part is in memory at a time where samples lie along the first axis. Raises ModelError where a file
    cannot be read or written.
    """
    path = Path(path)
    files = [_open(p) for p in parts]
    try:
        about, counts = _about(files)
        with whole_file(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in files[0].files:
                if name != "onnx_ig":
                    _write(archive, name, files, _axis(name, files[0][name], about, counts[0]))
            _put(archive, "onnx_ig", [lambda: np.frombuffer(json.dumps(about).encode(), np.uint8)])
    finally:
        for file in files:
            file.close()
    return path


def _open(path: str | os.PathLike[str]) -> Any:
    try:
        file = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path} is not a file that Attribution.save wrote: {error}") from error
    return file


def _about(files: Sequence[Any]) -> tuple[dict[str, Any], list[int]]:
    """What is said of the whole, and how many samples each part has."""
    told = [json.loads(bytes(f["onnx_ig"]).decode()) for f in files]
    about = dict(told[0])
    for name in _SUMS:
        about[name] = sum(t[name] for t in told)
    about["notes"] = list(dict.fromkeys(note for t in told for note in t["notes"]))
    return about, [len(f["prediction"]) for f in files]


def _axis(name: str, array: Array, about: dict[str, Any], count: int) -> int | None:
    """Along which samples lie; None for what is the same in every part."""
    group, _, key = name.partition("/")
    if group in ("attributions", "full", "feeds") and key in about.get("axes", {}):
        axis = about["axes"][key]
        return None if axis is None else int(axis)
    if name == "target" and array.ndim == 3:
        return 1
    return 0 if array.ndim and array.shape[0] == count else None


def _write(archive: zipfile.ZipFile, name: str, files: Sequence[Any], axis: int | None) -> None:
    if axis is None:
        _put(archive, name, [lambda: files[0][name]])
    elif axis or name.startswith("curves/"):
        arrays = [f[name] for f in files]
        whole = np.concatenate(as_long(arrays) if name.startswith("curves/") else arrays, axis=axis)
        _put(archive, name, [lambda: whole])
    else:
        _put(archive, name, [partial(_member, f, name) for f in files])


def _member(file: Any, name: str) -> Array:
    return np.asarray(file[name])


def _put(archive: zipfile.ZipFile, name: str, parts: Sequence[Callable[[], Array]]) -> None:
    """One member, of parts that are behind each other; each is made when it is its turn, and once for its shape."""
    first = parts[0]()
    shape = first.shape if len(parts) == 1 else (sum(len(part()) for part in parts), *first.shape[1:])
    header = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for part in parts:
            member.write(np.ascontiguousarray(part()).tobytes())


def as_long(curves: Sequence[Array]) -> list[Array]:
    """Curves [..., m] with as many steps as the longest, NaN behind their own; those of one length as they are."""
    most = max(c.shape[-1] for c in curves)
    return [
        c
        if c.shape[-1] == most
        else np.pad(c, [*[(0, 0)] * (c.ndim - 1), (0, most - c.shape[-1])], constant_values=np.nan)
        for c in curves
    ]
