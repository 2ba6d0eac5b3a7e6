"""The standard's node cases, judged one by one: does `add_gradients` give what finite differences say?

`python -m tests.node_cases [part of a name]` prints every verdict that is not "right"; with `--record` it writes the tally
that `tests/test_node_cases.py` holds the code to.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import onnx_ig
from onnx_ig.errors import OnnxIgError, OnnxIgWarning, UnsupportedOperatorError
from tests.judging import DOUBLE, SINGLE, Slope, Unsettled, disagreement, slopes
from tests.reference_operators import OPERATORS
from tests.wide import is_float_array, widened

__all__ = ["RECORD", "SHAPES", "Case", "cases", "judge", "tally"]

RECORD = Path(__file__).with_name("node_cases.json")
SHAPES = ("static", "batch", "dynamic")
_CLOSE = {"float64": 1e-4, "float32": 1e-3, "float16": 3e-2, "bfloat16": 2e-1}

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], "dict[str, np.ndarray]"]


@dataclass(frozen=True)
class Case:
    """One node case with a float input and a float output, and what its author expects it to give."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


@cache
def _collected() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return collect_testcases(None)


def cases(part: str = "") -> Iterator[Case]:
    """Cases whose feeds and results are tensors, with a float among each."""
    for case in _collected():
        if not re.search(part, case.name):
            continue
        given, expected = case.data_sets[0]
        names = [i.name for i in case.model.graph.input]
        results = [o.name for o in case.model.graph.output]
        if not (any(map(is_float_array, given)) and any(map(is_float_array, expected))):
            continue
        if all(hasattr(a, "dtype") for a in (*given, *expected)):
            feeds = {n: np.asarray(a) for n, a in zip(names, given, strict=True)}
            yield Case(case.name, case.model, feeds, dict(zip(results, map(np.asarray, expected), strict=True)))


@dataclass(frozen=True)
class _Ground:
    """What is known of a case without gradients: its slopes, for a random cotangent of every float output."""

    cotangents: dict[str, np.ndarray]
    wrt: list[str]
    slopes: list[Slope]
    magnitude: float
    on_ort: bool
    single: bool


def judge(case: Case) -> dict[str, tuple[str, str]]:
    """{declared shapes: (verdict, details)}.

    Verdicts: "right", "refused", "wrong", "crashed", "does not load", "fails to run"; "left out" where the case cannot be
    judged: nothing runs it, it is random, or it is not smooth at the point.
    """
    try:
        ground, why = _ground(case), ""
    except Unsettled as unsettled:
        ground, why = None, str(unsettled)
    return {kind: _judge(case, kind, ground, why) for kind in SHAPES}


def _judge(case: Case, kind: str, ground: _Ground | None, why: str) -> tuple[str, str]:
    of = [n for n, a in case.expected.items() if is_float_array(a)]
    wrt = [n for n, a in case.feeds.items() if is_float_array(a)]
    model = _with_shapes(case.model, kind)
    if kind != "static" and not _loads(model) and _loads(case.model):
        model = _with_shapes(case.model, kind, vectors=False)
    try:
        try:
            augmented = _augmented(model, of, wrt)
        except UnsupportedOperatorError:
            wrt = _differentiable(case.model, wrt)
            augmented = _augmented(model, of, wrt)
    except UnsupportedOperatorError as error:
        told = "; ".join(f"{n.op_type}: {n.reason}" for n in error.nodes)
        return ("refused", told) if ground else ("left out", f"{why} (refused: {told})")
    except OnnxIgError as error:
        return ("refused", str(error)) if ground else ("left out", f"{why} (refused: {error})")
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}".splitlines()[0][:300]
    if ground is None:
        return "left out", why
    given = {n: case.feeds[n] for n in case.feeds} | {f"grad_{n}": c for n, c in ground.cotangents.items()}
    try:
        run = on_ort(augmented) if ground.on_ort else on_reference(augmented)
    except Exception as error:
        if _loads(case.model):
            return "does not load", str(error).splitlines()[0][:300]
        run = on_reference(augmented)
    try:
        results = run(given)
    except Exception as error:
        return "fails to run", f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return _compare(case, ground, {n: results[f"grad_{n}"] for n in wrt})


def _augmented(model: onnx.ModelProto, of: list[str], wrt: list[str]) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", OnnxIgWarning)  # no path but through zeros: the zeros are judged
        return onnx_ig.add_gradients(model, of=of, wrt=wrt)


def _differentiable(model: onnx.ModelProto, wrt: list[str]) -> list[str]:
    """Without the operands that the standard marks as not differentiable (scales of Resize)."""
    if len(model.graph.node) != 1:
        return wrt
    node = model.graph.node[0]
    version = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
    formal = onnx.defs.get_schema(node.op_type, version, node.domain).inputs
    never = onnx.defs.OpSchema.DifferentiationCategory.NonDifferentiable
    operands = {name: formal[min(index, len(formal) - 1)] for index, name in enumerate(node.input)}
    marked = {n for n, f in operands.items() if f.differentiation_category == never or f.type_str == "tensor(float)"}
    return [n for n in wrt if n not in marked] or wrt


def _loads(model: onnx.ModelProto) -> bool:
    try:
        on_ort(model)
    except Exception:  # see _checked
        return False
    return True


def _compare(case: Case, ground: _Ground, gradients: Arrays) -> tuple[str, str]:
    worst = (0.0, "")
    for name, gradient in gradients.items():
        if gradient.shape != case.feeds[name].shape or gradient.dtype != case.feeds[name].dtype:
            return "wrong", f"{name}: gradient {gradient.dtype}{gradient.shape} of {case.feeds[name].shape}"
    for slope in ground.slopes:
        if slope.input not in gradients:
            continue
        gradient = gradients[slope.input]
        types = [gradient.dtype, *(c.dtype for c in ground.cotangents.values())]
        limit = max(2e-2 if ground.single else 0.0, *(_CLOSE[t.name] for t in types))
        eps = max(float(ir.DataType.from_numpy(t).eps) for t in types)
        rounding = (8 if eps < 1e-4 else 2) * eps * ground.magnitude  # saturated gates leave no more than that
        error = disagreement(slope, gradient, rounding) / limit
        if error > worst[0] or np.isnan(error):
            got = float((gradient.astype(np.float64) * slope.direction).sum())
            worst = (error, f"{slope.input}: gradient {got:.6g}, differences {slope.value:.6g}")
    return ("wrong", worst[1]) if worst[0] > 1 else ("right", "")


def _ground(case: Case) -> _Ground:
    """Slopes of the case by the first runner that reproduces the results its author expects. Raises Unsettled."""
    rng = np.random.default_rng(5)
    cotangents = {
        name: np.where(np.isfinite(y.astype(np.float64)), rng.standard_normal(y.shape), 0).astype(y.dtype)
        for name, y in case.expected.items()
        if is_float_array(y)
    }
    if not any(c.any() or not c.size for c in cotangents.values()):
        raise Unsettled("no finite float result")
    weights = {n: c.astype(np.float64) for n, c in cotangents.items()}
    magnitude = sum(
        float(np.abs(w * np.where(w == 0, 0, case.expected[n].astype(np.float64))).sum()) for n, w in weights.items()
    )
    wrt = [n for n, a in case.feeds.items() if is_float_array(a)]
    unsettled = None
    for run, single in _runners(case):

        def score(feeds: Arrays, run: Run = run) -> float:
            try:
                results = run(feeds)
            except Exception as error:
                raise Unsettled(f"the model does not run nearby: {error}") from error
            if any(results[n].shape != w.shape for n, w in weights.items()):
                raise Unsettled("the results nearby have other shapes")
            return sum(float((results[n].astype(np.float64)[w != 0] * w[w != 0]).sum()) for n, w in weights.items())

        try:
            found = slopes(score, case.feeds, wrt, magnitude, SINGLE if single else DOUBLE)
        except Unsettled as error:
            if error.kink:
                raise
            unsettled = unsettled or error
            continue
        return _Ground(cotangents, wrt, found, magnitude, _suits_ort(case), single)
    raise unsettled or Unsettled("no runtime gives the expected results")


def _runners(case: Case) -> Iterator[tuple[Run, bool]]:
    """Runners that give the expected results, those in float64 before those in float32; and whether they are the latter."""
    for to in (TensorProto.DOUBLE, TensorProto.FLOAT):
        model, kept = widened(case.model, to)
        dtype = helper.tensor_dtype_to_np_dtype(to)
        feeds = {n: a.astype(dtype) if is_float_array(a) and n not in kept else a for n, a in case.feeds.items()}
        for make in (on_ort, on_reference):
            run = _checked(make, model, feeds, case.expected)
            if run is not None:
                yield _cast(run, feeds), to == TensorProto.FLOAT


def _checked(
    make: Callable[[onnx.ModelProto], Run], model: onnx.ModelProto, feeds: Arrays, expected: Arrays
) -> Run | None:
    """A runner of `model`; None where it does not run, is random, or gives something else than `expected`."""
    try:
        run = make(model)
        first, second = run(feeds), run(feeds)
    except Exception:  # each runtime has its own ways of saying that it does not know an operator
        return None
    for name, wanted in expected.items():
        got = first[name]
        if not np.array_equal(got, second[name], equal_nan=is_float_array(got)) or not _close(got, wanted):
            return None
    return run


def _close(got: np.ndarray, wanted: np.ndarray) -> bool:
    if got.shape != wanted.shape:
        return False
    if not is_float_array(wanted):
        return bool((got == wanted).all())
    limit = {"float64": 1e-6, "float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}[wanted.dtype.name]
    return np.allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=limit, atol=limit, equal_nan=True)


def _cast(run: Run, like: Arrays) -> Run:
    return lambda feeds: run({n: feeds[n].astype(a.dtype) for n, a in like.items()})


def _suits_ort(case: Case) -> bool:
    """Whether ONNX Runtime runs the case as expected, or not at all (then it may still run what is made of it)."""
    return not _loads(case.model) or _checked(on_ort, case.model, case.feeds, case.expected) is not None


def on_ort(model: onnx.ModelProto) -> Run:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda feeds: dict(zip(names, map(np.asarray, session.run(names, dict(feeds))), strict=True))


def on_reference(model: onnx.ModelProto) -> Run:
    evaluator = ReferenceEvaluator(model, new_ops=OPERATORS)
    names = [o.name for o in model.graph.output]

    def run(feeds: Arrays) -> dict[str, np.ndarray]:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(zip(names, map(np.asarray, evaluator.run(names, dict(feeds))), strict=True))

    return run


def _with_shapes(model: onnx.ModelProto, kind: str, vectors: bool = True) -> onnx.ModelProto:
    """The model with symbols for the first, or for all dimensions of its inputs; other shapes are left to inference.

    With `vectors` false lists of integers keep their length, which says how many axes there are (sizes of Resize).
    """
    if kind == "static":
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for info in result.graph.input:
        dims = info.type.tensor_type.shape.dim
        if not vectors and len(dims) == 1 and info.type.tensor_type.elem_type == TensorProto.INT64:
            continue
        for axis, dim in enumerate(dims):
            if axis == 0 or kind == "dynamic":
                dim.dim_param = f"{info.name}_{axis}"
    del result.graph.value_info[:]
    for info in result.graph.output:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = f"{info.name}_{axis}"
    return result


def tally(part: str = "", report: Callable[[str], None] | None = None) -> dict[str, Any]:
    """{"counts": {shapes: {verdict: number}}, verdict: {shapes: {case: details}}} for every verdict but "right"."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in SHAPES}
    others: dict[str, dict[str, dict[str, str]]] = {}
    for case in cases(part):
        for kind, (verdict, why) in judge(case).items():
            counts[kind][verdict] += 1
            if verdict != "right":
                others.setdefault(verdict, {}).setdefault(kind, {})[case.name] = why
                if report is not None and (verdict != "left out" or kind == "static"):
                    report(f"{verdict:14s} {kind:8s} {case.name}: {why}")
    return {"counts": {k: dict(sorted(c.items())) for k, c in counts.items()}, **others}


def main(arguments: list[str]) -> None:
    part = next((a for a in arguments if not a.startswith("-")), "")
    found = tally(part, lambda line: print(line, flush=True))
    print(json.dumps(found["counts"], indent=1))
    if "--record" in arguments:
        versions = {"onnx": onnx.__version__, "onnxruntime": ort.__version__}
        RECORD.write_text(json.dumps({"versions": versions, **found}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
