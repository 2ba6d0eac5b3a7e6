"""A tabular network with two inputs on scikit-learn's breast cancer data: mean and worst value of ten measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from . import onnx_file, references
from .build import Sample, finish
from .train import accuracy, fit

NAME = "tumour"
GROUPS = ("mean", "worst")


class Network(nn.Module):
    """mean [N, 10], worst [N, 10] -> logits [N, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(10, 12)
        self.worst = nn.Linear(10, 12)
        self.hidden = nn.Linear(24, 12)
        self.head = nn.Linear(12, 2)
        self.tanh_mean, self.tanh_worst, self.softplus = nn.Tanh(), nn.Tanh(), nn.Softplus()

    def forward(self, mean: torch.Tensor, worst: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([self.tanh_mean(self.mean(mean)), self.tanh_worst(self.worst(worst))], 1)
        return self.head(self.softplus(self.hidden(joined)))


def make(folder: Path, downloads: Path) -> str:
    """Train, write the model, sample rows as .csv and .npz and the references; returns a line about them.

    The network takes standardised values, so that the zero baseline is the average patient; the sample rows are too.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer()
    names = [str(n) for n in data.feature_names]
    columns = {g: [i for i, n in enumerate(names) if n.startswith(f"{g} ")] for g in GROUPS}
    train, test = train_test_split(np.arange(len(data.target)), test_size=0.25, random_state=0, stratify=data.target)
    center, spread = data.data[train].mean(0), data.data[train].std(0)
    table = ((data.data - center) / spread).astype(np.float32)
    groups = {g: torch.from_numpy(table[:, c]) for g, c in columns.items()}
    classes = torch.from_numpy(data.target)

    torch.manual_seed(0)
    net = Network()
    fit(net, [x[train] for x in groups.values()], classes[train], epochs=60, rate=1e-2, decay=3e-1)
    right = accuracy(net, [x[test] for x in groups.values()], classes[test])

    # Two held-out patients of each class; four decimals, so that the text files carry the very values.
    rows = np.concatenate([test[data.target[test] == c][:2] for c in (0, 1)])
    inputs = {g: np.round(x[rows].numpy(), 4) for g, x in groups.items()}
    for group, values in inputs.items():
        np.savetxt(folder / f"tumour_{group}.csv", values[:1], fmt="%.4f", delimiter=",")
    np.savez(folder / "tumour.npz", allow_pickle=False, **inputs)
    files = {g: f"tumour_{g}.csv" for g in GROUPS}
    shipped = {g: np.loadtxt(folder / f, np.float32, delimiter=",", ndmin=2) for g, f in files.items()}

    example = {g: torch.from_numpy(v) for g, v in inputs.items()}
    sample = Sample(
        name=NAME,
        module=net,
        model=onnx_file.export(net, example, {g: {0: "N"} for g in GROUPS}),
        doc=(
            "Breast cancer diagnosis from cell nuclei, a sample and no medical device; standardised mean and worst "
            "values of ten measurements; trained on scikit-learn's copy of the UCI set (CC BY 4.0)."
        ),
        metadata={
            "labels": [str(n) for n in data.target_names],
            "features": {g: [names[i].removeprefix(f"{g} ") for i in c] for g, c in columns.items()},
        },
        inputs=inputs,
        baselines={g: np.zeros_like(v) for g, v in inputs.items()},
        methods=references.input_methods(deeplift=True, guided=False),
        shipped=[{"files": files}],
        shipped_inputs=shipped,
        facts={"test_accuracy": right},
    )
    return finish(sample, folder)
