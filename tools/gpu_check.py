"""One command on a machine with CUDA: are attributions right there, where do nodes run, and what do they cost?

    pip install ".[gpu]" && python tools/gpu_check.py [--report FILE]

For every sample model: gradients on CUDA against the CPU in float32 and, for models without token inputs, float16; the
nodes that each execution provider got; a gradient step's cost in forwards. With PyTorch installed (a CUDA build), the
same for a small residual network against autograd on the same GPU. Exit status 0 where everything agrees.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

import onnx_ig

SAMPLES = sorted((Path(__file__).parents[1] / "sample_models").glob("*.onnx"))
CUDA = ["CUDAExecutionProvider", "CPUExecutionProvider"]
CPU = ["CPUExecutionProvider"]


def session(model: onnx.ModelProto, providers: list[str]) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if hasattr(ort, "__version__") and providers == CUDA:
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return ort.InferenceSession(model.SerializeToString(), options, providers=providers)


def placement(found: ort.InferenceSession) -> dict[str, int]:
    """{provider: nodes that it got}; empty where this ONNX Runtime cannot tell."""
    if not hasattr(found, "get_provider_graph_assignment_info"):
        return {}
    counts: Counter[str] = Counter()
    for part in found.get_provider_graph_assignment_info():
        counts[part.ep_name] += len(part.get_nodes())
    return dict(counts)


def feeds(found: ort.InferenceSession, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    result = {}
    for i in found.get_inputs():
        shape = [d if isinstance(d, int) else rows if k == 0 else 16 for k, d in enumerate(i.shape)]
        if "int64" in i.type:
            result[i.name] = rng.integers(1, 50, shape)
        else:
            result[i.name] = rng.standard_normal(shape).astype(np.float16 if "float16" in i.type else np.float32)
    return result


def half(path: Path) -> onnx.ModelProto:
    """The model with every float32 as float16."""
    model = ir.load(path)
    for graph in model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None and value.dtype == ir.DataType.FLOAT:
                value.const_value = ir.tensor(value.const_value.numpy().astype(np.float16), name=value.name)
                value.dtype = ir.DataType.FLOAT16
        for value in (*graph.inputs, *graph.outputs, *(v for n in graph for v in n.outputs)):
            if value.dtype == ir.DataType.FLOAT:
                value.dtype = ir.DataType.FLOAT16
        for node in graph:
            if node.op_type == "Cast" and node.attributes["to"].as_int() == ir.DataType.FLOAT:
                node.attributes["to"] = ir.AttrInt64("to", ir.DataType.FLOAT16)
    return ir.to_proto(model)


def seconds(run: Callable[[], Any], repeats: int = 20) -> float:
    for _ in range(3):
        run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def compare(name: str, model: onnx.ModelProto, limit: float, rows: int) -> dict[str, Any]:
    """The gradient model on both providers, and its cost in forwards on CUDA."""
    augmented = onnx_ig.add_gradients(model, runtime="cuda")
    there, here, forward = session(augmented, CUDA), session(augmented, CPU), session(model, CUDA)
    given = feeds(forward, rows)
    y = forward.run(None, given)[0]
    cotangent = np.zeros_like(y)
    cotangent.reshape(len(y), -1)[np.arange(len(y)), y.reshape(len(y), -1).argmax(1)] = 1
    seed = next(i.name for i in there.get_inputs() if i.name not in given)
    wanted = [o.name for o in there.get_outputs() if o.name.startswith("grad_")]
    on_cuda, on_cpu = (s.run(wanted, {**given, seed: cotangent}) for s in (there, here))
    error = max(
        float(
            np.linalg.norm(a.astype(np.float64) - b.astype(np.float64))
            / max(np.linalg.norm(b.astype(np.float64)), 1e-12)
        )
        for a, b in zip(on_cuda, on_cpu, strict=True)
    )
    step = seconds(lambda: there.run(wanted, {**given, seed: cotangent}))
    ratio = step / seconds(lambda: forward.run(None, given))
    return {
        "model": name, "rows": rows, "relative_l2": error, "ok": bool(error <= limit and np.isfinite(error)),
        "ratio_to_forward": round(ratio, 2), "nodes": placement(there),
    }  # fmt: skip


def against_torch() -> dict[str, Any] | None:
    """A small residual network: our gradient on CUDA against autograd on the same GPU; None without a CUDA PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None

    class Block(torch.nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.a, self.b = (torch.nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.b(torch.relu(self.a(x))))

    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 7, 2, 3), *(Block(64) for _ in range(4)), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    ).eval()  # fmt: skip
    path = Path("gpu_check_net.onnx")
    x = torch.randn(16, 3, 128, 128)
    try:
        torch.onnx.export(
            net, (x,), path, dynamo=False, input_names=["x"], output_names=["y"], dynamic_axes={"x": [0], "y": [0]}
        )
        model = onnx.load(path)
    finally:
        path.unlink(missing_ok=True)
    net, x = net.cuda(), x.cuda().requires_grad_()

    def step() -> Any:
        (gradient,) = torch.autograd.grad(net(x)[:, 0].sum(), x)
        torch.cuda.synchronize()
        return gradient

    def plain() -> None:
        with torch.no_grad():
            net(x)
        torch.cuda.synchronize()

    ours = session(onnx_ig.add_gradients(model, runtime="cuda"), CUDA)
    seed = np.zeros((16, 10), np.float32)
    seed[:, 0] = 1
    fed = {"x": x.detach().cpu().numpy(), "grad_y": seed}
    error = float(np.abs(ours.run(["grad_x"], fed)[0] - step().cpu().numpy()).max() / step().abs().max().item())
    return {
        "model": "residual network against PyTorch", "relative_max": error, "ok": error < 1e-2,
        "ours_ms": round(1e3 * seconds(lambda: ours.run(["grad_x"], fed)), 2), "torch_ms": round(1e3 * seconds(step), 2),
        "torch_forward_ms": round(1e3 * seconds(plain), 2),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--report", type=Path, help="also write the results to this file, as JSON")
    arguments = parser.parse_args()
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        print("this ONNX Runtime has no CUDA provider: pip install onnxruntime-gpu", file=sys.stderr)
        return 1
    results: list[dict[str, Any]] = []
    for path in SAMPLES:
        results.append(compare(path.stem, onnx.load(path), 1e-3, 16))
        print(json.dumps(results[-1]), flush=True)
        if not any("int64" in i.type for i in session(onnx.load(path), CPU).get_inputs()):
            results.append(compare(f"{path.stem} float16", half(path), 5e-2, 16))
            print(json.dumps(results[-1]), flush=True)
    torch_result = against_torch()
    if torch_result:
        results.append(torch_result)
        print(json.dumps(torch_result), flush=True)
    about = {
        "onnxruntime": ort.__version__,
        "onnx": onnx.__version__,
        "machine": platform.platform(),
        "results": results,
    }
    if arguments.report:
        arguments.report.write_text(json.dumps(about, indent=2))
    return 0 if all(r["ok"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
