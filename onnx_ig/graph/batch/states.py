"""What is known of a value's relation to the batch, and the table of rules that carry it through operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from onnx_ig.graph.sizes.size import ONE, ROWS, Size

if TYPE_CHECKING:
    from onnx_ig.graph.batch.analysis import Analysis

__all__ = ["FREE", "SIZES", "Index", "Mixed", "Mixes", "Rows", "State", "batch_rule", "rule_for"]


@dataclass(frozen=True)
class Rows:
    """Axis `axis` runs over the rows, and what stands at a row depends on that row alone.

    Its length is before * N * per: entry (i*N + n)*per + j belongs to row n. `uniform`: all rows hold the same, so that
    only the shape depends on the batch. `offsets`: entries count positions over the whole batch (indices of a MaxPool).
    """

    axis: int
    before: Size = ONE
    per: Size = ONE
    uniform: bool = False
    offsets: bool = False

    @property
    def length(self) -> Size:
        return self.before * Size.named(ROWS) * self.per

    @property
    def plain(self) -> bool:
        """Whether there is one entry a row."""
        return self.before == ONE and self.per == ONE

    def at(self, axis: int) -> Rows:
        return replace(self, axis=axis)

    def written(self) -> Rows:
        """As it is after something was written into it that rows may differ in."""
        return replace(self, uniform=False)


@dataclass(frozen=True)
class Index:
    """Entry n along `axis` is n * stride + r: the place r of row n, where every row has `stride` places one after another.

    r is a multiple of `step` below `stride`; with both 1, the entry is the number of the row.
    `leading`: that number is the first entry along the last axis, and the others index within the row.
    """

    axis: int
    stride: Size = ONE
    step: Size = ONE
    leading: bool = False

    @property
    def length(self) -> Size:
        return Size.named(ROWS)

    def at(self, axis: int) -> Index:
        return replace(self, axis=axis)


@dataclass(frozen=True)
class Free:
    """Depends neither on the rows nor on how many there are."""


@dataclass(frozen=True)
class Sizes:
    """Depends on how many rows there are and on nothing in them."""


@dataclass(frozen=True)
class Mixed:
    """Rows may influence each other; `reason` names the first node that makes it so.

    `axis`: the shape is as if they did not, with one entry a row along it. `addressed`: numbers of an input name
    rows (the edges of a graph its nodes), so what looked like rows are parts of one sample.
    """

    reason: str
    axis: int | None = None
    addressed: bool = False


State: TypeAlias = Rows | Index | Free | Sizes | Mixed
FREE = Free()
SIZES = Sizes()


class Mixes(Exception):
    """Raised by a rule: rows influence each other in this node, or it cannot be told that they do not.

    `axis` is where the result has one entry a row all the same.
    """

    def __init__(self, why: str, axis: int | None = None):
        super().__init__(why)
        self.axis = axis


Rule = Callable[["Analysis", ir.Node], "State | Sequence[State]"]
_RULES: dict[tuple[str, str], Rule] = {}


def batch_rule(*operators: str, domain: str = "") -> Callable[[Rule], Rule]:
    """Decorator: the function tells the states of the outputs of these operators from those of their operands.

    It is asked where an operand is not free, and no operand is mixed.
    """

    def register(function: Rule) -> Rule:
        for operator in operators:
            _RULES[domain, operator] = function
        return function

    return register


def rule_for(node: ir.Node) -> Rule | None:
    return _RULES.get((node.domain, node.op_type))
