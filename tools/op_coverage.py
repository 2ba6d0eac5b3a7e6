"""Which operators have a derivative here: `python tools/op_coverage.py [--write | PATH]`.

Read from the rule registry, the table of fused nodes and the schemas of the installed onnx. `--write` renews
`tools/op_coverage.md`, which a test holds to the code.

| status | meaning |
|---|---|
| rule | a vector-Jacobian product of its own |
| estimate | a rule that stands for a derivative that is zero by mathematics: straight through a quantiser |
| zero | the derivative is zero by mathematics, and declared so |
| body | no rule: its function body in the standard is expanded, and the parts have rules |
| written out | brought to other operators before rules see it |
| no floats | reads or gives no floating-point tensor, so that no derivative passes |
| refused | a float path through it is refused by name |
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx.defs import OpSchema

from onnx_ig.graph.fused import FUSED
from onnx_ig.graph.fused.table import Unexpanded
from onnx_ig.rules import GRADIENT

PAGE = Path(__file__).with_suffix(".md")
FLOATS = {"tensor(float)", "tensor(double)", "tensor(float16)", "seq(tensor(float))", "optional(tensor(float))"}
WRITTEN_OUT = {"Constant", "Upsample", "Scatter", "SequenceMap", "ZipMap"}
REFUSED = {
    "BitCast": "reads the bits of a number as those of another type",
    "ai.onnx.preview.training": "a step of training",
}
COVERED = ("rule", "estimate", "zero", "body", "written out")


def carries(schema: OpSchema, formals: list[OpSchema.FormalParameter]) -> bool:
    """Whether one of the operands may be of floats."""
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    return any(FLOATS & allowed.get(f.type_str, {f.type_str}) for f in formals)


def status(schema: OpSchema) -> str:
    """The status of an operator, of those in the table above."""
    return account(schema)[0]


def account(schema: OpSchema) -> tuple[str, str]:
    """(status, what else is to be said: what stands for it, or why it is refused)."""
    name, domain = schema.name, schema.domain
    if name in REFUSED or domain in REFUSED:
        return "refused", REFUSED.get(name) or REFUSED[domain]
    rule = GRADIENT.find(domain, name)
    if rule is not None:
        return ("zero", "") if rule.zero else ("estimate", rule.estimate) if rule.estimate else ("rule", "")
    if (domain, name) in FUSED:
        return _fused(FUSED[domain, name])
    if name in WRITTEN_OUT:
        return "written out", ""
    if not carries(schema, list(schema.inputs)) or not carries(schema, list(schema.outputs)):
        return "no floats", ""
    if schema.has_function or schema.has_context_dependent_function:
        return "body", ""
    return "refused", "no rule"


def _fused(expansion: Any) -> tuple[str, str]:
    """A node that is written out; some only say why they are not."""
    if expansion.__module__.endswith(".refused"):
        try:
            expansion(None)
        except Unexpanded as why:
            return "refused", why.reason
    return "written out", _sentence(expansion.__doc__)


def _sentence(text: str | None) -> str:
    """The first sentence of a docstring, on one line and safe in a table."""
    first = re.split(r"\.(?:\s|$)|\n\n", " ".join((text or "").split("\n\n")[0].split()))[0]
    return first.replace("|", "\\|")


def newest(domain: str = "") -> list[OpSchema]:
    """The newest schema of every operator of a domain, by name."""
    found: dict[str, OpSchema] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain and schema.since_version > getattr(found.get(schema.name), "since_version", 0):
            found[schema.name] = schema
    return [found[name] for name in sorted(found)]


def history() -> dict[tuple[str, str], str]:
    """{(domain, operator): opsets at which it changed}."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        found[schema.domain, schema.name].append(schema.since_version)
    return {key: ", ".join(map(str, sorted(versions))) for key, versions in found.items()}


def differentiable(schema: OpSchema) -> bool:
    """Whether the standard marks one of the inputs as differentiable."""
    return any(f.differentiation_category == OpSchema.DifferentiationCategory.Differentiable for f in schema.inputs)


def page() -> str:
    """The coverage page, as Markdown."""
    schemas = newest()
    counts = Counter(status(s) for s in schemas)
    marked = [s for s in schemas if differentiable(s)]
    covered = [s for s in marked if status(s) in COVERED]
    left = ", ".join(s.name for s in marked if s not in covered) or "none"
    legend = (__doc__ or "").split("\n\n")[-1].strip()
    kinds = re.findall(r"^\| ([a-z ]+) \|", legend, re.M)[1:]
    return "\n".join(
        [
            "# Operators",
            "",
            f"Written by `tools/op_coverage.py` from the rule registry and the schemas of onnx {onnx.__version__};",
            f"{len(schemas)} operators of the default domain of the standard: "
            + ", ".join(f"{counts[kind]} {kind}" for kind in kinds)
            + ".",
            "",
            f"The standard marks an input of {len(marked)} operators as differentiable: {len(covered)} of them are covered;",
            f"not covered: {left}.",
            "",
            legend,
            "",
            "## The default domain",
            "",
            "| operator | changed at opsets | status | |",
            "|---|---|---|---|",
            *_rows(schemas),
            "",
            "## Other domains of the standard",
            "",
            "| operator | changed at versions | status | |",
            "|---|---|---|---|",
            *(r for d in ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training") for r in _rows(newest(d), d)),
            "",
            "## Domains of ONNX Runtime",
            "",
            "Operators that its optimiser and quantiser, and those of transformers, put in place of standard ones; others",
            "are refused by name.",
            "",
            "| operator | status | |",
            "|---|---|---|",
            *_runtime_rows(),
            "",
        ]
    )


def _rows(schemas: list[OpSchema], domain: str = "") -> Iterator[str]:
    versions = history()
    for schema in schemas:
        name = f"{domain}.{schema.name}" if domain else schema.name
        yield f"| {name} | {versions[schema.domain, schema.name]} | {' | '.join(account(schema))} |".replace(
            "|  |", "| |"
        )


def _runtime_rows() -> Iterator[str]:
    own = {k for k in (*FUSED, *GRADIENT.table) if k[0].startswith("com.") or k == ("", "SimplifiedLayerNormalization")}
    for domain, name in sorted(own):
        rule = GRADIENT.find(domain, name)
        kind, note = ("estimate" if rule.estimate else "rule", "") if rule else _fused(FUSED[domain, name])
        yield f"| {f'{domain}.{name}' if domain else name} | {kind} | {note} |".replace("|  |", "| |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"renew {PAGE.name}")
    parser.add_argument("path", nargs="?", type=Path, help="write the page there; default: print it")
    arguments = parser.parse_args()
    target = PAGE if arguments.write else arguments.path
    if target is None:
        print(page(), end="")
    else:
        target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
