"""Sizes: products of a number, named dimensions and the number of rows, and what graphs compute with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["BATCH", "ONE", "Size", "product"]

BATCH = "<rows>"
"""The symbol of the number of rows; no dimension of a file is named so."""


@dataclass(frozen=True)
class Size:
    """`number` times the product of `symbols` (sorted, repeated where they are powers)."""

    number: int
    symbols: tuple[str, ...] = ()

    @staticmethod
    def named(symbol: str) -> Size:
        return Size(1, (symbol,))

    @property
    def known(self) -> int | None:
        """The number, where no symbol is in it."""
        return None if self.symbols else self.number

    @property
    def open(self) -> bool:
        """Whether it grows with the number of rows."""
        return BATCH in self.symbols

    def __mul__(self, other: Size) -> Size:
        return Size(self.number * other.number, tuple(sorted((*self.symbols, *other.symbols))))

    def over(self, other: Size) -> Size | None:
        """The exact quotient; None where it is not a size for certain."""
        if other.number == 0 or self.number % other.number:
            return None
        left = list(self.symbols)
        for symbol in other.symbols:
            if symbol not in left:
                return None
            left.remove(symbol)
        return Size(self.number // other.number, tuple(left))

    def at(self, rows: int | None) -> Size:
        """The size where the number of rows is fixed."""
        if rows is None:
            return self
        factor = rows ** self.symbols.count(BATCH)
        return Size(self.number * factor, tuple(s for s in self.symbols if s != BATCH))

    def __str__(self) -> str:
        return "*".join([*([str(self.number)] if self.number != 1 or not self.symbols else []), *self.symbols])


ONE = Size(1)


def product(sizes: Iterable[Size]) -> Size:
    total = ONE
    for size in sizes:
        total = total * size
    return total
