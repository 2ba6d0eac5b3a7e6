"""Graph networks of PyTorch by both exporters, the numbers of nodes and edges symbolic, against its autograd."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.frameworks.compare import Array, agree, alone, explained, integrated

alone("torch", "captum", "onnxscript")

import torch
from torch import nn

from tests.frameworks.torch import exporting, networks

pytestmark = pytest.mark.framework
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 4], [1, 0, 2, 1, 2, 3, 0]])


class Network(nn.Module):
    """atoms [V, 4], edges [2, E], bonds [E, 2] -> [1, 3]; messages are summed the way `total` says."""

    def __init__(self, total: str) -> None:
        super().__init__()
        self.total = total
        self.own, self.sent, self.kind = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(2, 8)
        self.cell, self.head = nn.GRUCell(8, 8), nn.Linear(8, 3)

    def forward(self, atoms: torch.Tensor, edges: torch.Tensor, bonds: torch.Tensor) -> torch.Tensor:
        source, goal = edges[0], edges[1]
        message = self.sent(atoms)[source] * torch.sigmoid(self.kind(bonds))
        state = self.own(atoms)
        if self.total == "index_add":
            heard = torch.zeros_like(state).index_add(0, goal, message)
        elif self.total == "scatter_add":
            heard = torch.zeros_like(state).scatter_add(0, goal[:, None].expand_as(message), message)
        else:
            heard = torch.zeros_like(state).index_put((goal,), message, accumulate=True)
        state = self.cell(heard, state)
        return self.head(torch.tanh(state).mean(0, keepdim=True))


# TorchScript's exporter loses all but one message to a node in index_add and index_put: its files compute something else.
FORMS = [("index_add", "dynamo"), ("index_put", "dynamo"), ("scatter_add", "dynamo"), ("scatter_add", "torchscript")]


@pytest.mark.parametrize(("total", "exporter"), FORMS)
def test_as_autograd(total: str, exporter: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        module = Network(total).eval()
        example = {"atoms": torch.randn(4, 4), "edges": EDGES[:, :5], "bonds": torch.randn(5, 2)}
        given = {"atoms": torch.randn(5, 4), "edges": EDGES, "bonds": torch.randn(7, 2)}
    axes = {"atoms": {0: "V"}, "edges": {1: "E"}, "bonds": {0: "E"}}
    model = exporting.export(networks.Case(module, example, axes), exporter)
    wide = Network(total).double()
    wide.load_state_dict(module.state_dict())

    def gradient(points: Sequence[Array]) -> list[Array]:
        atoms, bonds = (torch.tensor(p, requires_grad=True) for p in points)
        return [g.numpy() for g in torch.autograd.grad(wide(atoms, EDGES, bonds)[0, 2], (atoms, bonds))]

    points = {name: given[name].double().numpy() for name in ("atoms", "bonds")}
    expected = dict(zip(points, integrated(gradient, list(points.values())), strict=True))
    agree(explained(model, {name: x.numpy() for name, x in given.items()}, [(0, 2)]), expected)
