"""One function in several files has one attribution: batch norm folded or not, optimised by ONNX Runtime or not."""

from __future__ import annotations

import functools
import io
import warnings
from pathlib import Path

import onnx
import pytest

from tests.frameworks.compare import Array, agree, alone, explained

alone("torch", "captum", "onnxscript")

import torch

from tests.frameworks.torch import exporting, networks
from tests.sessions import optimised

pytestmark = pytest.mark.framework
WITH_NORMS = ("cnn", "cnn_relu", "resnet", "resnet_relu", "mobilenet", "signal")


def unfolded(case: networks.Case) -> onnx.ModelProto:
    """The export with batch norms as nodes of their own."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            case.module, tuple(case.inputs.values()), buffer, dynamo=False, opset_version=17, dynamic_axes=case.axes,
            input_names=list(case.inputs), output_names=["logits"], training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
        )  # fmt: skip
    return onnx.load_from_string(buffer.getvalue())


@functools.cache
def exported(name: str) -> onnx.ModelProto:
    return exporting.export(networks.case(name), "torchscript")


@functools.cache
def integrated(name: str) -> dict[str, Array]:
    case = networks.case(name)
    return explained(exported(name), case.feeds, exporting.predicted(case))


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("name", WITH_NORMS)
def test_batch_norm_folded_or_not(name: str) -> None:
    case = networks.case(name)
    model = unfolded(case)
    assert "BatchNormalization" in operators(model)
    assert "BatchNormalization" not in operators(exported(name))
    found = explained(model, case.feeds, exporting.predicted(case))
    agree(found, integrated(name), smooth=case.smooth, bound=1e-5)


@pytest.mark.parametrize("level", ["BASIC", "EXTENDED"])
@pytest.mark.parametrize("name", networks.CASES)
def test_optimised_or_not(name: str, level: str, tmp_path: Path) -> None:
    case = networks.case(name)
    model = onnx.load(optimised(exported(name).SerializeToString(), level, tmp_path))
    found = explained(model, case.feeds, exporting.predicted(case))
    agree(found, integrated(name), smooth=case.smooth, bound=1e-5)
