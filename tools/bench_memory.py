"""Peak memory of an attribution beyond the loaded sessions, and whether it stays flat.

    python tools/bench_memory.py                        # ResNet-50, 16 images, 300 steps, 1 GB: the first 20 runs
    python tools/bench_memory.py --budget 200MB --runs 40
    python tools/bench_memory.py --captum               # one image, 50 steps in a PyTorch ResNet-50 by captum

The network is ResNet-50 with random weights, batch normalisation folded, 224 x 224: memory does not ask what it has learned.
The run is given up after `--runs` runs of the step model; by then memory has long stopped growing.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import time
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import onnx_ig
from onnx_ig.runtime.memory import Watch, meter

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


class Enough(Exception):
    """Raised by the progress report to end a run."""


def resnet50() -> onnx.ModelProto:
    """image [N, 3, 224, 224] -> logits [N, 1000]; torchvision's layout, strides in the 3x3 convolutions."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def conv(x: str, inputs: int, outputs: int, size: int, stride: int, relu: bool = True) -> str:
        name = f"conv{len(weights) // 2}"
        scale = np.sqrt(2.0 / (inputs * size * size))
        kernel = (rng.standard_normal((outputs, inputs, size, size)) * scale).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"{name}.w"))
        weights.append(numpy_helper.from_array((0.1 * rng.standard_normal(outputs)).astype(np.float32), f"{name}.b"))
        nodes.append(
            helper.make_node(
                "Conv", [x, f"{name}.w", f"{name}.b"], [name], name, strides=[stride] * 2, pads=[size // 2] * 4
            )
        )
        return activated(name) if relu else name

    def activated(x: str) -> str:
        nodes.append(helper.make_node("Relu", [x], [f"{x}.relu"]))
        return f"{x}.relu"

    x = conv("image", 3, 64, 7, 2)
    nodes.append(helper.make_node("MaxPool", [x], ["pool"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    x, width = "pool", 64
    for planes, blocks, stride in STAGES:
        for block in range(blocks):
            step = stride if block == 0 else 1
            inner = conv(conv(x, width, planes, 1, 1), planes, planes, 3, step)
            inner = conv(inner, planes, 4 * planes, 1, 1, relu=False)
            around = conv(x, width, 4 * planes, 1, step, relu=False) if block == 0 else x
            total = f"sum{len(nodes)}"
            nodes.append(helper.make_node("Add", [inner, around], [total]))
            x, width = activated(total), 4 * planes
    head = (rng.standard_normal((width, 1000)) / np.sqrt(width)).astype(np.float32)
    weights.append(numpy_helper.from_array(head, "head"))
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "head"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "resnet50",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 224, 224])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 1000])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def ours(arguments: argparse.Namespace) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.log_severity_level = 3
    options.enable_mem_pattern = False
    tool = onnx_ig.Explainer(resnet50(), session_options=options)
    images = np.random.default_rng(0).standard_normal((arguments.images, 3, 224, 224)).astype(np.float32)
    count = meter()
    if count is None:
        raise SystemExit("this system does not tell resident memory")
    plan = tool._models.plan(tool.batching, {"image": None}, {}, False)
    runner = tool._models.steps(plan)
    runs: list[int] = []
    peaks: list[int] = []
    _hand_back()
    before = count()

    def stop(done: int, total: int) -> None:
        runs.append(done - sum(runs))
        peaks.append(count() - before)
        if len(runs) >= arguments.runs:
            raise Enough

    begin = time.perf_counter()
    with Watch(count, before) as watch, suppress(Enough):
        tool.attribute(
            images,
            n_steps=arguments.steps,
            tolerance=arguments.tolerance,
            memory_budget=arguments.budget,
            progress=stop,
            target=0,
        )
    print(f"ResNet-50, {arguments.images} images, {arguments.steps} steps, memory_budget {arguments.budget}")
    print(f"loaded: {before / 1e6:.0f} MB resident; rows of the runs: {runs}")
    print(f"peak beyond that: {watch.grown / 1e6:.0f} MB; after each run: {[round(p / 1e6) for p in peaks]}")
    print(f"{runner.rows} gradients in {time.perf_counter() - begin:.0f} s; a row: {_known(runner)}")


def _hand_back() -> None:
    """Give the system what loading left behind, so that it does not hide what runs take."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _known(runner: Any) -> str:
    return ", ".join(f"{k.row_bytes / 1e6:.0f} MB" for k in runner.session.learned.values())


def torch_resnet50() -> Any:
    """The same network as a PyTorch module."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int, planes: int, stride: int):
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(width, planes, 1), nn.ReLU(), nn.Conv2d(planes, planes, 3, stride, 1), nn.ReLU(),
                nn.Conv2d(planes, 4 * planes, 1),
            )  # fmt: skip
            self.around = nn.Conv2d(width, 4 * planes, 1, stride) if stride > 1 or width < 4 * planes else nn.Identity()
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(self.inner(x) + self.around(x))

    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for planes, blocks, stride in STAGES:
        for block in range(blocks):
            layers.append(Block(width, planes, stride if block == 0 else 1))
            width = 4 * planes
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)).eval()


def captum(arguments: argparse.Namespace) -> None:
    import torch
    from captum.attr import IntegratedGradients

    torch.set_num_threads(arguments.threads)
    model = torch_resnet50()
    image = torch.randn(1, 3, 224, 224)
    count = meter()
    if count is None:
        raise SystemExit("this system does not tell resident memory")
    for size in (4, 8):
        _hand_back()
        before = count()
        with Watch(count, before) as watch:
            IntegratedGradients(model).attribute(image, target=0, n_steps=50, internal_batch_size=size)
        print(
            f"captum, one image, 50 steps, internal_batch_size {size}: peak {watch.grown / 1e6:.0f} MB beyond the model"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--budget", default="1GB")
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--captum", action="store_true", help="captum instead, which needs torch")
    given = parser.parse_args()
    captum(given) if given.captum else ours(given)


if __name__ == "__main__":
    main()
