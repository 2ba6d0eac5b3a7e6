"""What a model file says about itself: JSON under `onnx_ig.*` in the model's metadata.

| key | content |
|---|---|
| `onnx_ig.manifest` | `Manifest`: what an augmented model computes, and under which names |
| `onnx_ig.preprocessing` | {input: `Preprocessing`}: from the pixels of a picture to the tensor |
| `onnx_ig.labels` | [class name, ...] in the order of the output's classes |
| `onnx_ig.vocabulary` | `Vocabulary`: from text to token ids |
| `onnx_ig.features` | {input: [column name, ...]} of tabular inputs |

`read` takes the metadata as onnx and ONNX Runtime give it, a mapping of strings; `Metadata.write` gives it back.
Keys without the prefix belong to other tools and are not looked at.
"""

from __future__ import annotations

from onnx_ig.manifest.metadata import KEYS, Metadata, read
from onnx_ig.manifest.preparation import Preprocessing, Vocabulary
from onnx_ig.manifest.record import FORMAT, AttributedInput, Manifest

__all__ = ["FORMAT", "KEYS", "AttributedInput", "Manifest", "Metadata", "Preprocessing", "Vocabulary", "read"]
