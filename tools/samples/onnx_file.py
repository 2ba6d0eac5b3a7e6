"""From a PyTorch module to a small, plain .onnx file with metadata, checked against the module."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from . import files

OPSET = 18


def fold_batch_norm(conv: nn.Module, norm: nn.Module) -> nn.Module:
    """The convolution that computes norm(conv(x)) in inference: file and references then share one set of weights.

    Raises TypeError for other modules.
    """
    if not isinstance(conv, nn.Conv2d) or not isinstance(norm, nn.BatchNorm2d):
        raise TypeError(f"cannot fold {type(norm).__name__} into {type(conv).__name__}")
    return fuse_conv_bn_eval(conv.eval(), norm.eval())


def round_weights_to_half(module: nn.Module) -> None:
    """Round every weight of rank >= 2 to float16 and back, in place: what the file with half weights computes with."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() >= 2:
                parameter.copy_(parameter.half().float())


def export(
    module: nn.Module,
    example: Mapping[str, torch.Tensor],
    dims: Mapping[str, Mapping[int, str]],
    *,
    half_weights: bool = False,
) -> onnx.ModelProto:
    """Export with the default exporter of PyTorch, then drop what only a debugger of the exporter reads.

    `example` gives one tensor per input, in order and with at least two elements along each symbolic axis; `dims` names
    those axes. The output is called `logits`. With `half_weights` the weights of rank >= 2 are stored as float16 behind
    a Cast; ValueError unless they went through `round_weights_to_half`.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        path = Path(folder) / "model.onnx"
        symbols = {name: torch.export.Dim(name) for axes in dims.values() for name in axes.values()}
        torch.onnx.export(
            module.eval(),
            tuple(example.values()),
            str(path),
            dynamo=True,
            opset_version=OPSET,
            external_data=False,
            verbose=False,
            input_names=list(example),
            output_names=["logits"],
            dynamic_shapes=tuple({axis: symbols[s] for axis, s in dims[name].items()} for name in example),
        )
        model = onnx.load(path)
    files.strip(model)
    del model.graph.value_info[:]  # shape inference gives them back
    if half_weights:
        _store_half(model)
    onnx.checker.check_model(model, full_check=True)
    return model


def _store_half(model: onnx.ModelProto) -> None:
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) >= 2:
            name, full = tensor.name, numpy_helper.to_array(tensor)
            half = full.astype(np.float16)
            if not np.array_equal(half.astype(np.float32), full):
                raise ValueError(f"weight {name} is not representable in float16: round the module first")
            tensor.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
            casts.append(helper.make_node("Cast", [f"{name}.half"], [name], f"{name}.float", to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def check_against(
    module: nn.Module, path: Path, feeds: Sequence[Mapping[str, NDArray[Any]]], tolerance: float = 1e-4
) -> float:
    """Largest difference between module and file over the feeds; raises ValueError above `tolerance`."""
    worst = 0.0
    for feed in feeds:
        with torch.no_grad():
            expected = module(*(torch.from_numpy(v) for v in feed.values())).numpy()
        worst = max(worst, float(np.abs(files.run(path, feed) - expected).max()))
    if not worst <= tolerance:
        raise ValueError(f"{path.name} differs from the PyTorch module by {worst:.2e}, more than {tolerance:.0e}")
    return worst
