"""Control flow of PyTorch programs as its exporters write it, against autograd."""

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


class Repeated(torch.nn.Module):  # type: ignore[misc]
    """A loop whose number of turns is the length of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(4)
        for i in range(x.size(0)):
            h = torch.tanh(self.inner(h) + x[i])
        return h


class Until(torch.nn.Module):  # type: ignore[misc]
    """A loop that stops at a condition on the data, with a branch in it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        count = 0
        while bool(y.abs().sum() < 20.0) and count < 20:
            y = y * 1.5 + torch.sin(x) if bool(y.sum() > 0) else y * y + 0.3
            count += 1
        return y


class Listed(torch.nn.Module):  # type: ignore[misc]
    """A list filled in a loop and stacked behind it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: list[torch.Tensor] = []
        state = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            state = torch.tanh(state + x[i])
            found.append(state * x[i])
        return torch.stack(found)


class Pieces(torch.nn.Module):  # type: ignore[misc]
    """A tensor split before a loop; the results have several lengths and are joined behind it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: list[torch.Tensor] = []
        for piece in torch.split(x, 2):
            found.append(torch.tanh(piece) * piece.sum())
        return torch.cat(found)


class Nested(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x[0, 0])
        for i in range(x.size(0)):
            inner = torch.ones_like(total)
            for j in range(x.size(1)):
                inner = inner * torch.sigmoid(x[i, j])
            total = total + inner
        return total


class Bag(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(10, 4, mode=mode)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.head(self.bag(ids, offsets)))


def scripted(module: Any, *inputs: Any, opset: int = 17) -> onnx.ModelProto:
    file = io.BytesIO()
    names = ["x", "offsets"][: len(inputs)]
    torch.onnx.export(
        torch.jit.script(module), inputs, file, dynamo=False, opset_version=opset, input_names=names,
        output_names=["y"], dynamic_axes={n: {0: n} for n in names},
    )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def compare(module: Any, model: onnx.ModelProto, x: Any) -> None:
    given = x.clone().requires_grad_()
    y = module(given)
    cotangent = torch.randn_like(y)
    (expected,) = torch.autograd.grad(y, given, cotangent)
    augmented = onnx_ig.add_gradients(model, of="y", wrt="x")
    value, gradient = Runner(augmented)({"x": x.numpy(), "grad_y": cotangent.numpy()})
    np.testing.assert_allclose(value, y.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient, expected.numpy(), atol=2e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("module", [Repeated(), Listed(), Pieces()])
@pytest.mark.parametrize("length", [1, 5])
def test_scripted_loops_over_the_input(module: Any, length: int) -> None:
    torch.manual_seed(0)
    compare(module, scripted(module, torch.randn(3, 4)), torch.randn(length, 4))


@pytest.mark.parametrize("scale", [0.3, -0.3, 2.0, 20.0])
def test_a_scripted_loop_that_stops_at_a_condition(scale: float) -> None:
    torch.manual_seed(0)
    compare(Until(), scripted(Until(), torch.randn(4)), torch.rand(4) * scale)


def test_scripted_loops_in_loops() -> None:
    torch.manual_seed(0)
    compare(Nested(), scripted(Nested(), torch.randn(2, 3, 4)), torch.randn(4, 3, 4))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode: str) -> None:
    torch.manual_seed(0)
    module = Bag(mode).eval()
    ids, offsets = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 5])
    file = io.BytesIO()
    torch.onnx.export(
        module, (ids, offsets), file, dynamo=False, opset_version=17, input_names=["ids", "offsets"], output_names=["y"]
    )
    model = onnx.load_from_string(file.getvalue())
    weight = next(i.name for i in model.graph.initializer if list(i.dims) == [10, 4])
    y = module(ids, offsets)
    (expected,) = torch.autograd.grad(y.sum(), module.bag.weight)
    augmented = onnx_ig.add_gradients(model, of="y", wrt=weight)
    feeds = {"ids": ids.numpy(), "offsets": offsets.numpy(), "grad_y": np.ones(y.shape, np.float32)}
    feeds = {i.name: feeds[i.name] for i in augmented.graph.input}
    gradient = Runner(augmented)(feeds)[-1]
    np.testing.assert_allclose(gradient, expected.numpy(), atol=1e-6)


class Cond(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v * v.sin(), lambda v: v.exp() + v, (x,))


class Scanned(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.scan import scan

        def step(h: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.tanh(self.inner(h) + row)
            return h, h * row

        _, ys = scan(step, torch.zeros(4), x, dim=0)
        return ys


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_torch_cond(sign: float) -> None:
    torch.manual_seed(0)
    program = torch.onnx.export(
        Cond(), (torch.randn(3, 4),), dynamo=True, input_names=["x"], output_names=["y"], verbose=False
    )
    compare(Cond(), program.model_proto, torch.rand(3, 4) * sign)


def test_torch_scan() -> None:
    torch.manual_seed(0)
    module = Scanned().eval()
    program = torch.onnx.export(
        module, (torch.randn(3, 4),), dynamo=True, input_names=["x"], output_names=["y"], verbose=False
    )
    compare(module, program.model_proto, torch.randn(3, 4))
