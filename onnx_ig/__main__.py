"""`python -m onnx_ig`."""

from __future__ import annotations

from onnx_ig.cli import main

main(prog_name="onnx-ig")
