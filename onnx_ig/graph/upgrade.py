"""Bringing old opsets up to the oldest that rules are written for."""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["OLDEST", "upgrade"]

OLDEST = 20


def upgrade(model: ir.Model) -> None:
    """Bring every graph and function of `model` to opset 20 at least, in place."""
