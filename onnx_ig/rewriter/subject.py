"""What is explained: the prepared model, the values that move, those that are held, and the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnx_ig.errors import ModelError, OptionError
from onnx_ig.graph.load import ModelLike, load
from onnx_ig.graph.maps import NOTES
from onnx_ig.graph.names import Names
from onnx_ig.graph.prepare import DEFAULTS, prepare
from onnx_ig.graph.sources import Source, classify, float_value, graph_values, named, only_float_output, start_of
from onnx_ig.graph.subgraphs import subgraphs
from onnx_ig.manifest import Metadata, read
from onnx_ig.reverse import path_nodes
from onnx_ig.rules import GRADIENT, RuleSet

__all__ = ["Subject", "candidates", "subject_of"]

_PORT = "ig:"
"""What the names of the models that run inside begin with (`onnx_ig.rewriter.step`)."""


@dataclass(frozen=True)
class Subject:
    """A prepared model and what is asked of it.

    `moved` are the sources attributed ("float", "tokens" or "value" for an internal one), `held` the inputs fed as they
    are; `output` names the value explained. `quantized` is what is done with roundings on the path, `estimates` says
    of which operators the derivative is estimated.
    """

    model: ir.Model
    moved: tuple[Source, ...]
    held: tuple[Source, ...]
    output: str
    metadata: Metadata
    quantized: str = "straight-through"
    estimates: tuple[str, ...] = ()

    @property
    def defaults(self) -> tuple[str, ...]:
        """Inputs of the file that have a value in it, and so are constants of the prepared model."""
        return tuple(self.graph.meta.get(DEFAULTS, ()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of the answers: what was left out of the model, what is estimated."""
        return (*self.graph.meta.get(NOTES, ()), *self.estimates)

    @property
    def graph(self) -> ir.Graph:
        return self.model.graph

    def value(self, name: str) -> ir.Value:
        return graph_values(self.graph)[name]


def subject_of(
    model: ModelLike,
    inputs: str | Sequence[str] | None,
    output: str | None,
    rules: RuleSet = GRADIENT,
    quantized: str = "straight-through",
) -> Subject:
    """Load and prepare a model for a rule set, and settle its inputs and output.

    Raises ModelError for a model that cannot be read; OptionError for a name that is unknown, not a float value, or
    missing where several would do.
    """
    prepared = prepare(load(model), rules.knows)
    _free_ports(prepared)
    graph = prepared.graph
    values = graph_values(graph)
    chosen = only_float_output(graph) if output is None else output
    float_value(values, chosen, "output")
    sources = classify(graph)
    asked = named(inputs, "inputs")
    moved = [_asked(name, sources, values) for name in asked] if asked else [s for s in sources if s.kind != "held"]
    if not moved:
        told = "; ".join(f"{s.name!r}: {s.reason}" for s in sources) or "it has no inputs"
        raise OptionError(
            f"no input is attributed by default ({told}). Name a float value, an input or an internal one, with inputs=; "
            f"candidates: {', '.join(map(repr, candidates(graph))) or 'none'}"
        )
    names = {s.name for s in moved}
    held = [
        s if s.kind == "held" else replace(s, kind="held", reason="not asked for")
        for s in sources
        if s.name not in names
    ]
    found = _estimates(graph, values[chosen], moved, rules)
    metadata = read(prepared.metadata_props)
    return Subject(prepared, tuple(moved), tuple(held), chosen, metadata, quantized, tuple(found))


def _free_ports(model: ir.Model) -> None:
    """Rename values inside the model whose names are those of ports: a rewritten model, rewritten again, has some.

    Raises ModelError for an input or output of the model, whose name is the caller's.
    """
    names = Names(model)
    for value in (*model.graph.inputs, *model.graph.outputs):
        if (value.name or "").startswith(_PORT):
            raise ModelError(
                f"{value.name!r}: names that begin with {_PORT!r} are kept for onnx_ig; rename it in the model"
            )
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)):
            if (value.name or "").startswith(_PORT):
                value.name = names.fresh("ig_" + (value.name or "").removeprefix(_PORT))


def _estimates(graph: ir.Graph, output: ir.Value, moved: Sequence[Source], rules: RuleSet) -> list[str]:
    """What is said of the nodes on the path whose derivative is estimated; nothing where there are none."""
    live, _, _ = path_nodes(list(graph), [output], [v for s in moved for v in s.values], rules)
    counts: dict[str, Counter[str]] = {}
    for node in (n for one in live for n in (one, *(inner for body in subgraphs(one) for inner in body.all_nodes()))):
        rule = rules.find(node.domain, node.op_type)
        if rule is not None and rule.estimate:
            counts.setdefault(rule.estimate, Counter())[node.op_type] += 1
    return [f"{what} at {', '.join(f'{op} x{n}' for op, n in sorted(c.items()))}" for what, c in counts.items()]


def _asked(name: str, sources: Sequence[Source], values: dict[str, ir.Value]) -> Source:
    """A source by name: overrides what is held by default."""
    known = {s.name: s for s in sources}
    if name in known and (source := start_of(values[name])).indirect:
        return source
    value = float_value(values, name, "inputs")
    if value.is_initializer() and name not in known:
        raise OptionError(
            f"inputs: {name!r} is a weight, the same for all samples; onnx_ig.add_gradients(wrt={name!r}) gives its gradient"
        )
    return Source(name, "float" if name in known else "value", (value,))


def candidates(graph: ir.Graph) -> list[str]:
    """The first float values behind each input: where attributions can start."""
    found: list[str] = []
    inputs = set(graph.inputs)
    depends = set(inputs)
    for node in graph:
        if depends.isdisjoint(v for v in node.inputs if v is not None):
            continue
        floats = [v for v in node.outputs if v.dtype is not None and v.dtype.is_floating_point()]
        if floats:
            found.extend(v.name or "" for v in floats)
        else:
            depends.update(node.outputs)
    return found[:8]
