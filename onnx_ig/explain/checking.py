"""`check`: central differences and completeness on the user's own file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from onnx_ig.errors import NoGradientPathError, OptionError
from onnx_ig.explain.examples import example_feeds
from onnx_ig.explain.explainer import Explainer
from onnx_ig.graph.load import ModelLike
from onnx_ig.runtime.session import Array

__all__ = ["CheckReport", "DirectionReport", "check"]

_STEPS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4)
_AGREE = 0.05
_COMPLETE = 0.05

_WIDE = (2.0, 1.0, 0.3)
_ESTIMATED = 0.6
"""For a quantised model, whose derivative is estimated: differences over its steps, up to 10 % of the input's norm, and
agreement within a factor of 2.5."""


@dataclass(frozen=True)
class DirectionReport:
    """A directional derivative of the target's score, from the gradient and from central differences of the model."""

    input: str
    direction: str
    gradient: float
    differences: float
    relative_error: float


@dataclass(frozen=True)
class CheckReport:
    """What `check` found. `ok`: every direction agrees within `tolerance` and attributions are complete within 5 %.

    `tolerance` is 5 %, and wider where derivatives are estimated, which `notes` says.
    """

    directions: list[DirectionReport]
    delta: float
    relative_delta: float
    batch: str
    example: bool
    tolerance: float = _AGREE
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(d.relative_error <= self.tolerance for d in self.directions) and self.complete

    @property
    def complete(self) -> bool:
        return bool(self.relative_delta <= _COMPLETE) or abs(self.delta) <= 1e-6

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "ok": self.ok, "complete": self.complete}, indent=2)

    def __str__(self) -> str:
        lines = ["fed with an example made up from the declared shapes"] if self.example else []
        for d in self.directions:
            mark = "agrees" if d.relative_error <= self.tolerance else "DISAGREES"
            lines.append(
                f"{d.input}, along {d.direction}: gradient {d.gradient:.6g}, central differences {d.differences:.6g}: {mark} "
                f"({d.relative_error:.2g} relative)"
            )
        mark = "holds" if self.complete else "is missed; more steps may help"
        lines.append(f"completeness {mark}: delta {self.delta:.3g}, {self.relative_delta:.2%} of F(x) - F(baseline)")
        lines.append(f"batch: {self.batch}")
        lines += [f"note: {note}" for note in self.notes]
        lines.append("ok" if self.ok else "NOT OK")
        return "\n".join(lines)


def check(
    model: ModelLike,
    feeds: Mapping[str, Any] | Any = None,
    *,
    inputs: Any = None,
    output: str | None = None,
    target: Any = "predicted",
    n_steps: int = 100,
    providers: Any = None,
    quantized: str = "straight-through",
) -> CheckReport:
    """Compare gradients with central differences of the model itself, and attributions with completeness.

    Directions: the gradient itself, and a random one, for every float input; the value itself for token inputs, whose
    embeddings are moved. Steps from 1e-1 to 3e-4 of the direction are tried and the best agreement is told, because
    single precision and kinks limit both ends; in a quantised model wider ones, along the gradient alone.

    Args:
        model, inputs, output, providers, quantized: as in `Explainer`.
        feeds, target: as in `Explainer.attribute`, one target; feeds None: an example made up from the declared shapes.
        n_steps: steps of the integrated gradients whose completeness is checked.

    Returns a `CheckReport`: `ok`, `directions`, the largest `delta` and its share `relative_delta`; a text as `str`.
    Raises what `Explainer` and `attribute` raise; NoGradientPathError too where the gradient is exactly zero there.
    """
    if isinstance(target, list):
        raise OptionError("target: one is checked at a time, not a list of several")
    options: dict[str, Any] = {"inputs": inputs, "output": output, "providers": providers, "quantized": quantized}
    gradient = Explainer(model, "gradient", **options)
    estimated = bool(gradient.subject.estimates)
    example = feeds is None
    given = example_feeds(gradient.subject) if example else feeds
    first = gradient.attribute(given, target=target)
    chosen = first.target if first.target is not None else target
    moved = gradient.subject.moved
    directions: list[DirectionReport] = []
    rng = np.random.default_rng(0)
    for source in moved:
        if source.kind != "float":
            continue
        slope = first[source.name].astype(np.float64)
        x = first.feeds[source.name]
        scale = 0.05 * max(float(np.linalg.norm(x.astype(np.float64))), 1e-3)
        ways = [("the gradient", slope), ("a random direction", rng.standard_normal(x.shape))]
        for name, raw in ways[: 1 if estimated else 2]:
            norm = float(np.linalg.norm(raw))
            if not norm > 0:
                raise NoGradientPathError(f"the gradient of {source.name!r} is exactly zero on these feeds; try others")
            steps = _WIDE if estimated else _STEPS
            move = raw * scale / norm
            directions.append(_along(gradient, first.feeds, source.name, name, move, slope, chosen, steps))
    integrated = Explainer(model, "integrated_gradients", **options)
    complete = integrated.attribute(given, target=chosen, n_steps=n_steps)
    if any(s.kind != "float" for s in moved):
        directions.append(
            _along_itself(
                integrated,
                Explainer(model, "gradient_x_input", **options),
                given,
                chosen,
            )
        )
    worst = int(np.argmax(np.nan_to_num(complete.relative_delta, nan=np.inf)))
    notes = integrated.batching
    return CheckReport(
        directions, float(complete.convergence_delta[worst]), float(complete.relative_delta[worst]),
        "rows are independent" if notes.mode == "free" else notes.reason, example,
        _ESTIMATED if estimated else _AGREE, gradient.subject.notes,
    )  # fmt: skip


def _along(
    explainer: Explainer,
    feeds: Mapping[str, Array],
    name: str,
    label: str,
    move: Array,
    slope: Array,
    target: Any,
    steps: Sequence[float],
) -> DirectionReport:
    expected = float((slope * move).sum())
    best = (np.inf, np.nan)
    for step in steps:
        ahead, behind = (explainer.scores({**feeds, name: feeds[name] + s * step * move}, target) for s in (1.0, -1.0))
        found = float((ahead - behind).sum() / (2 * step))
        error = abs(found - expected) / max(abs(found), abs(expected), 1e-12)
        best = min(best, (error, found))
    return DirectionReport(name, label, expected, best[1], best[0])


def _along_itself(integrated: Explainer, product: Explainer, feeds: Any, target: Any) -> DirectionReport:
    """d/d alpha of F(alpha * value) at alpha = 1 against the sum of gradient x input."""
    names = ", ".join(s.name for s in product.subject.moved)
    answer = product.attribute(feeds, target=target)
    expected = float(sum(answer[n].astype(np.float64).sum() for n in answer))
    best = (np.inf, np.nan)
    for step in _STEPS:
        scores = integrated.path_scores(feeds, target, np.array([1 - step, 1 + step]))
        found = float((scores[:, 1] - scores[:, 0]).sum() / (2 * step))
        error = abs(found - expected) / max(abs(found), abs(expected), 1e-12)
        best = min(best, (error, found))
    return DirectionReport(names, "the embedding itself", expected, best[1], best[0])
