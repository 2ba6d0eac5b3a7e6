"""Reference attributions by captum, on the module that the .onnx was exported from, saved as one .npz a model.

Arrays of `references/<model>.npz`, rows = samples N:

- `info`: a JSON string: file, its sha256, versions, captum class and settings per method with the distance of float32
  from float64 and, for complete methods, the largest relative delta; predictions of the shipped inputs.
- `input.<name>`; `target` int64 [N]; `logits` and `baseline_logits`: float32 by ONNX Runtime.
- `<method>.<input>`: computed in float32; `<method>.<input>.float64`: the same weights and inputs in float64 (small
  models only).
- Token inputs: `<method>.<input>` is [N, T, E], of the embedded tokens; `baseline_unk.<input>` are ids.
"""

from __future__ import annotations

import copy
import hashlib
import json
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import captum.attr as captum
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Arrays = dict[str, NDArray[Any]]
Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Method:
    """How to call captum, as `attribute(module, inputs, target, **settings)`, and what `info` says about it."""

    attribute: Callable[..., Tensors]
    captum: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False
    baseline: str = "zero"

    def described(self) -> dict[str, Any]:
        """The entry of `info`."""
        said = {"captum": self.captum, **self.settings, "complete": self.complete}
        return {**said, "baseline": self.baseline} if self.complete else said


Methods = dict[str, Method]

INTEGRATED: Mapping[str, dict[str, Any]] = {
    "integrated_gradients_gausslegendre": {"n_steps": 50, "method": "gausslegendre"},
    "integrated_gradients_riemann_middle": {"n_steps": 50, "method": "riemann_middle"},
}


def input_methods(*, deeplift: bool, guided: bool, batch: int | None = None) -> Methods:
    """Methods on float inputs with a zero baseline.

    captum's DeepLIFT needs each activation to be a module of its own, its guided backpropagation sees only
    `nn.ReLU`: leave them out for other networks. `batch` bounds the rows that run at once.
    """

    def integrated(m: nn.Module, x: Tensors, t: torch.Tensor, **settings: Any) -> Tensors:
        return captum.IntegratedGradients(m).attribute(x, target=t, internal_batch_size=batch, **settings)

    def gradient(m: nn.Module, x: Tensors, t: torch.Tensor, **settings: Any) -> Tensors:
        return captum.Saliency(m).attribute(x, target=t, **settings)

    def product(m: nn.Module, x: Tensors, t: torch.Tensor) -> Tensors:
        return captum.InputXGradient(m).attribute(x, target=t)

    def rescale(m: nn.Module, x: Tensors, t: torch.Tensor) -> Tensors:
        return captum.DeepLift(m).attribute(x, target=t)

    def guide(m: nn.Module, x: Tensors, t: torch.Tensor) -> Tensors:
        return captum.GuidedBackprop(m).attribute(x, target=t)

    methods = {n: Method(integrated, "IntegratedGradients", s, complete=True) for n, s in INTEGRATED.items()}
    methods["gradient"] = Method(gradient, "Saliency", {"abs": False})
    methods["gradient_x_input"] = Method(product, "InputXGradient")
    if deeplift:
        methods["deeplift"] = Method(rescale, "DeepLift", complete=True)
    if guided:
        methods["guided_backprop"] = Method(guide, "GuidedBackprop")
    return methods


def token_methods(embedding: str, unk: int, pad: int) -> Methods:
    """Methods on the output of the embedding of one integer input [N, T].

    The embedding of `pad` is zero, so captum's baseline of `pad` ids is the zero embedding; the mask inside the network
    keeps following the ids of the sample. `..._unk` starts from the embedding of `unk`, with padding left as it is.
    """

    def from_zero(m: nn.Module, x: Tensors, t: torch.Tensor, **settings: Any) -> Tensors:
        method = captum.LayerIntegratedGradients(m, m.get_submodule(embedding))
        return (method.attribute(x[0], torch.full_like(x[0], pad), target=t, **settings),)

    def from_unk(m: nn.Module, x: Tensors, t: torch.Tensor, **settings: Any) -> Tensors:
        method = captum.LayerIntegratedGradients(m, m.get_submodule(embedding))
        return (method.attribute(x[0], torch.where(x[0] == pad, pad, unk), target=t, **settings),)

    def gradient(m: nn.Module, x: Tensors, t: torch.Tensor, **settings: Any) -> Tensors:
        method = captum.LayerGradientXActivation(m, m.get_submodule(embedding), **settings)
        return (method.attribute(x[0], target=t),)

    name = "LayerIntegratedGradients"
    methods = {n: Method(from_zero, name, s, complete=True) for n, s in INTEGRATED.items()}
    gauss = INTEGRATED["integrated_gradients_gausslegendre"]
    methods["integrated_gradients_unk"] = Method(from_unk, name, gauss, complete=True, baseline="baseline_unk")
    methods["gradient"] = Method(gradient, "LayerGradientXActivation", {"multiply_by_inputs": False})
    methods["gradient_x_input"] = Method(gradient, "LayerGradientXActivation", {"multiply_by_inputs": True})
    return methods


def compute(
    module: nn.Module,
    inputs: Mapping[str, NDArray[Any]],
    target: NDArray[np.int64],
    methods: Mapping[str, Method],
) -> Arrays:
    """Every method in float32 and in float64, under the names of this module's docstring."""
    arrays: Arrays = {}
    for precision in (torch.float32, torch.float64):
        # captum leaves hooks behind when a method fails; a copy keeps the caller's module as exported.
        m = copy.deepcopy(module).to(precision).eval()
        suffix = ".float64" if precision == torch.float64 else ""
        for name, method in methods.items():
            x = tuple(torch.from_numpy(v) for v in inputs.values())
            x = tuple(v.to(precision).requires_grad_() if v.is_floating_point() else v for v in x)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Setting (forward, backward|backward) hooks")
                warnings.filterwarnings("ignore", message="Input Tensor .* required gradients|.*required_grads")
                signal = method.attribute(m, x, torch.from_numpy(target), **method.settings)
            for key, value in zip(inputs, signal, strict=True):
                arrays[f"{name}.{key}{suffix}"] = value.detach().numpy()
    return arrays


def noise(arrays: Arrays, method: str, inputs: Sequence[str]) -> float:
    """How far float32 is from float64 over all inputs of a method, relative, by L2: no comparison can ask for less."""
    single = np.concatenate([arrays[f"{method}.{k}"].ravel() for k in inputs])
    double = np.concatenate([arrays[f"{method}.{k}.float64"].ravel() for k in inputs])
    return float(np.linalg.norm(single - double) / np.linalg.norm(double))


def relative_delta(attributions: Sequence[NDArray[Any]], score: NDArray[Any], base: NDArray[Any]) -> float:
    """Largest |sum of attributions - (score - base)| / |score - base| over the samples [N]."""
    total = np.zeros(len(score), np.float64)
    for a in attributions:
        total += a.reshape(len(score), -1).astype(np.float64).sum(1)
    change = score.astype(np.float64) - base
    return float(np.abs((total - change) / change).max())


def shorten(value: NDArray[np.float32], bits: int = 12) -> NDArray[np.float32]:
    """Round float32 to `bits` stored mantissa bits: zeros compress, and 2^-13 is below the noise of a deep network."""
    drop = 23 - bits
    raw = value.view(np.uint32).astype(np.uint64) + (1 << (drop - 1))
    return (raw >> drop << drop).astype(np.uint32).view(np.float32)


def write(path: Path, model: Path, arrays: Arrays, info: Mapping[str, object]) -> None:
    """Save the arrays with `info` and the sha256 of the model that they belong to."""
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    text = {"file": model.name, "sha256": digest, "python": platform.python_version(), **info}
    path.parent.mkdir(parents=True, exist_ok=True)
    contents: Arrays = {"info": np.array(json.dumps(text, indent=1, ensure_ascii=False)), **arrays}
    np.savez_compressed(path, allow_pickle=False, **contents)
