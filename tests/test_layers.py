"""A room imports only rooms above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "onnx_ig"
FIRST = {"arguments", "arrays", "errors", "quadrature", "refinement", "manifest"}
ROOMS: dict[str, set[str]] = {  # room -> rooms that it may import, beside itself
    "errors": set(),
    "arguments": {"errors"},
    "arrays": {"errors"},
    "quadrature": FIRST,
    "refinement": FIRST,
    "manifest": FIRST,
    "runtime": FIRST,
    "plot": FIRST | {"runtime"},
    "graph": {"arguments", "errors"},
    "rules": {"arguments", "errors", "graph"},
    "reverse": {"errors", "graph", "rules"},
    "twin": {"graph"},
    "paths": {"errors", "graph"},
    "methods": FIRST,
    "rewriter": FIRST | {"graph", "rules", "reverse", "twin", "paths", "methods"},
    "gradients": {"errors", "graph", "rules", "reverse", "twin"},
    "graphsurgeon": {"errors", "gradients"},
    "explain": FIRST | {"runtime", "graph", "rules", "reverse", "twin", "paths", "methods", "rewriter", "gradients"},
}
OUTER = {"cli", "__main__", "__init__"}
FILES = sorted(p for p in PACKAGE.rglob("*.py") if "__pycache__" not in p.parts)


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Rooms of onnx_ig that a file imports, inside functions and for types too; but for the types of `plot`'s results."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module] if node.module != "onnx_ig" else [f"onnx_ig.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        yield from (n.split(".")[1] for n in names if n.startswith("onnx_ig."))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    here = room(path)
    if here in OUTER:
        return
    allowed = ROOMS[here] | {here}
    if path.relative_to(PACKAGE).as_posix() == "runtime/result.py":
        allowed = allowed | {"plot"}  # `Attribution.plot` draws itself, where the extra is installed
    assert set(imported(path)) <= allowed


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_can_be_held_in_the_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 420
