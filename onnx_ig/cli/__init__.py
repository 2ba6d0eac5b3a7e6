"""The command line: `onnx-ig`, and `python -m onnx_ig`.

The modules of the commands import what is heavy inside them, so that `--help` is quick.
"""

from __future__ import annotations

import click

from onnx_ig.cli.add_gradients import add_gradients_command
from onnx_ig.cli.annotate import annotate_command
from onnx_ig.cli.app import Commands
from onnx_ig.cli.attribute import attribute_command
from onnx_ig.cli.check import check_command
from onnx_ig.cli.inspect import inspect_command
from onnx_ig.cli.rewrite import rewrite_command

__all__ = ["main"]


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 done, 1 failed, 2 usage.",
)
@click.version_option(package_name="onnx_ig", prog_name="onnx-ig")
def main() -> None:
    """Attributions for any ONNX model: which inputs made the model say what it said."""


for _command in (
    inspect_command,
    check_command,
    attribute_command,
    rewrite_command,
    add_gradients_command,
    annotate_command,
):
    main.add_command(_command)
