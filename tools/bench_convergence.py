"""How many gradients an attribution needs: rules with fixed steps and rules that refine, at equal true error.

    python tools/bench_convergence.py --report tools/convergence.md      # all sample models, minutes
    python tools/bench_convergence.py digits tumour

For every sample and for logits and probabilities (a Softmax appended), gradients on a fine grid of midpoints are computed
once; each rule then takes the gradients at the grid points nearest to its own. Errors are those of the attributions, in L2
over all features, relative to the norm of the attributions on the whole grid. Captum's default is the row of 50 steps of
Gauss-Legendre: the references of the samples hold its numbers, and tests compare ours with them.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

import onnx_ig
from onnx_ig.errors import OnnxIgWarning
from onnx_ig.quadrature import nodes_and_weights
from onnx_ig.refinement import Bisected, Need, Nested, Rule, cells_of
from onnx_ig.runtime.sizing import split_of

SAMPLES = Path(__file__).parents[1] / "sample_models"
MODELS = {
    "efficientnet_lite0": ("efficientnet_lite0", "efficientnet_lite0", "image, ReLU6"),
    "digits": ("digits", "digits", "image, ReLU"),
    "cnn": ("frameworks/cnn_torch_dynamo", "frameworks/cnn_torch", "image, SiLU"),
    "sentiment": ("sentiment", "sentiment", "text, GELU"),
    "tumour": ("tumour", "tumour", "table, Tanh"),
    "lstm": ("frameworks/lstm_torch_dynamo", "frameworks/lstm_torch", "recurrent"),
}
GRID = {"efficientnet_lite0": 512}
FINE = 4096
UNIFORM = (7, 10, 14, 20, 28, 40, 50, 56, 80, 112, 160, 226, 320, 452)
CAP = 400


@dataclass
class Path_:
    """One sample's path: contributions at midpoints of a grid [grid, features], scores at the ends of its cells [grid + 1]."""

    values: np.ndarray
    scores: np.ndarray
    kinks: bool

    def at(self, alphas: np.ndarray) -> np.ndarray:
        return self.values[np.clip((alphas * len(self.values)).astype(int), 0, len(self.values) - 1)]

    def score(self, alphas: np.ndarray) -> np.ndarray:
        return np.interp(alphas, np.linspace(0, 1, len(self.scores)), self.scores)

    @property
    def exact(self) -> np.ndarray:
        return self.values.mean(axis=0, dtype=np.float64)

    @property
    def change(self) -> float:
        return float(self.scores[-1] - self.scores[0])


@dataclass(frozen=True)
class Outcome:
    """What one rule gave for one sample: gradients, relative error, relative delta, estimate over error."""

    count: int
    error: float
    delta: float
    cover: float = np.nan


def explainer_of(name: str, probabilities: bool) -> tuple[onnx_ig.Explainer, dict[str, np.ndarray]]:
    """The model, with a Softmax where probabilities are wanted, and the samples of its references."""
    file, reference, _ = MODELS[name]
    model = onnx.load(SAMPLES / f"{file}.onnx")
    if probabilities:
        output = model.graph.output[0]
        model.graph.node.append(helper.make_node("Softmax", [output.name], ["probabilities"], axis=-1))
        shape = [d.dim_param or d.dim_value for d in output.type.tensor_type.shape.dim]
        del model.graph.output[:]
        model.graph.output.append(helper.make_tensor_value_info("probabilities", 1, shape))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    with np.load(SAMPLES / "references" / f"{reference}.npz") as file:
        feeds = {n.removeprefix("input."): file[n] for n in file.files if n.startswith("input.")}
    if name == "efficientnet_lite0":
        feeds["image"] = np.concatenate([feeds["image"], _another(feeds["image"])])
    return onnx_ig.Explainer(model, session_options=options), feeds


def _another(image: np.ndarray) -> np.ndarray:
    """Two more pictures: the coffee of the samples, and the upper left of the first one, enlarged."""
    pixels = _photograph(SAMPLES / "coffee.jpg")
    part = image[:, :, :150, :150].repeat(2, axis=2).repeat(2, axis=3)[:, :, :224, :224]
    return np.concatenate([pixels, part])


def _photograph(path: Path) -> np.ndarray:
    from onnx_ig.cli.options import open_model
    from onnx_ig.cli.photographs import read_photograph

    _, signature = open_model(str(SAMPLES / "efficientnet_lite0.onnx"))
    port = signature.ports["image"]
    return np.asarray(read_photograph(path, signature.metadata.preprocessing["image"], port).tensor)


def paths(name: str, probabilities: bool) -> Iterator[Path_]:
    """Every sample's path on the fine grid."""
    tool, feeds = explainer_of(name, probabilities)
    grid = GRID.get(name, FINE)
    alphas = (np.arange(grid) + 0.5) / grid
    ends = np.linspace(0, 1, grid + 1)
    models = tool._models
    plan = models.plan(tool.batching, {s.name: None for s in tool.subject.moved}, {}, False)
    for i in range(len(next(iter(feeds.values())))):
        row = {k: v[i : i + 1] for k, v in feeds.items()}
        predicted = tool.attribute(row, n_steps=2)
        target = np.zeros_like(predicted.outputs[predicted.output])
        target[0, predicted.target[0, 0]] = 1  # type: ignore[index]
        fed, split, nothing = {**row, "ig:cotangent": target}, split_of(memory_budget="1GB"), np.zeros(grid + 1, int)
        values: list[np.ndarray] = []
        for _, _, given in models.steps(plan).points(fed, nothing[1:], alphas, split):
            flat = [given[f"ig:attribution:{m.value}"].reshape(len(given["ig:scores"]), -1) for m in plan.moved]
            values.extend(np.concatenate(flat, axis=1))
        scores = [g["ig:scores"].ravel() for _, _, g in models.probe(plan).points(fed, nothing, ends, split)]
        yield Path_(np.stack(values), np.concatenate(scores).astype(np.float64), bool(models.kinks))


def outcome(path: Path_, count: int, answer: np.ndarray, estimate: float = np.nan) -> Outcome:
    exact = path.exact
    norm, error = (float(np.linalg.norm(v)) for v in (exact, answer - exact))
    delta = abs(float(answer.sum()) - path.change) / abs(path.change)
    return Outcome(count, error / norm, delta, estimate / max(error, 1e-9 * norm))


def fixed(rule: str, steps: int) -> Callable[[Path_], Outcome]:
    def run(path: Path_) -> Outcome:
        alphas, weights = nodes_and_weights(rule, steps)
        values = path.at(alphas)
        halves = [weights[s::2] @ values[s::2] / weights[s::2].sum() for s in (0, 1)]
        estimate = 1.5 * float(np.linalg.norm(halves[0] - halves[1])) / 2
        return outcome(path, steps, weights @ values, estimate)

    return run


def placed(steps: int, power: float) -> Callable[[Path_], Outcome]:
    """Midpoints of cells that a probe of eight scores places in proportion to |change of F| ** power."""

    def run(path: Path_) -> Outcome:
        at = np.linspace(0, 1, 9)
        mass = np.abs(np.diff(path.score(at)))
        mass = (mass + 0.05 * mass.mean()) ** power
        ends = np.interp(np.linspace(0, 1, steps + 1), np.append(0, np.cumsum(mass)) / mass.sum(), at)
        return outcome(path, steps, np.diff(ends) @ path.at((ends[1:] + ends[:-1]) / 2))

    return run


def refined(
    tolerance: float, agree: float, make: Callable[[Path_], Rule] | None = None, need: Need | None = None
) -> Callable[[Path_], Outcome]:
    """As `Explainer.attribute(tolerance=)` does it, with other factors of agreement, rules or needs."""

    def run(path: Path_) -> Outcome:
        rule = make(path) if make else bisected(path) if path.kinks else nested(path)
        while len(rule.pending):
            rule.put(path.at(rule.pending), path.score(rule.pending))
            if len(rule.pending):
                continue
            total, change = rule.total(), rule.change()
            allowed = max(tolerance * abs(path.change), 0.05 * tolerance * float(np.ptp(path.scores)))
            missed = Need(
                abs(float(total.sum()) - path.change) > allowed,
                bool(np.linalg.norm(change) > agree * tolerance * np.linalg.norm(total)),
            )
            if rule.count >= CAP or not (missed.completeness or missed.agreement):
                break
            rule = rule.refine(need or missed, CAP - rule.count)
        return outcome(path, rule.count, rule.total(), 1.5 * float(np.linalg.norm(rule.change())))

    return run


def bisected(path: Path_, probe: bool = True) -> Rule:
    alphas = np.linspace(0, 1, 9)
    ends = cells_of(alphas, path.score(alphas), 4) if probe else np.linspace(0, 1, 5)
    return Bisected(ends, float(path.scores[0]), float(path.scores[-1]))


def nested(path: Path_) -> Rule:
    alphas = np.linspace(0, 1, 9)
    change = np.abs(np.diff(path.score(alphas)))
    ends = cells_of(alphas, path.score(alphas), 3 if change.max() > 0.5 * change.sum() else 1)
    return Nested(ends, float(path.scores[0]), float(path.scores[-1]))


def line(title: str, outcomes: list[Outcome]) -> str:
    counts, errors, deltas = (np.array([getattr(o, k) for o in outcomes]) for k in ("count", "error", "delta"))
    covers = np.array([o.cover for o in outcomes])
    covered = "" if np.isnan(covers).any() else f"{(covers >= 1).mean():.0%}"
    return (
        f"| {title} | {np.median(counts):.0f} | {counts.max()} | {_short(np.median(errors))} | {_short(errors.max())} "
        f"| {_short(np.median(deltas))} | {_short(deltas.max())} | {covered} |"
    )


def _short(value: float) -> str:
    return f"{value:.1e}" if value < 1e-4 else f"{100 * value:.2g} %"


def equal(found: list[Path_], rule: str, error: float) -> str:
    """Fewest uniform steps whose median error is no larger."""
    for steps in UNIFORM:
        if np.median([fixed(rule, steps)(p).error for p in found]) <= error:
            return str(steps)
    return f"> {UNIFORM[-1]}"


def table(name: str, probabilities: bool, tolerance: float) -> Iterator[str]:
    found = list(paths(name, probabilities))
    kinks = "kinks" if found[0].kinks else "smooth"
    yield f"\n## {name}, {'probabilities' if probabilities else 'logits'} ({MODELS[name][2]}; {kinks}; {len(found)} samples)\n"
    yield "| rule | gradients | most | error | largest | delta | largest | estimate covers |"
    yield "|---|---|---|---|---|---|---|---|"
    ours = [refined(tolerance, 10)(p) for p in found]
    yield line(f"**tolerance={tolerance:g}**", ours)
    for agree in (2, 5):
        yield line(f"the same, rules agreeing within {agree} tolerances", [refined(tolerance, agree)(p) for p in found])
    yield line("bisection without the probe", [refined(tolerance, 10, lambda p: bisected(p, False))(p) for p in found])
    features = Need(completeness=False, agreement=True)
    yield line("bisection by values alone", [refined(tolerance, 10, bisected, features)(p) for p in found])
    yield line("bisection, whatever the graph", [refined(tolerance, 10, bisected)(p) for p in found])
    yield line("nested Fejér, whatever the graph", [refined(tolerance, 10, nested)(p) for p in found])
    steps = max(7, round(float(np.median([o.count for o in ours]))))
    for power, title in ((0.5, "sqrt of the change of F"), (1.0, "the change of F")):
        yield line(f"midpoints of cells by {title}", [placed(steps, power)(p) for p in found])
    for rule, title in (("gausslegendre", "Gauss-Legendre"), ("riemann_middle", "midpoints")):
        for count in sorted({steps, 50, 100}):
            told = " (captum's default)" if (rule, count) == ("gausslegendre", 50) else ""
            yield line(f"{title}, uniform{told}", [fixed(rule, count)(p) for p in found])
    error = float(np.median([o.error for o in ours]))
    yield (
        f"\nUniform steps for the error of the first row: {equal(found, 'gausslegendre', error)} of Gauss-Legendre, "
        f"{equal(found, 'riemann_middle', error)} midpoints."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; default: all")
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--report", type=Path, help="also write the tables there, as Markdown")
    given = parser.parse_args()
    warnings.simplefilter("ignore", OnnxIgWarning)
    lines = [
        "# How many gradients an attribution needs\n",
        (__doc__ or "").partition("\n\n")[2].split("\n\n", 1)[1].strip(),
    ]
    for name in given.models or MODELS:
        for probabilities in (False, True):
            for text in table(name, probabilities, given.tolerance):
                lines.append(text)
                print(text, flush=True)
    if given.report:
        given.report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
