"""Where attributions start and end: which inputs of a model are attributed, which are held as fed, and its output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_ig.errors import OptionError
from onnx_ig.graph.emit import is_float
from onnx_ig.graph.lookups import ROLE, classes, lookups, numbers, straight

__all__ = [
    "Source",
    "check_ids",
    "classify",
    "declared_shape",
    "default_sources",
    "float_value",
    "graph_values",
    "id_counts",
    "named",
    "only_float_output",
    "start_of",
]

_HELD_NAMES = re.compile(
    r"mask|(^|_)len(gths?)?($|_)|length|token_type|segment_id|position_id|(^|_)pos(itions?)?($|_)|(^|_)state"
    r"|^h_?0|^c_?0|initial_[hc]|past_|cache|^sr$|sample_rate",
    re.IGNORECASE,
)
_STATE_OPERANDS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
_LENGTH_OPERANDS = {"LSTM": (4,), "GRU": (4,), "RNN": (4,)}


@dataclass(frozen=True)
class Source:
    """One graph input and what is done with it.

    `kind` is "float" (attributed itself), "tokens" (ids, attributed through `values`, the vectors that they select),
    "numbers" (integers of few bits, attributed through the floats that they become) or "held" (fed as it is, `reason`
    says why).
    """

    name: str
    kind: str
    values: tuple[ir.Value, ...] = ()
    reason: str = ""

    @property
    def count(self) -> int | None:
        """How many ids a token input has to choose from, where the file says and others would fail."""
        return _count(self.values) if self.kind == "tokens" else None

    @property
    def indirect(self) -> bool:
        """Whether what is fed are integers, and what moves are the floats that the model makes of them."""
        return self.kind in ("tokens", "numbers")


def named(names: str | Sequence[str] | None, argument: str) -> list[str]:
    """One name or several as a list; empty for None. Raises OptionError for what is neither, and for a name given twice."""
    if isinstance(names, bytes) or not isinstance(names, str | Sequence | None):
        raise OptionError(f"{argument}={names!r}: give the name of a value, or a list of names")
    several = [names] if isinstance(names, str) else list(names or ())
    twice = next((n for i, n in enumerate(several) if n in several[:i]), None)
    if twice is not None:
        raise OptionError(f"{argument}: {twice!r} is given twice")
    return several


def graph_values(graph: ir.Graph) -> dict[str, ir.Value]:
    """Every value of the main graph by name: inputs, initializers, node outputs."""
    values = [*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]
    return {v.name: v for v in values if v.name}


def float_value(values: dict[str, ir.Value], name: str, argument: str) -> ir.Value:
    """The value `name`; raises OptionError where there is none or it is not a float tensor."""
    if not isinstance(name, str) or name not in values:
        known = ", ".join(repr(n) for n, v in values.items() if is_float(v.dtype) and not v.is_initializer())
        if len(known) > 600:
            known = known[:600] + " ..."
        raise OptionError(f"{argument}: the model has no value {name!r}; its float values are {known}")
    if not is_float(values[name].dtype):
        dtype = values[name].dtype
        raise OptionError(
            f"{argument}: {name!r} holds {dtype.name if dtype else 'no tensors'}, and only floats have gradients"
        )
    return values[name]


def declared_shape(value: ir.Value) -> list[int | None] | None:
    """The dimensions of a value as far as the file gives them; None for one of unknown rank."""
    return None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]


def id_counts(graph: ir.Graph) -> dict[str, int]:
    """{integer input: how many ids there are to choose from}, where the file says; held inputs too."""
    found: dict[str, int] = {}
    for value in graph.inputs:
        count = _count(lookups(value)) if not is_float(value.dtype) and straight(value) else None
        if count is not None:
            found[value.name or ""] = count
    return found


def _count(selected: Sequence[ir.Value]) -> int | None:
    return min((n for n in map(classes, selected) if n is not None), default=None)


def check_ids(ids: np.ndarray, source: Source, what: str) -> None:
    """Raises OptionError where a baseline holds ids that the tables of a token input do not have."""
    count = source.count
    if count is None:
        return
    wrong = np.ravel(ids)[np.ravel((ids >= count) | (ids < -count))]
    if wrong.size:
        raise OptionError(
            f"{what} holds the id {wrong[0]}; its table has {count} rows, so ids go from 0 to {count - 1}"
        )


def only_float_output(graph: ir.Graph) -> str:
    """Name of the only float output; raises OptionError where there are several or none."""
    floats = list(dict.fromkeys(v.name or "" for v in graph.outputs if is_float(v.dtype)))
    if len(floats) == 1:
        return floats[0]
    if not floats:
        raise OptionError(
            f"the model has no float output; its outputs are {', '.join(repr(v.name) for v in graph.outputs)}"
        )
    raise OptionError(f"the model has several float outputs, name one: {', '.join(map(repr, floats))}")


def classify(graph: ir.Graph) -> list[Source]:
    """What is done with each graph input by default, in order.

    Attributed: float inputs, integer inputs that select rows of a table or one-hot codes, and integer inputs of few bits
    that are cast to floats (photographs). Held: what is recognised as a mask, length, position, segment or recurrent
    state by its name or its use, and every other integer or boolean input.
    """
    return [_classify(value) for value in graph.inputs]


def _classify(value: ir.Value) -> Source:
    name = value.name or ""
    for node, index in _recurrent_uses(value):
        if index in _STATE_OPERANDS.get(node.op_type, ()):
            return Source(name, "held", reason=f"it is the initial state of {node.op_type} {node.name!r}")
        if index in _LENGTH_OPERANDS.get(node.op_type, ()):
            return Source(name, "held", reason=f"it is the sequence length of {node.op_type} {node.name!r}")
    if _HELD_NAMES.search(name):
        return Source(name, "held", reason="its name says mask, length, position, segment or state")
    source = start_of(value)
    roles = {v.meta.get(ROLE) for v in source.values}
    if source.kind == "tokens" and None not in roles:
        return Source(name, "held", reason=f"it gives {' and '.join(sorted(map(str, roles)))}")
    return source


def start_of(value: ir.Value) -> Source:
    """What a graph input is by its type and use alone, whatever its name says: for inputs asked for."""
    name = value.name or ""
    if is_float(value.dtype):
        return Source(name, "float", (value,))
    selected = lookups(value)
    if selected:
        return Source(name, "tokens", selected)
    floats = numbers(value)
    if floats is not None:
        return Source(name, "numbers", (floats,))
    return Source(name, "held", reason=f"its type is {value.dtype.name if value.dtype else 'not a tensor'}")


_CUTTING = frozenset({"Slice", "Split", "Gather", "Squeeze", "Unsqueeze", "Transpose", "Reshape", "Identity", "Cast"})


def _recurrent_uses(value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Uses of a value by recurrent operators, as it is or cut into layers and directions, in subgraphs too."""
    frontier, seen = [value], {value}
    while frontier:
        for node, index in frontier.pop().uses():
            if node.op_type in _STATE_OPERANDS:
                yield node, index
            elif node.op_type in _CUTTING and index == 0:
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                frontier.extend(fresh)


def default_sources(graph: ir.Graph) -> list[str]:
    """Names of the float values attributed by default; raises OptionError where there is none."""
    names = [v.name or "" for s in classify(graph) if s.kind != "held" for v in s.values]
    if not names:
        inputs = "; ".join(f"{s.name!r} is held: {s.reason}" for s in classify(graph)) or "it has no inputs"
        raise OptionError(f"nothing to attribute by default ({inputs}); name a float value with wrt= or inputs=")
    return names
