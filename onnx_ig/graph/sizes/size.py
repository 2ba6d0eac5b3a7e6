"""Sizes: products of a number and named dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ONE", "ROWS", "Size", "product"]

ROWS = "<rows>"
"""The symbol of the number of rows of a batch; no dimension of a file is named so."""

_PRODUCT = re.compile(r"[^*+/\-\s]+(\*[^*+/\-\s]+)*")


@dataclass(frozen=True)
class Size:
    """`number` times the product of `symbols` (sorted, repeated where they are powers)."""

    number: int
    symbols: tuple[str, ...] = ()

    @staticmethod
    def named(symbol: str) -> Size:
        return Size(1, (symbol,))

    @staticmethod
    def parse(name: str) -> Size:
        """The size that a dimension's name says: exporters write products as "16*batch". Other names are symbols."""
        if "(" in name or not _PRODUCT.fullmatch(name):
            return Size.named(name)
        factors = name.split("*")
        numbers = [int(f) for f in factors if f.isdecimal()]
        symbols = tuple(sorted(f for f in factors if not f.isdecimal()))
        return product([*(Size(n) for n in numbers), Size(1, symbols)])

    @property
    def known(self) -> int | None:
        """The number, where no symbol is in it."""
        return None if self.symbols else self.number

    @property
    def open(self) -> bool:
        """Whether it grows with the number of rows."""
        return ROWS in self.symbols

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
        factor = rows ** self.symbols.count(ROWS)
        return Size(self.number * factor, tuple(s for s in self.symbols if s != ROWS))

    def __str__(self) -> str:
        return "*".join([*([str(self.number)] if self.number != 1 or not self.symbols else []), *self.symbols])


ONE = Size(1)


def product(sizes: Iterable[Size]) -> Size:
    total = ONE
    for size in sizes:
        total = total * size
    return total
