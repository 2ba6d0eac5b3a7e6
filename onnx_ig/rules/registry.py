"""Where rules are kept and looked up: by rule set, domain and operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

if TYPE_CHECKING:
    from onnx_ig.rules.context import Context

__all__ = ["GRADIENT", "Refusal", "Rule", "RuleSet", "declare_zero", "gradient"]

Contributions = Sequence[ir.Value | None]


class Refusal(Exception):
    """Raised inside a rule (`raise c.refuse(...)`): this node cannot be differentiated, why, and what to do.

    The walker collects every refusal of a walk and reports all blocking nodes in one `UnsupportedOperatorError`.
    """

    def __init__(self, reason: str, remedy: str = ""):
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Rule:
    """The vector-Jacobian product of one operator.

    `function(c, *cotangents)` returns one contribution per operand, None where nothing flows. With `broadcasts` every
    contribution has the shape of the first output and the walker sums it to the operand's shape. `zero` says that the
    derivative is zero by mathematics (a comparison, Floor, Shape), which is a statement, not an omission.
    `carries`: which outputs have a cotangent; None for those of floats. `estimate`: what stands for a derivative that is
    zero by mathematics (a straight-through estimator).
    """

    function: Callable[..., Contributions]
    broadcasts: bool = False
    zero: bool = False
    source: str = ""
    carries: tuple[int, ...] | None = None
    estimate: str = ""


@dataclass
class RuleSet:
    """A table of rules; what it lacks is looked up in `parent`.

    `compares` says that its rules ask the context for the reference forward pass (`c.reference`). `inherits` names the
    operators of the standard domain whose rule the parent may give, beside its declared zeros; None is all of them.
    """

    name: str
    parent: RuleSet | None = None
    compares: bool = False
    inherits: frozenset[str] | None = None
    table: dict[tuple[str, str], Rule] = field(default_factory=dict)

    def rule(
        self,
        *operators: str,
        domain: str = "",
        broadcasts: bool = False,
        carries: tuple[int, ...] | None = None,
        estimate: str = "",
    ) -> Callable[[Any], Any]:
        """Decorator: registers a function as the rule of each operator named."""

        def register(function: Callable[..., Contributions]) -> Callable[..., Contributions]:
            rule = Rule(function, broadcasts, source=function.__doc__ or "", carries=carries, estimate=estimate)
            for operator in operators:
                self._add((domain, operator), rule)
            return function

        return register

    def zero(self, *operators: str, domain: str = "") -> None:
        """Declares the derivative of each operator to be zero everywhere it exists."""
        for operator in operators:
            self._add((domain, operator), Rule(_nothing, zero=True))

    def find(self, domain: str, operator: str) -> Rule | None:
        """The rule of an operator, here or in the parents; None where there is none."""
        key = ("" if domain == "ai.onnx" else domain, operator)
        if key in self.table:
            return self.table[key]
        found = self.parent.find(domain, operator) if self.parent else None
        if found is None or found.zero or self.inherits is None:
            return found
        return found if not key[0] and operator in self.inherits else None

    def knows(self, domain: str, operator: str) -> bool:
        """Whether there is a rule for an operator, here or in the parents."""
        return self.find(domain, operator) is not None

    def without_estimates(self) -> RuleSet:
        """The same rules, but operators whose derivative is only estimated are refused."""
        estimates = {key: rule for rules in self._line() for key, rule in rules.table.items() if rule.estimate}
        refusing = {key: replace(rule, function=_refuse_estimate) for key, rule in estimates.items()}
        return RuleSet(self.name, self, self.compares, table=refusing)

    def _line(self) -> Iterator[RuleSet]:
        """The set and its parents."""
        yield self
        if self.parent is not None:
            yield from self.parent._line()

    def _add(self, key: tuple[str, str], rule: Rule) -> None:
        if key in self.table:
            raise ValueError(f"rule set {self.name!r} has two rules for {key}")
        self.table[key] = rule


def _nothing(c: Context, *cotangents: ir.Value | None) -> Contributions:
    return (None,) * len(c.inputs)


def _refuse_estimate(c: Context, *cotangents: ir.Value | None) -> Contributions:
    raise c.refuse(
        "it rounds, so its derivative is zero wherever there is one",
        "Pass quantized='straight-through' for the straight-through estimate, or explain the model before quantisation.",
    )


GRADIENT = RuleSet("gradient")
gradient = GRADIENT.rule
declare_zero = GRADIENT.zero
