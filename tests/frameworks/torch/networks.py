"""Small networks in PyTorch, one a kind of model, with seeded weights and rows to explain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

Axes = dict[int, str]


@dataclass(frozen=True)
class Case:
    """A module, the inputs by name and the symbolic axes of each; `smooth`: no ReLU and no maximum inside.

    `tokens` names the embedding that the integer input goes through; id 0 has the zero embedding.
    """

    module: nn.Module
    inputs: dict[str, torch.Tensor]
    axes: dict[str, Axes]
    smooth: bool = True
    tokens: str = ""

    @property
    def feeds(self) -> dict[str, NDArray[np.float32]]:
        return {name: x.numpy() for name, x in self.inputs.items()}


class Residual(nn.Module):
    """A residual block; the shortcut is projected where the shape changes."""

    def __init__(self, width: int, out: int, stride: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out),
            activation(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        same = stride == 1 and width == out
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(width, out, 1, stride), nn.BatchNorm2d(out))
        self.activation = activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.body(x) + self.shortcut(x))


class Squeeze(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = functional.silu(self.down(functional.adaptive_avg_pool2d(x, 1)))
        return x * torch.sigmoid(self.up(weight))


class Encoder(nn.Module):
    """ids [N, T] -> logits [N, 3]: embedding, positions, one encoder layer of PyTorch's, the mean over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(1, 12, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        return self.head(self.layers(x + self.positions[:, : x.shape[1]]).mean(1))


class Attention(nn.Module):
    """x [N, T, 6], mask [N, T] -> logits [N, 3]: attention written out, padding masked, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm, self.head = nn.Linear(6, 24), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        y = self.norm(self.out(y.transpose(1, 2).reshape(n, t, 8)))
        weight = mask.to(y.dtype).unsqueeze(2)
        return self.head((torch.tanh(y) * weight).sum(1) / weight.sum(1))


class Recurrent(nn.Module):
    """x [N, T, 5] -> logits [N, 3] by the last step of a two-layer bidirectional network."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cells = kind(5, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0][:, -1])


class TextCnn(nn.Module):
    """ids [N, T] -> logits [N, 2]: embedding, convolutions over 2 and 3 tokens, the maximum over time."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.convolutions = nn.ModuleList([nn.Conv1d(8, 6, width) for width in (2, 3)])
        self.head = nn.Linear(12, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids).transpose(1, 2)
        return self.head(torch.cat([functional.relu(c(x)).amax(2) for c in self.convolutions], 1))


class Tabular(nn.Module):
    """dense [N, 6], sparse [N, 4] -> logits [N, 2]: two towers, a product between them, layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.sparse, self.norm = nn.Linear(6, 8), nn.Linear(4, 8), nn.LayerNorm(16)
        self.head = nn.Linear(16, 2)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        a, b = torch.tanh(self.dense(dense)), functional.softplus(self.sparse(sparse))
        return self.head(self.norm(torch.cat([a * b, functional.elu(a - b)], 1)))


class UNet(nn.Module):
    """image [N, 1, H, W] -> [N, 2, H, W]: two levels down and up, by ConvTranspose and by bilinear Resize."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.third, self.up = nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ConvTranspose2d(8, 8, 2, 2)
        self.middle, self.last = nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(8, 2, 1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        a = functional.silu(self.first(image))
        b = functional.silu(self.norm(self.second(a)))
        c = functional.gelu(self.up(torch.tanh(self.third(b))))
        d = functional.silu(self.middle(torch.cat([b, c], 1)))
        d = functional.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([a, d], 1))


def settled(module: nn.Module) -> nn.Module:
    """The module in inference mode, its running statistics away from 0 and 1."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            for tensor, low, high in (
                (part.running_mean, -0.3, 0.3),
                (part.running_var, 0.5, 2),
                (part.weight, 0.5, 2),
            ):
                assert tensor is not None
                nn.init.uniform_(tensor, low, high)
    return module.eval()


def _image(module: nn.Module, *shape: int, smooth: bool = True, sizes: bool = False) -> Case:
    axes = {0: "N", 2: "H", 3: "W"} if sizes else {0: "N"}
    return Case(settled(module), {"image": torch.randn(3, *shape)}, {"image": axes}, smooth)


def cnn(activation: type[nn.Module], pool: nn.Module, smooth: bool) -> Case:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), activation(), pool,
        nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), activation(), nn.AvgPool2d(3, 2, 1),
        nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip
    return _image(module, 3, 16, 16, smooth=smooth)


def resnet(activation: type[nn.Module], smooth: bool) -> Case:
    module = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), Residual(6, 6, 1, activation), Residual(6, 8, 2, activation),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    return _image(module, 3, 12, 12, smooth=smooth, sizes=True)


def mobilenet() -> Case:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish(),
        nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.SiLU(),
        nn.Conv2d(16, 16, 3, 2, 1, groups=16), nn.BatchNorm2d(16), Squeeze(16), nn.Hardswish(),
        nn.Conv2d(16, 8, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    return _image(module, 3, 16, 16, smooth=False)


def mlp() -> Case:
    module = nn.Sequential(
        nn.Linear(10, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 16), nn.Mish(), nn.Linear(16, 4)
    )
    return Case(module.eval(), {"x": torch.randn(3, 10)}, {"x": {0: "N"}})


def transformer() -> Case:
    return Case(Encoder().eval(), {"ids": torch.randint(1, 20, (3, 7))}, {"ids": {0: "N", 1: "T"}}, tokens="embedding")


def attention() -> Case:
    mask = torch.arange(7) < torch.tensor([[7], [5], [2]])
    inputs = {"x": torch.randn(3, 7, 6), "mask": mask}
    return Case(Attention().eval(), inputs, {name: {0: "N", 1: "T"} for name in inputs})


def recurrent(kind: type[nn.RNNBase]) -> Case:
    return Case(Recurrent(kind).eval(), {"x": torch.randn(3, 6, 5)}, {"x": {0: "N"}})


def text_cnn() -> Case:
    ids = torch.randint(1, 20, (3, 9))
    return Case(TextCnn().eval(), {"ids": ids}, {"ids": {0: "N"}}, smooth=False, tokens="embedding")


def tabular() -> Case:
    inputs = {"dense": torch.randn(3, 6), "sparse": torch.randn(3, 4)}
    return Case(Tabular().eval(), inputs, {name: {0: "N"} for name in inputs})


def signal() -> Case:
    module = nn.Sequential(
        nn.ConstantPad1d((4, 0), 0.0), nn.Conv1d(2, 6, 3, dilation=2), nn.BatchNorm1d(6), nn.Softsign(),
        nn.ReflectionPad1d(2), nn.Conv1d(6, 6, 5, stride=2, groups=3), nn.InstanceNorm1d(6, affine=True), nn.CELU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 3), nn.LogSoftmax(1),
    )  # fmt: skip
    return Case(settled(module), {"x": torch.randn(3, 2, 20)}, {"x": {0: "N", 2: "L"}})


def unet() -> Case:
    return _image(UNet(), 1, 8, 12)


CASES: dict[str, Callable[[], Case]] = {
    "cnn": lambda: cnn(nn.SiLU, nn.AvgPool2d(2), True),
    "cnn_relu": lambda: cnn(nn.ReLU, nn.MaxPool2d(3, 2, 1), False),
    "resnet": lambda: resnet(nn.Softplus, True),
    "resnet_relu": lambda: resnet(nn.ReLU, False),
    "mobilenet": mobilenet,
    "mlp": mlp,
    "transformer": transformer,
    "attention": attention,
    "lstm": lambda: recurrent(nn.LSTM),
    "gru": lambda: recurrent(nn.GRU),
    "text_cnn": text_cnn,
    "tabular": tabular,
    "signal": signal,
    "unet": unet,
}


def case(name: str) -> Case:
    """One of `CASES`, its weights and rows from a fixed seed."""
    with torch.random.fork_rng():
        torch.manual_seed(sum(map(ord, name)))
        return CASES[name]()
