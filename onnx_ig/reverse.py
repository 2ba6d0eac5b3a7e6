"""The one reverse walk: from cotangents of some values to cotangents of others.

Reverse-mode differentiation in the sense of Griewank & Walther, "Evaluating Derivatives", chapter 3: the nodes between
`wrt` and `of` are visited backwards, each rule turns the cotangents of a node's outputs into contributions to those of
its operands, and contributions to one value are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ig.errors import BlockedNode, UnsupportedOperatorError
from onnx_ig.graph.emit import Emitter, is_float
from onnx_ig.graph.fused import REASON
from onnx_ig.graph.subgraphs import ORIGIN, captured_values, subgraphs
from onnx_ig.rules import Context, Refusal, Rule, RuleSet
from onnx_ig.rules.lists import add as accumulate
from onnx_ig.rules.lowering import Lowering
from onnx_ig.rules.view import INTEGERS, View, cotangent_type, in_type

__all__ = ["ORIGIN", "Walk", "path_nodes", "reverse"]


@dataclass
class Walk:
    """What a reverse walk found.

    `cotangents` one value for each of `wrt`, None where no path leads from it to `of` but through declared zeros.
    `zeros` the nodes with a declared zero derivative that end a path.
    """

    cotangents: list[ir.Value | None]
    zeros: list[ir.Node] = field(default_factory=list)


def path_nodes(
    nodes: Iterable[ir.Node], of: Sequence[ir.Value], wrt: Sequence[ir.Value], rules: RuleSet
) -> tuple[list[ir.Node], set[ir.Value], list[ir.Node]]:
    """Nodes on a differentiable path from `wrt` to `of`.

    Returns the nodes in graph order, the values that depend on `wrt` through floats and rules that are not declared
    zero, and the nodes with a declared zero at which such a path ends although `of` needs what they give.
    """
    nodes = list(nodes)
    active: set[ir.Value] = set(wrt)
    ends: list[ir.Node] = []
    reads: dict[ir.Node, tuple[ir.Value, ...]] = {}
    for node in nodes:
        operands = [v for v in node.inputs if v is not None]
        if any(True for _ in subgraphs(node)):
            operands.extend(captured_values(node))
        reads[node] = tuple(operands)
        if active.isdisjoint(operands):
            continue
        rule = rules.find(node.domain, node.op_type)
        carrying = _carrying(node, rule, active, operands)
        if not carrying:
            ends.append(node)
            continue
        active.update(carrying)
    needed: set[ir.Value] = set(of)
    live: list[ir.Node] = []
    for node in reversed(nodes):
        if needed.isdisjoint(node.outputs):
            continue
        if not active.isdisjoint(reads[node]) and any(v in needed and v in active for v in node.outputs):
            live.append(node)
        needed.update(reads[node])
    return live[::-1], active, [n for n in ends if not needed.isdisjoint(n.outputs)]


def reverse(
    nodes: Iterable[ir.Node],
    of: Sequence[ir.Value],
    cotangents: Sequence[ir.Value],
    wrt: Sequence[ir.Value],
    *,
    op: Emitter,
    rules: RuleSet,
    lowering: Lowering,
    reference: Callable[[ir.Value], ir.Value] | None = None,
) -> Walk:
    """Emit the vector-Jacobian products from `cotangents` of `of` back to `wrt`.

    `nodes`       the forward nodes in topological order; they may belong to another graph than `op` emits into only
                  where that graph's values are visible there.
    `cotangents`  one value for each of `of`, of its shape and type.
    `wrt`         what is found for them is in the type that the walk computes in (`onnx_ig.rules.view`).
    `reference`   maps a forward value to the same value on the reference, for rule sets that compare the two.

    Raises UnsupportedOperatorError with every blocking node of the walk.
    """
    live, active, zeros = path_nodes(nodes, of, wrt, rules)
    sums: dict[ir.Value, ir.Value] = {}
    blocked: list[BlockedNode] = []

    view = View(op, active)

    def add(value: ir.Value, contribution: ir.Value) -> None:
        contribution = in_type(op, contribution, cotangent_type(value))
        total = contribution if value not in sums else accumulate(op, sums[value], contribution)
        own = total.graph is op.graph and not total.is_graph_input()  # a branch says nothing about an outer value
        if own and value.shape is not None and total.shape is None:
            total.shape = value.shape.copy()  # layouts survive in the runtime where batch dimensions are named
        sums[value] = total

    for value, cotangent in zip(of, cotangents, strict=True):
        add(value, cotangent)
    for node in reversed(live):
        rule = rules.find(node.domain, node.op_type)
        if rule is None:
            blocked.append(_blocked(node, _without_rule(node)))
            continue
        given = [sums.get(v) if v in active else None for v in node.outputs]
        if all(g is None for g in given) and not blocked:
            continue
        operands = [*node.inputs, *captured_values(node)]
        wanted = [v is not None and v in active for v in operands]
        native = _is_native(node)
        c = Context(node, op, lowering, wanted, reference, _Inner(rules, lowering, zeros), None if native else view)
        try:
            if native:
                given = [g if g is None else _in_own_type(op, v, g) for v, g in zip(node.outputs, given, strict=True)]
            contributions = _apply(rule, c, given)
        except Refusal as refusal:
            blocked.append(_blocked(node, refusal))
            continue
        except UnsupportedOperatorError as inner:
            blocked.extend(reversed(inner.nodes))
            continue
        for operand, wants, contribution in zip(operands, wanted, contributions, strict=True):
            if operand is None or not wants or contribution is None:
                continue
            if rule.broadcasts:
                contribution = c.sum_to(contribution, c.output.shape, operand)
            add(operand, contribution)
    view.close()
    if blocked:
        raise UnsupportedOperatorError(blocked[::-1])
    return Walk([sums.get(v) for v in wrt], zeros)


@dataclass
class _Inner:
    """The walk as rules of operators with subgraphs use it (`onnx_ig.rules.context.Walker`)."""

    rules: RuleSet
    lowering: Lowering
    zeros: list[ir.Node]

    def differentiate(
        self,
        nodes: Sequence[ir.Node],
        of: Sequence[ir.Value],
        cotangents: Sequence[ir.Value],
        wrt: Sequence[ir.Value],
        op: Emitter,
    ) -> list[ir.Value | None]:
        walk = reverse(nodes, of, cotangents, wrt, op=op, rules=self.rules, lowering=self.lowering)
        self.zeros.extend(walk.zeros)
        return [g if g is None else _in_own_type(op, v, g) for v, g in zip(wrt, walk.cotangents, strict=True)]

    def on_path(self, nodes: Sequence[ir.Node], of: Sequence[ir.Value], wrt: Sequence[ir.Value]) -> set[ir.Value]:
        live, active, _ = path_nodes(nodes, of, wrt, self.rules)
        read = {v for node in live for v in (*node.inputs, *captured_values(node)) if v is not None}
        return active & (read | set(of))


def _apply(rule: Rule, c: Context, given: list[ir.Value | None]) -> Sequence[ir.Value | None]:
    if all(g is None for g in given):  # behind a blocked node: look for further refusals with a stand-in cotangent
        given = [v if is_float(v.dtype) else None for v in c.outputs]
    contributions = rule.function(c, *given)
    if len(contributions) > len(c.wanted) and not c.captured:  # optional operands that this node leaves out at its end
        contributions = contributions[: len(c.wanted)]
    if len(contributions) < len(c.wanted):
        contributions = (*contributions, *(None,) * (len(c.wanted) - len(contributions)))
    if len(contributions) != len(c.wanted):
        raise AssertionError(f"the rule of {c.node.op_type} gave {len(contributions)} for {len(c.wanted)} operands")
    for contribution in contributions:
        if contribution is not None and not isinstance(contribution, ir.Value):
            raise AssertionError(f"the rule of {c.node.op_type} gave {type(contribution).__name__}, not a value")
    return contributions


def _carrying(node: ir.Node, rule: Rule | None, active: set[ir.Value], operands: Iterable[ir.Value]) -> list[ir.Value]:
    """The outputs of a node on the path that can have a cotangent.

    Floats, sequences and optionals of floats, and what has no known type; integers where the node makes them of floats
    by a rule that says so, or hands on integers that have one.
    """
    if rule is not None and rule.zero:
        return []
    if rule is not None and rule.carries is not None:
        return [v for i, v in enumerate(node.outputs) if i in rule.carries]
    quantised = any(v in active and v.dtype in INTEGERS for v in operands)
    return [
        v
        for v in node.outputs
        if v.type is None or v.dtype is None or is_float(v.dtype) or (quantised and v.dtype in INTEGERS)
    ]


def _is_native(node: ir.Node) -> bool:
    """Whether the rule works on the model's own types: bodies and lists have theirs written down."""
    values = (*node.inputs, *node.outputs)
    listed = any(v is not None and v.type is not None and not isinstance(v.type, ir.TensorType) for v in values)
    return listed or next(subgraphs(node), None) is not None


def _in_own_type(op: Emitter, value: ir.Value, cotangent: ir.Value) -> ir.Value:
    """The cotangent of `value` in its own type, for graphs that hold both."""
    if value.dtype in INTEGERS:
        raise Refusal(
            f"the quantised value {value.name!r} crosses the border of its body",
            "Dequantise it before and after, or choose values behind it.",
        )
    return cotangent if cotangent_type(value) is None else in_type(op, cotangent, value.dtype)


def _blocked(node: ir.Node, refusal: Refusal) -> BlockedNode:
    return BlockedNode(
        node.meta.get(ORIGIN, node.name) or "", node.op_type, node.domain, refusal.reason, refusal.remedy
    )


def _without_rule(node: ir.Node) -> Refusal:
    """Why there is no rule: a fused node says itself why it could not be written out."""
    if REASON in node.meta:
        return Refusal(*node.meta[REASON])
    choose = "choose values behind it (wrt=/inputs=) or an output before it (of=/output=)."
    if node.domain in ("", "ai.onnx"):
        return Refusal("onnx_ig has no derivative for it", choose.capitalize())
    if node.domain.startswith(("com.microsoft", "com.ms.")):
        return Refusal(
            "onnx_ig has no derivative for it",
            "Export the model without fusion for one runtime (ONNX Runtime: save at optimisation level BASIC), or "
            + choose,
        )
    return Refusal(
        f"it is an operator of the domain {node.domain!r}, which onnx_ig does not know",
        "Give it to the exporter as a model-local function of standard operators, or " + choose,
    )
