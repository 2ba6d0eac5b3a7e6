"""What attributions cost, as ratios measured in one run: gradient steps in forwards, and against captum where it is installed.

    python tools/bench.py                 # with PyTorch, captum and the packages of tools/make_samples.py: both columns
    python tools/bench.py --steps 50 --threads 1 --report FILE

For every sample model: the time of one forward of ONNX Runtime, of one gradient step (forward and input gradient in one
graph, same batch) and of integrated gradients with `--steps` steps a sample, and the ratio of each to its forward. Medians
of repeated runs in processor time; the machine and the versions are told with them.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

import onnx_ig

SAMPLES = Path(__file__).parents[1] / "sample_models"
ROWS = {"efficientnet_lite0": 8, "digits": 64, "sentiment": 32, "tumour": 256}


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """Median processor time of `run` after one warm-up: on one thread without spinning, wall time on an idle machine."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def options(threads: int) -> ort.SessionOptions:
    found = ort.SessionOptions()
    found.intra_op_num_threads = threads
    found.add_session_config_entry("session.intra_op.allow_spinning", "0")
    found.log_severity_level = 3
    return found


def feeds(name: str, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    if name == "efficientnet_lite0":
        return {"image": rng.standard_normal((rows, 3, 224, 224)).astype(np.float32)}
    if name == "digits":
        return {"image": rng.random((rows, 1, 8, 8)).astype(np.float32)}
    if name == "sentiment":
        return {"ids": rng.integers(2, 4000, (rows, 24))}
    return {n: rng.standard_normal((rows, 10)).astype(np.float32) for n in ("mean", "worst")}


def measure(name: str, steps: int, threads: int, repeats: int) -> dict[str, Any]:
    model = onnx.load(SAMPLES / f"{name}.onnx")
    given = feeds(name, ROWS[name])
    forward = ort.InferenceSession(model.SerializeToString(), options(threads))
    augmented = ort.InferenceSession(onnx_ig.add_gradients(model).SerializeToString(), options(threads))
    y = forward.run(None, given)[0]
    cotangent = np.zeros_like(y)
    cotangent[np.arange(len(y)), y.argmax(1)] = 1
    wanted = [o.name for o in augmented.get_outputs() if o.name.startswith("grad_")]
    plain = seconds(lambda: forward.run(None, given), repeats)
    gradient = seconds(lambda: augmented.run(wanted, {**given, "grad_logits": cotangent}), repeats)
    explainer = onnx_ig.Explainer(model, providers=["CPUExecutionProvider"], session_options=options(threads))
    one = {k: v[:1] for k, v in given.items()}
    integrated = seconds(lambda: explainer.attribute(one, n_steps=steps), max(1, repeats // 3))
    rows = int(np.gcd(steps, 8) if name == "efficientnet_lite0" else steps)
    chunk = {k: np.repeat(v[:1], rows, axis=0) for k, v in given.items()}
    chunked = seconds(lambda: forward.run(None, chunk), repeats) * steps / rows
    return {
        "model": name, "rows": ROWS[name], "forward_ms": round(1e3 * plain, 3), "gradient_ratio": round(gradient / plain, 2),
        "ig_steps": steps, "ig_ms": round(1e3 * integrated, 1), "ig_ratio": round(integrated / chunked, 2),
    }  # fmt: skip


def captum(name: str, steps: int, threads: int, repeats: int) -> dict[str, Any] | None:
    """captum's integrated gradients of one sample on the same network in PyTorch; None where it is not installed."""
    try:
        import torch
        from captum.attr import IntegratedGradients
    except ImportError:
        return None
    net = network(name)
    if net is None:
        return None
    torch.set_num_threads(threads)
    x = tuple(torch.from_numpy(v[:1]) for v in feeds(name, 1).values())
    target = int(net(*x).argmax())

    def run() -> None:
        IntegratedGradients(net).attribute(x, target=target, n_steps=steps, internal_batch_size=8)

    with torch.no_grad():
        plain = seconds(lambda: net(*(v.repeat(8, *(1,) * (v.dim() - 1)) for v in x)), repeats) * steps / 8
    took = seconds(run, max(1, repeats // 3))
    return {"captum_ig_ms": round(1e3 * took, 1), "captum_ig_ratio": round(took / plain, 2), "torch": torch.__version__}


def network(name: str) -> Any:
    """The sample's network in PyTorch, weights untrained (time does not depend on them); None for those not compared."""
    if name == "efficientnet_lite0":
        from efficientnet_lite_pytorch import EfficientNet
        from samples.efficientnet import Classifier

        return Classifier(EfficientNet.from_name("efficientnet-lite0").eval()).eval()
    if name == "digits":
        from samples.digits import folded
        from samples.digits import network as digits

        return folded(digits()).eval()
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(ROWS), help="sample models; default: all")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--report", type=Path, help="also write the results to this file, as JSON")
    arguments = parser.parse_args()
    results = []
    for name in arguments.names:
        row = measure(name, arguments.steps, arguments.threads, arguments.repeats)
        row.update(captum(name, arguments.steps, arguments.threads, arguments.repeats) or {})
        results.append(row)
        print(json.dumps(row), flush=True)
    about = {
        "onnx_ig": onnx_ig.__version__, "onnxruntime": ort.__version__, "machine": platform.processor() or platform.machine(),
        "threads": arguments.threads, "results": results,
    }  # fmt: skip
    if arguments.report:
        arguments.report.write_text(json.dumps(about, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
