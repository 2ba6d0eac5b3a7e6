"""From text to token ids, by the words of `Vocabulary`, and the masks that go with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_ig.cli.ports import Port
from onnx_ig.errors import FeedError, OptionError
from onnx_ig.manifest import Vocabulary

__all__ = ["Texts", "companion", "tokenize", "tokens_of"]


@dataclass(frozen=True)
class Texts:
    """Texts as rows: `tokens` without padding, `ids` [N, T], `present` [N, T] false on padding, `held` [N, T]."""

    tokens: list[list[str]]
    ids: NDArray[Any]
    present: NDArray[np.bool_]
    held: NDArray[np.bool_]


def tokens_of(text: str, vocabulary: Vocabulary) -> list[str]:
    """The tokens of a text; special tokens written out in it stay whole."""
    special = {t for t in (vocabulary.unk, vocabulary.pad, vocabulary.start, vocabulary.end, *vocabulary.hold) if t}
    # A word of the language that happens to be special is no reason to cut other words at it.
    marks = sorted((t for t in special if not t.isalnum()), key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, marks)) + ")", text) if marks else [text]
    found: list[str] = []
    for part in parts:
        found.extend([part] if part in marks else _split(part, vocabulary))
    if vocabulary.start is not None and found[:1] != [vocabulary.start]:
        found.insert(0, vocabulary.start)
    if vocabulary.end is not None and found[-1:] != [vocabulary.end]:
        found.append(vocabulary.end)
    return found


def _split(text: str, vocabulary: Vocabulary) -> list[str]:
    text = text.lower() if vocabulary.lowercase else text
    if vocabulary.split is None:
        return text.split()
    pattern = re.compile(vocabulary.split)
    if any(m.group() for m in pattern.finditer("aA0")):
        return [m.group() for m in pattern.finditer(text) if m.group()]
    return [part for part in pattern.split(text) if part]


def tokenize(texts: Sequence[str], vocabulary: Vocabulary, port: Port) -> Texts:
    """Texts as one batch of ids for the input, padded on the right.

    Raises FeedError for a word that is not in a vocabulary without `unk`, for texts of several lengths without `pad`,
    for an empty text and for one longer than the input takes.
    """
    if port.dtype is None or port.dtype.kind not in "iu" or port.rank not in (None, 1, 2):
        raise OptionError(f"the input {port} takes no token ids")
    index = {token: i for i, token in enumerate(vocabulary.tokens)}
    rows = [tokens_of(text, vocabulary) for text in texts]
    for text, row in zip(texts, rows, strict=True):
        if not row:
            raise FeedError(f"the text {text!r} holds no tokens")
        unknown = [t for t in row if t not in index]
        if unknown and vocabulary.unk is None:
            raise FeedError(f"{unknown[0]!r} is not in the model's vocabulary, which has no token for unknown words")
    length = _length(rows, vocabulary, port)
    ids = np.full((len(rows), length), index.get(vocabulary.pad or "", 0), np.int64)
    present = np.zeros((len(rows), length), np.bool_)
    held = np.ones((len(rows), length), np.bool_)
    keep = {vocabulary.start, vocabulary.end, *vocabulary.hold}
    for i, row in enumerate(rows):
        ids[i, : len(row)] = [index.get(t, index.get(vocabulary.unk or "", 0)) for t in row]
        present[i, : len(row)] = True
        held[i, : len(row)] = [t in keep for t in row]
    if port.rank == 1:
        if len(rows) > 1:
            raise FeedError(f"the input {port} takes one text")
        ids, present, held = ids[0], present[0], held[0]
    return Texts(rows, ids.astype(port.dtype), present, held)


def _length(rows: Sequence[Sequence[str]], vocabulary: Vocabulary, port: Port) -> int:
    longest = max(map(len, rows))
    fixed = port.shape[-1] if port.shape else None
    if fixed is not None and longest > fixed:
        raise FeedError(f"a text has {longest} tokens, and the input {port} takes {fixed}")
    length = fixed or longest
    if vocabulary.pad is None and any(len(row) != length for row in rows):
        raise FeedError(
            f"texts of {sorted({len(row) for row in rows})} tokens do not make one batch of {length}: the model's "
            "vocabulary names no padding token"
        )
    return length


def companion(port: Port, present: NDArray[np.bool_]) -> NDArray[Any] | None:
    """What an input beside the ids is fed, by its name: mask, segments, positions or lengths; None for another one."""
    if port.dtype is None or port.dtype.kind not in "iufb":
        return None
    name = port.name.lower()
    if "mask" in name:
        values: Any = present
    elif "type" in name or "segment" in name:
        values = np.zeros(present.shape)
    elif "pos" in name:
        values = np.broadcast_to(np.arange(present.shape[-1]), present.shape)
    elif "len" in name:
        values = present.sum(-1)
    else:
        return None
    array = np.asarray(values)
    if port.rank is not None and port.rank != array.ndim:
        return None
    return np.ascontiguousarray(array, port.dtype)
