"""A plain training loop, the same for every small sample, in a seeded order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional


def fit(
    net: nn.Module,
    inputs: Sequence[torch.Tensor],
    classes: torch.Tensor,
    *,
    epochs: int,
    rate: float,
    decay: float = 1e-2,
    batch: int = 64,
) -> None:
    """AdamW with a cosine schedule on the cross entropy; leaves `net` in inference mode."""
    order = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    net.train()
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(classes), generator=order), batch):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(*(x[rows] for x in inputs)), classes[rows])
            torch.autograd.backward(loss)
            optimizer.step()
        schedule.step()
    net.eval()


def accuracy(net: nn.Module, inputs: Sequence[torch.Tensor], classes: torch.Tensor) -> float:
    """Share of rows whose largest logit is the right class, rounded to four places."""
    with torch.no_grad():
        return round(float((net(*inputs).argmax(1) == classes).double().mean()), 4)
