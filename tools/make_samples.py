"""Remake `sample_models/` from Python packages alone: `python tools/make_samples.py [names] [--out DIR]`.

Models, the inputs to try them on and captum's attributions on the same weights. Needs PyTorch, captum and the packages
that each sample says when they are missing; nothing of onnx_ig. Seeds are fixed and all runs on one thread, so one
machine repeats itself; another processor may train slightly different weights, and makes references to match.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from samples.packages import SAMPLES, MissingPackages, require

MODULES = {"efficientnet_lite0": "efficientnet", "frameworks": "frameworks.make"}
ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Make the samples that were asked for; 0 when all were made, 1 when packages are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(SAMPLES)}; all by default")
    parser.add_argument("--out", type=Path, default=ROOT / "sample_models", help="default: sample_models/")
    parser.add_argument(
        "--downloads", type=Path, default=ROOT / "build" / "samples", help="where source archives of packages are kept"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(SAMPLES))
    if unknown:
        parser.error(f"no sample {', '.join(unknown)}; there are {', '.join(SAMPLES)}")
    for folder in (options.out, options.downloads):
        folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in options.names or SAMPLES:
        try:
            require(name)
            importlib.import_module("torch").set_num_threads(1)
            module = importlib.import_module(f"samples.{MODULES.get(name, name)}")
            print(module.make(options.out, options.downloads), flush=True)
        except MissingPackages as missing:
            print(missing, file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
