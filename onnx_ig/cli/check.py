"""`onnx-ig check`: is the gradient of this very model right?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from onnx_ig.cli.app import FAILED, note
from onnx_ig.cli.options import (
    data_options,
    open_model,
    path_options,
    picture_options,
    preprocessing_of,
    provider_option,
    providers_of,
    quantized_option,
)

__all__ = ["check_command"]


@click.command("check", short_help="Compare gradients with finite differences on the model itself.")
@click.argument("model")
@data_options
@path_options
@quantized_option
@click.option("--target", metavar="INDEX", default="predicted", show_default=True, help="The entry of the output.")
@click.option("--n-steps", type=click.IntRange(1), default=100, show_default=True, help="Steps for completeness.")
@provider_option
@picture_options
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.pass_context
def check_command(
    ctx: click.Context,
    /,
    model: str,
    inputs: Sequence[str],
    more_inputs: Sequence[str],
    texts: Sequence[str],
    wrt: Sequence[str],
    output: str | None,
    quantized: str,
    target: str,
    n_steps: int,
    providers: Sequence[str],
    as_json: bool,
    **pictures: Any,
) -> None:
    """Compare the gradients of MODEL with central differences of the model itself, and test completeness.

    Without data an example is made up from the declared shapes. Exit status 1 where something disagrees.
    """
    import onnx_ig
    from onnx_ig.cli.reading import complete, read_inputs
    from onnx_ig.cli.targets import target_of

    loaded, signature = open_model(model)
    feeds = None
    if inputs or more_inputs or texts:
        known = preprocessing_of(pictures, signature.pictures(), signature.metadata)
        reading = read_inputs([*inputs, *more_inputs], texts, signature, known)
        for line in reading.notes:
            note(line)
        feeds = complete(reading, signature)
    report = onnx_ig.check(
        loaded,
        feeds,
        inputs=list(wrt) or None,
        output=output,
        target=target_of(target, signature.metadata.labels),
        n_steps=n_steps,
        providers=providers_of(providers),
        quantized=quantized,
    )
    click.echo(report.to_json() if as_json else str(report))
    if not report.ok:
        ctx.exit(FAILED)
