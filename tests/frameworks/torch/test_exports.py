"""Networks of PyTorch by both its exporters: attributions as captum computes them in float64 on the same weights."""

from __future__ import annotations

import functools

import onnx
import pytest

import onnx_ig
from tests.frameworks.compare import METHODS, STEPS, agree, alone, explained

alone("torch", "captum", "onnxscript")

from tests.frameworks.torch import exporting, networks

pytestmark = pytest.mark.framework
Attributions = dict[str, exporting.Arrays]


@functools.cache
def exported(name: str, exporter: str) -> onnx.ModelProto:
    return exporting.export(networks.case(name), exporter)


@functools.cache
def by_captum(name: str) -> Attributions:
    case = networks.case(name)
    return exporting.by_captum(case, exporting.predicted(case), STEPS)


@functools.cache
def ours(name: str, exporter: str, method: str) -> exporting.Arrays:
    case = networks.case(name)
    return explained(exported(name, exporter), case.feeds, exporting.predicted(case), method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exporter", exporting.EXPORTERS)
@pytest.mark.parametrize("name", networks.CASES)
def test_as_captum(name: str, exporter: str, method: str) -> None:
    agree(ours(name, exporter, method), by_captum(name)[method], smooth=networks.case(name).smooth)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("exporter", exporting.EXPORTERS)
@pytest.mark.parametrize("name", networks.CASES)
def test_exported_for_a_fixed_batch(name: str, exporter: str, rows: int) -> None:
    """Three samples of a file for one or two are what captum gives for three."""
    case = networks.case(name)
    model = exporting.export(exporting.fixed(case, rows), exporter)
    found = explained(model, case.feeds, exporting.predicted(case))
    agree(found, by_captum(name)["integrated_gradients"], smooth=case.smooth)
    assert onnx_ig.inspect(model).batch.startswith(f"the model's batch is fixed at {rows}; taken as one of any size")


@pytest.mark.parametrize("name", networks.CASES)
def test_both_exports_have_the_same_attributions(name: str) -> None:
    first, second = (ours(name, exporter, "integrated_gradients") for exporter in exporting.EXPORTERS)
    agree(first, second, smooth=networks.case(name).smooth)
