"""Which operators of the ONNX standard have a derivative here: `python tools/op_coverage.py [--write]`.

Read from the rule registry and the schemas of the installed onnx. `--write` renews `tools/op_coverage.md`.

| status | meaning |
|---|---|
| rule | a vector-Jacobian product of its own |
| zero | the derivative is zero by mathematics, and declared so |
| body | no rule: its function body in the standard is expanded, and the parts have rules |
| written out | brought to other operators before rules see it |
| no floats | reads or gives no floating-point tensor, so that no derivative passes |
| refused | a float path through it is refused by name |
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import onnx
from onnx.defs import OpSchema

from onnx_ig.rules import GRADIENT

PAGE = Path(__file__).with_suffix(".md")
FLOATS = {"tensor(float)", "tensor(double)", "tensor(float16)", "seq(tensor(float))", "optional(tensor(float))"}
WRITTEN_OUT = {"Constant", "Upsample", "Scatter", "SequenceMap"}


def carries(schema: OpSchema, formals: list[OpSchema.FormalParameter]) -> bool:
    """Whether one of the operands may be of floats."""
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    return any(FLOATS & allowed.get(f.type_str, {f.type_str}) for f in formals)


def status(schema: OpSchema) -> str:
    """The status of an operator, of those in the table above."""
    rule = GRADIENT.find(schema.domain, schema.name)
    if rule is not None:
        return "zero" if rule.zero else "rule"
    if schema.name in WRITTEN_OUT or schema.deprecated:
        return "written out"
    if not carries(schema, list(schema.inputs)) or not carries(schema, list(schema.outputs)):
        return "no floats"
    if schema.has_function or schema.has_context_dependent_function:
        return "body"
    return "refused"


def newest() -> list[OpSchema]:
    """The newest schema of every operator of the default domain, by name."""
    found: dict[str, OpSchema] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version > getattr(found.get(schema.name), "since_version", 0):
            found[schema.name] = schema
    return [found[name] for name in sorted(found)]


def versions(name: str) -> str:
    """Opsets at which the operator changed."""
    history = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.name == name]
    return ", ".join(map(str, sorted(history)))


def differentiable(schema: OpSchema) -> bool:
    """Whether the standard marks one of the inputs as differentiable."""
    return any(f.differentiation_category == OpSchema.DifferentiationCategory.Differentiable for f in schema.inputs)


def page() -> str:
    """The coverage page, as Markdown."""
    schemas = newest()
    counts = Counter(status(s) for s in schemas)
    marked = [s for s in schemas if differentiable(s)]
    covered = [s for s in marked if status(s) in ("rule", "body", "written out", "zero")]
    left = ", ".join(s.name for s in marked if s not in covered) or "none"
    legend = (__doc__ or "").split("\n\n")[-1].strip()
    lines = [
        "# Operators of the ONNX standard",
        "",
        f"Written by `tools/op_coverage.py` from the rule registry and the schemas of onnx {onnx.__version__};",
        f"{len(schemas)} operators of the",
        "default domain: "
        + ", ".join(f"{counts[k]} {k}" for k in ("rule", "zero", "body", "written out", "no floats", "refused"))
        + ".",
        "",
        f"The standard marks an input of {len(marked)} operators as differentiable: {len(covered)} of them are covered;",
        f"not covered: {left}.",
        "",
        legend,
        "",
        "| operator | changed at opsets | status |",
        "|---|---|---|",
        *(f"| {s.name} | {versions(s.name)} | {status(s)} |" for s in schemas),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"renew {PAGE.name}")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
