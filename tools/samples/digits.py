"""A small convolutional network on the 8x8 digits that scikit-learn ships."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from . import onnx_file, photo, references
from .build import Sample, finish
from .train import accuracy, fit

NAME = "digits"
PREPROCESSING = {
    "layout": "NCHW",
    "size": [8, 8],
    "resize": 8,
    "crop": "center",
    "scale": 1 / 255,
    "mean": [0.0],
    "std": [1.0],
}


def network() -> nn.Sequential:
    """[N, 1, 8, 8] -> [N, 10]. Each activation is a module of its own, as captum's DeepLIFT needs.

    The pooling is an average, since captum 0.9's DeepLIFT is not complete through MaxPool2d (10 % off on this network).
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 48),
        nn.ReLU(),
        nn.Linear(48, 10),
    )


def folded(net: nn.Sequential) -> nn.Sequential:
    """The trained network without BatchNorm."""
    layers = list(net)
    return nn.Sequential(
        onnx_file.fold_batch_norm(layers[0], layers[1]),
        layers[2],
        onnx_file.fold_batch_norm(layers[3], layers[4]),
        *layers[5:],
    ).eval()


def make(folder: Path, downloads: Path) -> str:
    """Train, write the model, two digits as .png and the references; returns a line about them."""
    from PIL import Image
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    pixels = np.rint(data.images * (255 / 16)).astype(np.uint8)
    images = (pixels[:, None].astype(np.float64) / 255).astype(np.float32)
    train, test = train_test_split(np.arange(len(images)), test_size=0.25, random_state=0, stratify=data.target)
    torch.manual_seed(0)
    net = network()
    fit(net, [torch.from_numpy(images[train])], torch.from_numpy(data.target[train]), epochs=30, rate=2e-3)
    module = folded(net)
    right = accuracy(module, [torch.from_numpy(images[test])], torch.from_numpy(data.target[test]))

    # Held-out digits, one of each class; 3 and 8 are the ones that look most alike.
    rows = [int(test[data.target[test] == digit][0]) for digit in range(10)]
    paths = [folder / f"digit_{digit}.png" for digit in (3, 8)]
    for path, digit in zip(paths, (3, 8), strict=True):
        Image.fromarray(pixels[rows[digit]]).save(path, optimize=True)
    shipped = np.concatenate([photo.prepare(p, PREPROCESSING) for p in paths])
    inputs = images[rows]
    sample = Sample(
        name=NAME,
        module=module,
        model=onnx_file.export(module, {"image": torch.from_numpy(inputs)}, {"image": {0: "N"}}),
        doc="Handwritten digits, 8x8, white on black; trained on scikit-learn's copy of the UCI set (CC BY 4.0).",
        metadata={"preprocessing": {"image": PREPROCESSING}, "labels": [str(d) for d in range(10)]},
        inputs={"image": inputs},
        baselines={"image": np.zeros_like(inputs)},
        methods=references.input_methods(deeplift=True, guided=True),
        shipped=[{"files": {"image": p.name}} for p in paths],
        shipped_inputs={"image": shipped},
        facts={"test_accuracy": right},
    )
    return finish(sample, folder)
