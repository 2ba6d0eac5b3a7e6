"""The oracle of the rule tests: central differences in float64, which know nothing of our rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnx_ig
from tests.reference_operators import OPERATORS

SHAPES = ("static", "batch", "dynamic", "unranked")
Arrays = Mapping[str, np.ndarray]


class Runner:
    """Runs a model with ONNX Runtime, or with the reference where the runtime has no kernel for the type."""

    def __init__(self, model: onnx.ModelProto):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        self._run: Any
        try:
            self._run = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run
        except Exception as error:
            if "NOT_IMPLEMENTED" not in str(error) and "Could not find an implementation" not in str(error):
                raise
            self._run = ReferenceEvaluator(model, new_ops=OPERATORS).run

    def __call__(self, feeds: Arrays) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            return self._run(None, {name: np.asarray(array) for name, array in feeds.items()})


def node_model(
    op_type: str,
    inputs: Mapping[str, np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[str] = ("y",),
    constants: Sequence[str] = (),
    opset: int = 20,
    domain: str = "",
    shapes: str = "static",
    dtype: Any = np.float64,
    ranks: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """One node as a model. None in `inputs` leaves an optional operand out; `constants` are stored in the file."""
    names = ["" if a is None else n for n, a in inputs.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(op_type, names, list(outputs), name="node", domain=domain, **(attributes or {}))
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return graph_model([node], inputs, outputs, constants=constants, opsets=opsets, shapes=shapes, dtype=dtype)


def graph_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray | None],
    outputs: Sequence[str],
    *,
    constants: Sequence[str] = (),
    opsets: Sequence[onnx.OperatorSetIdProto] | None = None,
    shapes: str = "static",
    dtype: Any = np.float64,
) -> onnx.ModelProto:
    """Nodes as a model whose floats have type `dtype`; output types are left to inference."""
    given, stored = [], []
    for name, array in inputs.items():
        if array is None:
            continue
        array = _as(array, dtype)
        if name in constants:
            stored.append(numpy_helper.from_array(array, name))
        else:
            given.append(helper.make_tensor_value_info(name, _onnx_type(array), _dims(name, array.shape, shapes)))
    declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", given, declared, stored)
    model = helper.make_model(graph, opset_imports=opsets or [helper.make_opsetid("", 20)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for output in inferred.graph.output:
        if not output.type.HasField("tensor_type"):
            output.type.tensor_type.elem_type = _onnx_type(np.zeros(0, dtype))
        if shapes == "unranked":
            output.type.tensor_type.ClearField("shape")
    return inferred


def check(
    op_type: str,
    inputs: Mapping[str, np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[str] = ("y",),
    of: str | None = None,
    wrt: Sequence[str] | None = None,
    constants: Sequence[str] = (),
    opset: int = 20,
    domain: str = "",
    shapes: Sequence[str] = SHAPES,
    rtol: float = 1e-5,
    rtol32: float = 2e-4,
    step: float = 1e-5,
) -> None:
    """Compare `add_gradients` of one node with central differences, at every kind of declared shape.

    `wrt` defaults to every float operand that is fed. Inputs must be at points where the operator is smooth.
    """
    for kind in shapes:
        models = {
            dtype: node_model(op_type, inputs, attributes, outputs=outputs, constants=constants, opset=opset,
                              domain=domain, shapes=kind, dtype=dtype)
            for dtype in (np.float64, np.float32)
        }  # fmt: skip
        feeds = {n: a for n, a in inputs.items() if a is not None and n not in constants}
        check_model(models, feeds, of=of or outputs[0], wrt=wrt, rtol=rtol, rtol32=rtol32, step=step, where=kind)


def check_model(
    models: Mapping[Any, onnx.ModelProto],
    feeds: Arrays,
    *,
    of: str,
    wrt: Sequence[str] | None = None,
    rtol: float = 1e-5,
    rtol32: float = 2e-4,
    step: float = 1e-5,
    where: str = "",
) -> None:
    """As `check`, for whole models: `models` maps np.float64 (and np.float32) to the same model in that type."""
    rng = np.random.default_rng(7)
    model = models[np.float64]
    exact = {n: _as(a, np.float64) for n, a in feeds.items()}
    wrt = list(wrt or [n for n, a in exact.items() if a.dtype.kind == "f"])
    forward = Runner(model)
    position = [o.name for o in model.graph.output].index(of)
    y = np.asarray(forward(exact)[position])
    cotangent = rng.standard_normal(y.shape)
    gradients = gradients_of(model, exact, of, wrt, cotangent)
    for name in wrt:
        assert gradients[name].shape == exact[name].shape, (where, name, gradients[name].shape)
        assert np.isfinite(gradients[name]).all(), (where, name, "not finite")
        for _ in range(3):
            direction = rng.standard_normal(exact[name].shape)
            ahead = np.asarray(forward({**exact, name: exact[name] + step * direction})[position], np.float64)
            behind = np.asarray(forward({**exact, name: exact[name] - step * direction})[position], np.float64)
            expected = float(((ahead - behind) * cotangent).sum() / (2 * step))
            got = float((gradients[name] * direction).sum())
            scale = max(1e-3, float(np.abs(gradients[name] * direction).sum()), abs(expected))
            assert abs(got - expected) <= rtol * scale + 1e-9, (where, name, got, expected)
    if np.float32 in models:
        single = {n: _as(a, np.float32) for n, a in feeds.items()}
        rounded = gradients_of(models[np.float32], single, of, wrt, cotangent.astype(np.float32))
        for name in wrt:
            scale = max(1e-3, float(np.abs(gradients[name]).max(initial=0.0)))
            error = float(np.abs(rounded[name] - gradients[name]).max(initial=0.0))
            assert error <= rtol32 * scale, (where, name, "float32", error, scale)


def gradients_of(
    model: onnx.ModelProto, feeds: Arrays, of: str, wrt: Sequence[str], cotangent: np.ndarray, **options: Any
) -> dict[str, np.ndarray]:
    """Run `add_gradients(model, of, wrt)` on `feeds`."""
    augmented = onnx_ig.add_gradients(model, of=of, wrt=list(wrt), **options)
    declared = (*model.graph.input, *model.graph.output)
    if all(v.type.tensor_type.HasField("shape") for v in declared):  # what the checker asks for
        onnx.checker.check_model(augmented)
    values = Runner(augmented)({**feeds, f"grad_{of}": cotangent})
    named = dict(zip([o.name for o in augmented.graph.output], values, strict=True))
    return {name: np.asarray(named[f"grad_{name}"]) for name in wrt}


def _as(array: np.ndarray, dtype: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(dtype) if array.dtype.kind == "f" else array


def _onnx_type(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype)) if array.dtype != object else TensorProto.STRING


def _dims(name: str, shape: Sequence[int], kind: str) -> list[int | str] | None:
    if kind == "unranked":
        return None
    if kind == "dynamic":
        return [f"{name}_{i}" for i in range(len(shape))]
    if kind == "batch" and shape:
        return [f"{name}_0", *shape[1:]]
    return list(shape)
