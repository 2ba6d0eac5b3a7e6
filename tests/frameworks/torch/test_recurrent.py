"""LSTM, GRU and RNN modules of PyTorch as its exporters write them, against autograd on the same weights."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import pytest

import onnx_ig
from tests.gradcheck import Runner

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytestmark = [
    pytest.mark.framework,
    pytest.mark.filterwarnings("ignore"),  # of the exporters
]

STEPS, BATCH, INPUTS, HIDDEN = 7, 3, 4, 5


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    """A recurrent module and a linear layer on all of its steps."""

    def __init__(self, kind: str, **options: Any):
        super().__init__()
        self.inner = getattr(torch.nn, kind)(INPUTS, HIDDEN, **options)
        directions = 2 if options.get("bidirectional") else 1
        self.head = torch.nn.Linear(HIDDEN * directions, 2)

    def forward(self, x: Any, *states: Any) -> Any:
        if not states:
            hidden, last = self.inner(x)
        else:
            hidden, last = self.inner(x, states if len(states) > 1 else states[0])
        last = last[0] * last[1].sum() if isinstance(last, tuple) else last
        return self.head(hidden), last


class Packed(torch.nn.Module):  # type: ignore[misc]
    """Sequences of several lengths in one batch."""

    def __init__(self, kind: str, **options: Any):
        super().__init__()
        self.inner = getattr(torch.nn, kind)(INPUTS, HIDDEN, batch_first=True, **options)

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=True)
        hidden, last = self.inner(packed)
        hidden, _ = torch.nn.utils.rnn.pad_packed_sequence(hidden, batch_first=True)
        return hidden, last[0] if isinstance(last, tuple) else last


def exported(module: Any, inputs: dict[str, Any], axes: dict[str, dict[int, str]] | None = None) -> onnx.ModelProto:
    """By the TorchScript exporter with `axes` dynamic, or by the one on torch.export at fixed sizes without."""
    names = {"input_names": list(inputs), "output_names": ["y", "last"], "verbose": False}
    if axes is None:
        model: onnx.ModelProto = torch.onnx.export(module, tuple(inputs.values()), dynamo=True, **names).model_proto
        return model
    file = io.BytesIO()
    torch.onnx.export(
        module, tuple(inputs.values()), file, dynamo=False, opset_version=17, dynamic_axes=axes, **names
    )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def compare(module: Any, model: onnx.ModelProto, inputs: dict[str, Any]) -> None:
    """Gradients of both outputs, to every float input, at other sizes than the exported ones where axes are dynamic."""
    floats = [n for n, t in inputs.items() if t.dtype.is_floating_point]
    given = {n: t.clone().requires_grad_(n in floats) for n, t in inputs.items()}
    results = module(*given.values())
    cotangents = [torch.randn_like(r) for r in results]
    expected = torch.autograd.grad(results, [given[n] for n in floats], cotangents, allow_unused=True)
    augmented = onnx_ig.add_gradients(model, of=["y", "last"], wrt=floats)
    feeds = {n: t.numpy() for n, t in inputs.items()}
    feeds |= {f"grad_{n}": c.numpy() for n, c in zip(("y", "last"), cotangents, strict=True)}
    names = [o.name for o in augmented.graph.output]
    found = dict(zip(names, Runner(augmented)(feeds), strict=True))
    np.testing.assert_allclose(found["y"], results[0].detach().numpy(), atol=1e-5)
    for name, gradient in zip(floats, expected, strict=True):
        scale = float(gradient.abs().max())
        np.testing.assert_allclose(found[f"grad_{name}"], gradient.numpy(), atol=2e-5 * scale, err_msg=name)


VARIANTS = [
    ("LSTM", {}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("LSTM", {"batch_first": True, "bias": False}),
    ("GRU", {}),
    ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("GRU", {"bias": False}),
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    ("RNN", {"bidirectional": True, "batch_first": True}),
]


def sample(kind: str, options: dict[str, Any], states: bool, batch: int, steps: int) -> dict[str, Any]:
    first = (batch, steps) if options.get("batch_first") else (steps, batch)
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    inputs = {"x": torch.randn(*first, INPUTS)}
    for name in ("h0", "c0")[: (2 if kind == "LSTM" else 1) if states else 0]:
        inputs[name] = torch.randn(layers, batch, HIDDEN)
    return inputs


@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize(("kind", "options"), VARIANTS)
def test_modules_of_any_batch_and_length(kind: str, options: dict[str, Any], states: bool) -> None:
    torch.manual_seed(0)
    module = Recurrent(kind, **options).eval()
    inputs = sample(kind, options, states, BATCH, STEPS)
    axes = {name: {0: f"{name}_0", 1: f"{name}_1"} if name == "x" else {1: "n"} for name in inputs}
    model = exported(module, inputs, axes)
    compare(module, model, inputs)
    compare(module, model, sample(kind, options, states, 2, 4))


@pytest.mark.parametrize(("kind", "options"), [VARIANTS[1], VARIANTS[4], VARIANTS[8]])
def test_modules_of_fixed_sizes(kind: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = Recurrent(kind, **options).eval()
    inputs = sample(kind, options, True, BATCH, STEPS)
    compare(module, exported(module, inputs), inputs)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences(kind: str, bidirectional: bool) -> None:
    torch.manual_seed(1)
    module = Packed(kind, bidirectional=bidirectional).eval()
    inputs = {"x": torch.randn(BATCH, STEPS, INPUTS), "lengths": torch.tensor([7, 4, 1])}
    compare(module, exported(module, inputs, {"x": {0: "n", 1: "s"}}), inputs)
