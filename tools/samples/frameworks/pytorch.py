"""The networks in PyTorch: trained here, exported by both exporters, attributed by captum."""

from __future__ import annotations

import copy
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
from torch import nn
from torch.nn import functional

from ..train import accuracy, fit
from .shared import EPSILON, HEADS, NETWORKS, STEPS, UNITS, WIDTH, Array, Weights, digits, write


class Cnn(nn.Module):
    """image [N, 1, 8, 8] -> logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm, self.conv2 = (
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8, eps=EPSILON),
            nn.Conv2d(8, 16, 3, padding=1),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = functional.avg_pool2d(functional.silu(self.norm(self.conv1(image))), 2)
        x = functional.avg_pool2d(functional.silu(self.conv2(x)), 2)
        return self.head(x.flatten(1))


class Lstm(nn.Module):
    """rows [N, 8, 8], from top to bottom -> logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTM(8, UNITS, batch_first=True), nn.Linear(UNITS, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(rows)[0][:, -1])


class Attention(nn.Module):
    """rows [N, 8, 8] -> logits [N, 10]: one encoder layer, its norms in front, the mean over the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Linear(8, WIDTH), nn.Parameter(torch.randn(8, WIDTH) * 0.1)
        self.norm1, self.qkv, self.out = (
            nn.LayerNorm(WIDTH, eps=EPSILON),
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH, eps=EPSILON), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        x = self.embed(rows) + self.positions
        q, k, v = (y.unflatten(2, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, 2))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return self.head(x.mean(1))


MODULES: dict[str, type[nn.Module]] = {"cnn": Cnn, "lstm": Lstm, "attention": Attention}


def train(name: str, images: torch.Tensor, classes: torch.Tensor) -> nn.Module:
    """The network with weights from a fixed seed."""
    torch.manual_seed(0)
    net = MODULES[name]()
    fit(net, [images], classes, epochs=40, rate=5e-3)
    return net


def export(net: nn.Module, name: str, x: torch.Tensor, *, dynamo: bool) -> onnx.ModelProto:
    """By one exporter: TorchScript's at opset 17, dynamo at its default."""
    names: dict[str, Any] = {"input_names": [name], "output_names": ["logits"]}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        if not dynamo:
            buffer = io.BytesIO()
            axes = {name: {0: "N"}, "logits": {0: "N"}}
            torch.onnx.export(net, (x,), buffer, dynamo=False, opset_version=17, dynamic_axes=axes, **names)
            return onnx.load_from_string(buffer.getvalue())
        path = Path(folder) / "model.onnx"
        dims = ({0: torch.export.Dim("N")},)
        torch.onnx.export(
            net, (x,), str(path), dynamo=True, dynamic_shapes=dims, external_data=False, verbose=False, **names
        )
        return onnx.load(path)


def by_captum(net: nn.Module, name: str, x: Array) -> tuple[Array, dict[str, Array]]:
    """(logits, attributions) in float64."""
    module = copy.deepcopy(net).double()
    given = torch.from_numpy(x).double().requires_grad_()
    logits = module(given).detach()
    target = logits.argmax(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = captum.IntegratedGradients(module).attribute(
            given, target=target, n_steps=STEPS, method="gausslegendre"
        )
        slope = captum.Saliency(module).attribute(given, target=target, abs=False)
    found = {f"integrated_gradients.{name}": total, f"gradient.{name}": slope}
    return logits.numpy(), {k: v.detach().numpy() for k, v in found.items()}


def make(folder: Path, weights: Path) -> list[str]:
    """Train, export, write references, and save all weights to `weights` for the other frameworks; returns lines."""
    images, classes, train_rows, rows = digits()
    saved: Weights = {}
    said = []
    for name in NETWORKS:
        shaped = images[:, None] if name == "cnn" else images
        net = train(name, torch.from_numpy(shaped[train_rows]), torch.from_numpy(classes[train_rows]))
        held = np.setdiff1d(np.arange(len(images)), train_rows)
        right = accuracy(net, [torch.from_numpy(shaped[held])], torch.from_numpy(classes[held]))
        saved |= {f"{name}.{k}": v.numpy() for k, v in net.state_dict().items()}
        label = "image" if name == "cnn" else "rows"
        x = torch.from_numpy(shaped[rows])
        exports = {f"torch_{e}": export(net, label, x, dynamo=e == "dynamo") for e in ("dynamo", "torchscript")}
        logits, references = by_captum(net, label, shaped[rows])
        said += write(
            folder, name, "torch", exports, {label: shaped[rows]}, logits, references,
            ("torch", "captum", "onnxscript", "onnx", "onnxruntime", "numpy"), "captum, in float64",
        )  # fmt: skip
        said.append(f"{name}: {right:.1%} of held-out digits right")
    np.savez(weights, allow_pickle=False, **saved)
    return said
