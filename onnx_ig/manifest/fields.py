"""Checks of the fields of records: each says in words what it wanted and what it got, as an OptionError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from onnx_ig.arguments import is_whole
from onnx_ig.errors import OptionError

__all__ = ["mapping", "number", "numbers", "one_of", "pair", "set_field", "shown", "text", "texts", "whole"]


def set_field(record: Any, name: str, value: Any) -> None:
    """Normalise a field of a frozen record while it is made."""
    object.__setattr__(record, name, value)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def whole(name: str, value: Any, least: int) -> None:
    if not is_whole(value) or value < least:
        raise OptionError(f"{name} must be a whole number from {least}, not {shown(value)}")


def number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not isfinite(value):
        raise OptionError(f"{name} must be a number, not {shown(value)}")
    return float(value)


def numbers(name: str, value: Any) -> tuple[float, ...]:
    if isinstance(value, list | tuple | np.ndarray):
        if not len(value):
            raise OptionError(f"{name} is empty")
        return tuple(number(name, v) for v in value)
    return (number(name, value),)


def pair(name: str, value: Any) -> tuple[int, int]:
    values = value if isinstance(value, list | tuple | np.ndarray) else (value, value)
    if len(values) != 2 or not all(is_whole(v) and v >= 1 for v in values):
        raise OptionError(f"{name} must be [height, width] in pixels, or one number for both, not {shown(value)}")
    return int(values[0]), int(values[1])


def text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise OptionError(f"{name} must be a text, not {shown(value)}")


def texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise OptionError(f"{name} must be a list of texts, not {shown(values)}")
    for value in values:
        if not isinstance(value, str):
            raise OptionError(f"{name} must be a list of texts; one of them is {shown(value)}")
    return tuple(map(str, values))


def mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise OptionError(f"{name} must map names to values, not {shown(value)}")


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise OptionError(f"{name} must be one of {', '.join(known)}, not {shown(value)}")
