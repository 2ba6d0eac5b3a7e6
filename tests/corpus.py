"""A folder of exported models, each judged by central differences of the original: `python -m tests.corpus [part]`.

The folder's own `feeds.py` says how files are fed and what is right: for the first float output with its largest entry a
sample as the target, differences along the gradient itself agree with it within 8 % at some step. Steps go on below those
named there as far as rounding lets them, since some models bend within a thousandth of their input. Where the model rounds
inside (quantised), secants agree within a factor of 2.5.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

import onnx_ig
from onnx_ig.errors import OnnxIgError, OnnxIgWarning
from onnx_ig.graph.emit import is_float
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from onnx_ig.graph.sources import classify, graph_values
from tests.sessions import single_threaded

__all__ = ["FOLDER", "files", "judge"]

FOLDER = Path(__file__).parents[2] / "shared" / "corpus"
_STEPS = (1e-2, 3e-3, 3e-2, 1e-3, 1e-1, 3e-4, 1e-4, 3e-5, 1e-5)
_SECANTS = (2.0, 1.0, 0.5, 0.2)

Arrays = Mapping[str, np.ndarray]


@cache
def _feeds() -> Any:
    spec = importlib.util.spec_from_file_location("corpus_feeds", FOLDER / "feeds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def files() -> dict[str, Any]:
    """{file name: shapes that cannot be guessed}; empty where there is no such folder."""
    if not (FOLDER / "feeds.py").exists():
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the index is left open
        return dict(_feeds().index(FOLDER))


def session_of(model: Path | onnx.ModelProto) -> ort.InferenceSession:
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, single_threaded(), providers=["CPUExecutionProvider"])


@dataclass(frozen=True)
class _Forward:
    """The score of `of` under a fixed cotangent, as a function of the feeds; `names` are those of values cut open."""

    session: ort.InferenceSession
    names: Mapping[str, str]
    of: str
    cotangent: np.ndarray

    def __call__(self, feeds: Arrays) -> float:
        known = {i.name for i in self.session.get_inputs()}
        given = {self.names.get(n, n): a for n, a in feeds.items()}
        (y,) = self.session.run([self.of], {n: a for n, a in given.items() if n in known})
        return float((y.astype(np.float64) * self.cotangent)[self.cotangent != 0].sum())


@cache
def judge(name: str) -> tuple[str, str]:
    """(verdict, details).

    Verdicts: "right"; "refused" by name; "flat" (the score does not move, and the gradient is zero or rounding);
    "undefined" (the model itself gives NaN); "wrong".
    """
    path = FOLDER / name
    feeds, outputs, rows = _run(path, name, files()[name])
    prepared = _prepared(path)
    of = next(v.name for v in prepared.graph.outputs if is_float(v.dtype))
    assert of is not None
    wrt = [v.name or "" for s in classify(prepared.graph) if s.kind != "held" for v in s.values]
    try:
        if not wrt:
            onnx_ig.Explainer(str(path), output=of)  # says why
        augmented = _augmented(path, of, wrt)
    except OnnxIgError as error:
        return "refused", str(error).replace("\n", " ")
    if of not in outputs:  # it stands for one that is no tensor
        outputs[of] = session_of(ir.to_proto(prepared)).run([of], feeds)[0]
    y = outputs[of]
    if not np.isfinite(y.astype(np.float64)).all():
        return "undefined", f"{of} holds NaN or infinity"
    cotangent = _largest(y, rows)
    session = session_of(augmented)
    values = session.run(None, {**feeds, f"grad_{of}": cotangent.astype(y.dtype)})
    found = dict(zip([o.name for o in session.get_outputs()], values, strict=True))
    gradients = {n: found[f"grad_{n}"].astype(np.float64) for n in wrt}
    point, forward = _forward(path, of, wrt, feeds, cotangent)
    quantised = any(
        "quant" in n.op_type.lower() or n.op_type in ("MatMulInteger", "ConvInteger") for n in prepared.graph
    )
    return _compare(forward, point, gradients, quantised)


def _compare(forward: _Forward, point: Arrays, gradients: Arrays, quantised: bool) -> tuple[str, str]:
    length = np.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
    if not np.isfinite(length):
        return "wrong", "the gradient is not finite"
    size = max(1e-3, np.sqrt(sum(float((point[n].astype(np.float64) ** 2).sum()) for n in gradients)))
    here = forward(point)
    rounding = 4 * float(np.finfo(np.float32).eps) * abs(here)
    if length == 0:
        moved = _moves(forward, point, gradients, 1e-2 * size)
        return ("flat", "") if moved <= rounding else ("wrong", f"zero gradient, and the score moves by {moved:.3g}")
    move = {n: g / length * 0.05 * size for n, g in gradients.items()}
    expected = length * 0.05 * size
    best = (np.inf, 0.0)
    for step in _STEPS:
        found = (_moved(forward, point, move, step) - _moved(forward, point, move, -step)) / (2 * step)
        noise = min(rounding / (2 * step), 0.08 * expected)
        best = min(best, ((abs(found - expected) - noise) / expected, found))
        if best[0] <= 0.08:
            return "right", f"{max(best[0], 0):.2g}"
    for step in _SECANTS if quantised else ():
        ratio = (_moved(forward, point, move, step) - here) / step / expected
        if 1 / 2.5 < ratio < 2.5:
            return "right", f"secant {ratio:.2g}"
    if _moves(forward, point, gradients, size) <= rounding:
        return "flat", f"the score is constant, and {expected:.3g} is what rounding leaves of a derivative of zero"
    return "wrong", f"differences {best[1]:.5g}, gradient {expected:.5g}"


def _moved(forward: _Forward, point: Arrays, move: Arrays, step: float) -> float:
    there = {n: (point[n].astype(np.float64) + step * m).astype(point[n].dtype) for n, m in move.items()}
    return forward({**point, **there})


def _moves(forward: _Forward, point: Arrays, like: Arrays, size: float) -> float:
    """How far the score moves when the input is moved by `size` in random directions."""
    rng = np.random.default_rng(0)
    here, farthest = forward(point), 0.0
    for _ in range(4):
        aside = {n: size / np.sqrt(g.size) * rng.standard_normal(g.shape) for n, g in like.items()}
        farthest = max(farthest, abs(_moved(forward, point, aside, 1.0) - here))
    return farthest


def _run(path: Path, name: str, shapes: Any) -> tuple[dict[str, np.ndarray], dict[str, Any], int]:
    """(feeds, outputs, rows) of three samples, or of one where the file takes no batch."""
    session = session_of(path)
    for rows in (3, 1):
        feeds = _feeds().feeds(session, name, rows, shapes)
        try:
            values = session.run(None, feeds)
        except Exception:  # a batch that the file fixes
            if rows == 1:
                raise
            continue
        return feeds, dict(zip([o.name for o in session.get_outputs()], values, strict=True)), rows
    raise AssertionError


def _largest(y: np.ndarray, rows: int) -> np.ndarray:
    """1 at the largest entry of every sample."""
    samples = rows if y.ndim and y.shape[0] == rows else 1
    flat = y.reshape(samples, -1)
    cotangent = np.zeros(flat.shape)
    cotangent[np.arange(samples), flat.argmax(1)] = 1
    return cotangent.reshape(y.shape)


def _prepared(path: Path) -> ir.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnnxIgWarning)
        return prepare(load(path))


def _augmented(path: Path, of: str, wrt: list[str]) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnnxIgWarning)  # zeros are judged, outputs that are no tensors left out
        return onnx_ig.add_gradients(path, of=of, wrt=wrt)


def _forward(
    path: Path, of: str, wrt: list[str], feeds: Arrays, cotangent: np.ndarray
) -> tuple[dict[str, np.ndarray], _Forward]:
    """(feeds with internal values of `wrt`, the model cut open there)."""
    inner = [n for n in wrt if n not in feeds]
    if not inner and of in {o.name for o in session_of(path).get_outputs()}:
        return dict(feeds), _Forward(session_of(path), {}, of, cotangent)
    model = _prepared(path)
    values = graph_values(model.graph)
    model.graph.outputs.extend(values[n] for n in inner)
    found = session_of(ir.to_proto(model)).run(inner, dict(feeds)) if inner else []
    model = _prepared(path)
    values = graph_values(model.graph)
    for name in inner:
        fed = ir.Value(name=f"{name}_fed", type=values[name].type, shape=values[name].shape)
        model.graph.inputs.append(fed)
        values[name].replace_all_uses_with(fed)
    names = {n: f"{n}_fed" for n in inner}
    point = {**feeds, **dict(zip(inner, found, strict=True))}
    return point, _Forward(session_of(ir.to_proto(model)), names, of, cotangent)


def main(part: str, report: Callable[[str], None] = print) -> None:
    verdicts: Counter[str] = Counter()
    for name in files():
        if part in name:
            verdict, why = judge(name)
            verdicts[verdict] += 1
            report(f"{verdict:9s} {name}: {why[:200]}")
    report(str(dict(verdicts)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
