"""A perceptron of scikit-learn, exported by skl2onnx; scikit-learn has no gradients, so PyTorch's on its weights."""

from __future__ import annotations

from pathlib import Path

import captum.attr as captum
import numpy as np
import torch
from torch import nn

from .shared import STEPS, digits, write


def make(folder: Path) -> list[str]:
    """Train, export, and attribute the probabilities; returns lines."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.neural_network import MLPClassifier

    images, classes, train, rows = digits()
    pixels = images.reshape(len(images), 64)
    model = MLPClassifier((24,), activation="tanh", alpha=1e-2, max_iter=1000, random_state=0)
    model.fit(pixels[train], classes[train])
    held = np.setdiff1d(np.arange(len(images)), train)
    right = model.score(pixels[held], classes[held])
    proto = to_onnx(model, initial_types=[("pixels", FloatTensorType([None, 64]))], options={"zipmap": False})

    parts: list[nn.Module] = []
    for weight, bias in zip(model.coefs_, model.intercepts_, strict=True):
        linear = nn.Linear(*weight.shape, dtype=torch.float64)
        with torch.no_grad():  # the file holds float32
            linear.weight.copy_(torch.from_numpy(weight.T.astype(np.float32)))
            linear.bias.copy_(torch.from_numpy(bias.astype(np.float32)))
        parts += [linear, nn.Tanh()]
    module = nn.Sequential(*parts[:-1], nn.Softmax(1))
    x = torch.from_numpy(pixels[rows]).double().requires_grad_()
    output = module(x).detach()
    np.testing.assert_allclose(output.numpy(), model.predict_proba(pixels[rows]), atol=1e-5)
    target = output.argmax(1)
    total = captum.IntegratedGradients(module).attribute(x, target=target, n_steps=STEPS, method="gausslegendre")
    slope = captum.Saliency(module).attribute(x, target=target, abs=False)
    said = write(
        folder, "mlp", "sklearn", {"sklearn": proto}, {"pixels": pixels[rows]}, output.numpy(),
        {"integrated_gradients.pixels": total.detach().numpy(), "gradient.pixels": slope.detach().numpy()},
        ("scikit-learn", "skl2onnx", "torch", "captum", "onnx", "onnxruntime", "numpy"),
        "captum on the same weights, in float64, of the probabilities", "probabilities",
    )  # fmt: skip
    return [*said, f"mlp: {right:.1%} of held-out digits right"]
