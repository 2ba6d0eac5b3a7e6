"""`onnx-ig inspect`: what can be attributed in a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from onnx_ig.cli.options import path_options, quantized_option

if TYPE_CHECKING:
    from onnx_ig.manifest import Metadata

__all__ = ["inspect_command"]


@click.command("inspect", short_help="What can be attributed in a model, and the next command.")
@click.argument("model")
@path_options
@quantized_option
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def inspect_command(model: str, wrt: Sequence[str], output: str | None, quantized: str, as_json: bool) -> None:
    """What can be attributed in MODEL, before anything runs.

    Inputs, outputs, how samples are batched, the operators on the path with their status, the nodes that stand in the
    way, what the file says about itself, and the next command.
    """
    import onnx_ig
    from onnx_ig.graph.load import load
    from onnx_ig.manifest import read

    if wrt or output:
        # Names that do not exist are a mistake in the question, not a finding about the model.
        from onnx_ig.rewriter.subject import subject_of

        subject_of(model, list(wrt) or None, output)
    report = onnx_ig.inspect(model, inputs=list(wrt) or None, output=output, quantized=quantized)
    metadata = read(load(model).metadata_props)
    if as_json:
        click.echo(json.dumps({**report.to_dict(), "metadata": _record(metadata)}, indent=2, ensure_ascii=False))
        return
    lines = _lines(metadata)
    text = str(report)
    click.echo("\n".join([*lines, text]) if lines else text)


def _record(metadata: Metadata) -> dict[str, Any]:
    return {key.removeprefix("onnx_ig."): json.loads(value) for key, value in metadata.write().items()}


def _lines(metadata: Metadata) -> list[str]:
    """The file's own words, shortened."""
    lines = []
    if metadata.manifest is not None:
        manifest = metadata.manifest
        lines.append(f"computes: {manifest.method} of {manifest.output}")
    for name, spec in metadata.preprocessing.items():
        size = "" if spec.size is None else f" {spec.size[0]}x{spec.size[1]}"
        lines.append(f"pictures: {name} {spec.layout}{size}, scale {spec.scale:.4g}, mean {spec.mean}, std {spec.std}")
    if metadata.labels is not None:
        lines.append(f"labels: {len(metadata.labels)}, {_some(metadata.labels)}")
    if metadata.vocabulary is not None:
        lines.append(f"vocabulary: {len(metadata.vocabulary.tokens)} tokens")
    for name, names in metadata.features.items():
        lines.append(f"features of {name}: {_some(names)}")
    return lines


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:5]) + (" ..." if len(words) > 5 else "")
