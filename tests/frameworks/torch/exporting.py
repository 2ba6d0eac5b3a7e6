"""Both exporters of PyTorch, and captum on the module that was exported."""

from __future__ import annotations

import copy
import dataclasses
import io
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import captum.attr as captum
import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from tests.frameworks.torch.networks import Case

EXPORTERS = ("dynamo", "torchscript")
Arrays = dict[str, NDArray[Any]]


def export(case: Case, exporter: str) -> onnx.ModelProto:
    """The case as ONNX, its output called `logits`, without any clean-up of ours."""
    names = {"input_names": list(case.inputs), "output_names": ["logits"]}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        if exporter == "torchscript":
            buffer = io.BytesIO()
            torch.onnx.export(
                case.module, tuple(case.inputs.values()), buffer, dynamo=False, opset_version=17,
                dynamic_axes={**case.axes, "logits": {0: "N"}} if any(case.axes.values()) else None, **names,
            )  # fmt: skip
            return onnx.load_from_string(buffer.getvalue())
        path = Path(folder) / "model.onnx"
        symbols = {name: torch.export.Dim(name) for axes in case.axes.values() for name in axes.values()}
        dims = tuple({i: symbols[d] for i, d in case.axes[name].items()} for name in case.inputs)
        torch.onnx.export(
            case.module, tuple(case.inputs.values()), str(path), dynamo=True, dynamic_shapes=dims, verbose=False,
            external_data=False, **names,
        )  # fmt: skip
        return onnx.load(path)


def fixed(case: Case, rows: int) -> Case:
    """The case with its first rows alone, exported for as many as there are."""
    inputs = {name: x[:rows] for name, x in case.inputs.items()}
    return dataclasses.replace(case, inputs=inputs, axes={name: {} for name in inputs})


def predicted(case: Case) -> list[tuple[int, ...]]:
    """The largest entry of each sample's output."""
    with torch.no_grad():
        output = case.module(*case.inputs.values())
    return [tuple(map(int, np.unravel_index(int(row.argmax()), tuple(row.shape)))) for row in output]


def by_captum(case: Case, target: list[tuple[int, ...]], steps: int) -> dict[str, Arrays]:
    """{method: {input: attribution}} in float64 on the same weights; of a token input, by embedding dimension."""
    module = copy.deepcopy(case.module).double()
    inputs = {k: x.double() if x.is_floating_point() else x for k, x in case.inputs.items()}
    settings: dict[str, Any] = {"target": target, "n_steps": steps, "method": "gausslegendre"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.tokens:
            (moved,) = inputs
            ids, layer = inputs[moved], module.get_submodule(case.tokens)
            integrated = captum.LayerIntegratedGradients(module, layer).attribute(
                ids, torch.zeros_like(ids), **settings
            )
            slope = captum.LayerGradientXActivation(module, layer, multiply_by_inputs=False).attribute(
                ids, target=target
            )
            given, slopes, names = (integrated,), (slope,), [moved]
        else:
            names = [k for k, x in inputs.items() if x.is_floating_point()]
            points = tuple(inputs[k].requires_grad_() for k in names)
            held = tuple(x for k, x in inputs.items() if k not in names) or None
            given = captum.IntegratedGradients(module).attribute(points, additional_forward_args=held, **settings)
            slopes = captum.Saliency(module).attribute(points, target=target, abs=False, additional_forward_args=held)
    return {
        method: {k: v.detach().numpy() for k, v in zip(names, values, strict=True)}
        for method, values in (("integrated_gradients", given), ("gradient", slopes))
    }
