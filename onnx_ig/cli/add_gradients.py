"""`onnx-ig add-gradients`: the model and its gradient in one file."""

from __future__ import annotations

from collections.abc import Sequence

import click

from onnx_ig.cli.options import output_folder, quantized_option

__all__ = ["add_gradients_command"]


@click.command("add-gradients", short_help="Write the model with its gradient as one ONNX file.")
@click.argument("model")
@click.option("-o", "--out", required=True, metavar="OUT.onnx", help="The file to write.")
@click.option(
    "--of",
    multiple=True,
    metavar="NAME",
    help="Values that are differentiated, outputs or internal; default: the only float output.",
)
@click.option(
    "--wrt",
    multiple=True,
    metavar="NAME",
    help="Values that they are differentiated by, inputs or internal; default: every attributable input.",
)
@quantized_option
@click.option("--rules", default="gradient", show_default=True, help="Or guided_backprop, deeplift.")
@click.option(
    "--runtime",
    default="generic",
    show_default=True,
    help="What runs it: generic, cpu, cuda, tensorrt, openvino or web.",
)
def add_gradients_command(
    model: str, out: str, of: Sequence[str], wrt: Sequence[str], quantized: str, rules: str, runtime: str
) -> None:
    """Write MODEL with its reverse-mode gradient to one plain ONNX file.

    For each value OF it takes grad_OF, the cotangent; for each value WRT it gives grad_WRT.
    """
    import onnx_ig

    output_folder(out)
    result = onnx_ig.add_gradients(
        model,
        of=list(of) or None,
        wrt=list(wrt) or None,
        rules=rules,
        quantized=quantized,
        runtime=runtime,
        save_as=out,
    )
    taken = ", ".join(i.name for i in result.graph.input)
    click.echo(f"wrote {out}: takes {taken}; gives {', '.join(o.name for o in result.graph.output)}")
