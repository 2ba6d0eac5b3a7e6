"""Everything onnx_ig raises or warns on purpose.

OnnxIgError
├── ModelError                 the file or object is not a model that can be read, prepared or saved
├── OptionError (ValueError)   an argument is wrong: unknown name, bad target, baseline of a wrong shape ...
├── FeedError (ValueError)     the data fed does not fit the model: missing input, shape, dtype, NaN, ids beyond their table
├── UnsupportedOperatorError   nodes on the path that cannot be differentiated; `.nodes` lists them all
├── NoGradientPathError        every path from the inputs to the output runs through zero derivatives
├── MissingDependencyError     an optional package is needed; the message names the extra to install
└── RunError                   the runtime failed while it ran a model

OnnxIgWarning (UserWarning)    the answer is given, and something about it should be known
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = [
    "BlockedNode",
    "FeedError",
    "MissingDependencyError",
    "ModelError",
    "NoGradientPathError",
    "OnnxIgError",
    "OnnxIgWarning",
    "OptionError",
    "RunError",
    "UnsupportedOperatorError",
]


class OnnxIgError(Exception):
    """Root of every error that onnx_ig raises on purpose."""


class ModelError(OnnxIgError):
    """The model cannot be read, prepared or saved."""


class OptionError(OnnxIgError, ValueError):
    """An argument does not fit the model or another argument."""


class FeedError(OnnxIgError, ValueError):
    """The data fed does not fit the model."""


class MissingDependencyError(OnnxIgError, ImportError):
    """An optional package is missing; the message says which extra installs it."""


class RunError(OnnxIgError, RuntimeError):
    """The runtime failed while it ran a model."""


@dataclass(frozen=True)
class BlockedNode:
    """A node on the differentiated path that has no derivative here, and why."""

    name: str
    op_type: str
    domain: str
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        return self.told([self.name])

    def told(self, names: Sequence[str]) -> str:
        """What is said of nodes `names`, of this operator and blocked for this reason."""
        operator = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        remedy = f" {self.remedy}" if self.remedy else ""
        nodes = f"node {names[0]!r}" if len(names) == 1 else f"{len(names)} nodes: {', '.join(map(repr, names))}"
        return f"{operator} ({nodes}): {self.reason}.{remedy}"


class UnsupportedOperatorError(OnnxIgError):
    """Nodes between the inputs and the output cannot be differentiated.

    `nodes` holds one `BlockedNode` for each of them, in graph order; the message names all, those of one operator and one
    reason together.
    """

    def __init__(self, nodes: Sequence[BlockedNode]):
        self.nodes = tuple(nodes)
        count = len(self.nodes)
        head = "1 node on the path cannot" if count == 1 else f"{count} nodes on the path cannot"
        alike: dict[BlockedNode, list[str]] = {}
        for node in self.nodes:
            alike.setdefault(replace(node, name=""), []).append(node.name)
        super().__init__("\n  ".join([f"{head} be differentiated:", *(n.told(names) for n, names in alike.items())]))


class NoGradientPathError(OnnxIgError):
    """Every path from the inputs to the output runs through operators whose derivative is zero.

    `zeros` names those nodes, `before` float values ahead of them that can be differentiated.
    """

    def __init__(self, message: str, zeros: Sequence[str] = (), before: Sequence[str] = ()):
        self.zeros = tuple(zeros)
        self.before = tuple(before)
        super().__init__(message)


class OnnxIgWarning(UserWarning):
    """The answer is given, and something about it should be known."""
