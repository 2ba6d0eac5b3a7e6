"""Options that several commands share, and what their texts mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_ig.cli.ports import Port, Signature
    from onnx_ig.manifest import Metadata, Preprocessing

__all__ = [
    "Axis",
    "data_options",
    "label_list",
    "open_model",
    "output_folder",
    "path_options",
    "picture_options",
    "preprocessing_of",
    "provider_option",
    "providers_of",
    "quantized_option",
    "with_labels",
]

F = TypeVar("F", bound=Callable[..., Any])

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "rocm": "ROCMExecutionProvider",
}


if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # generic since click 8.4 only


class Numbers(_Type):
    """One number, or several with commas; fractions as 1/255 are understood."""

    name = "NUMBER[,NUMBER...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(_fraction(part) for part in str(value).split(","))
        except (ValueError, ZeroDivisionError):
            self.fail(f"{value!r} is not a number, nor numbers with commas between", param, ctx)


class Size(_Type):
    """One number of pixels, or height x width."""

    name = "PIXELS|HxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            sides = [int(part) for part in value.lower().replace(",", "x").split("x")]
        except ValueError:
            sides = []
        if len(sides) not in (1, 2) or min(sides) < 1:
            self.fail(f"{value!r} is neither a number of pixels nor height x width, as 224x224", param, ctx)
        return sides[0] if len(sides) == 1 else (sides[0], sides[1])


class Axis(_Type):
    """INPUT=AXIS, or INPUT=none for an input that is the same for all samples."""

    name = "INPUT=AXIS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int | None]:
        if isinstance(value, tuple):
            return value
        name, _, axis = str(value).rpartition("=")
        if not name or not (axis.lower() == "none" or axis.isdigit()):
            self.fail(f"{value!r} is not INPUT=AXIS with a number, or none", param, ctx)
        return name, None if axis.lower() == "none" else int(axis)


def _fraction(text: str) -> float:
    above, slash, below = text.partition("/")
    return float(above) / float(below) if slash else float(above)


def _together(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def data_options(command: F) -> F:
    """INPUT..., --input, --text."""
    return _together(
        click.argument("inputs", nargs=-1, metavar="[INPUT]..."),
        click.option(
            "--input", "more_inputs", multiple=True, metavar="[NAME=]FILE",
            help="Data for an input: FILE, NAME=FILE or NAME=VALUE; the same as an INPUT argument.",
        ),
        click.option("--text", "texts", multiple=True, help="A text, for a model whose file carries a vocabulary."),
    )(command)  # fmt: skip


def quantized_option(command: F) -> F:
    """--quantized."""
    return click.option(
        "--quantized", type=click.Choice(["straight-through", "refuse"]), default="straight-through", show_default=True,
        help="Roundings of a quantised model: taken for the identity inside their range, or refused.",
    )(command)  # fmt: skip


def path_options(command: F) -> F:
    """--wrt, --output."""
    return _together(
        click.option(
            "--wrt", multiple=True, metavar="NAME",
            help="Where attributions are wanted: an input or a value inside the model; default: see inspect.",
        ),
        click.option("--output", metavar="NAME", help="The output that is explained; default: the only float output."),
    )(command)  # fmt: skip


def picture_options(command: F) -> F:
    """--mean, --std, --scale, --layout, --size, --resize, --crop, --channels."""
    return _together(
        click.option("--mean", type=Numbers(), help="Subtracted from (pixel * scale): one number, or one a channel."),
        click.option("--std", type=Numbers(), help="What that is divided by."),
        click.option("--scale", type=Numbers(), help="Factor on pixels from 0 to 255, as 1/255."),
        click.option("--layout", help="Order of the axes: NCHW, NHWC, CHW ..."),
        click.option("--size", type=Size(), help="Height and width of the tensor."),
        click.option("--resize", type=Size(), help="Pixels of the shorter side, or HxW, before cropping."),
        click.option("--crop", help="'center', or the size to cut from the middle."),
        click.option("--channels", help="RGB, BGR, L (grey) or RGBA."),
    )(command)  # fmt: skip


def provider_option(command: F) -> F:
    """--provider."""
    return click.option(
        "--provider", "providers", multiple=True,
        help="Execution provider of ONNX Runtime, in order: cpu, cuda, tensorrt, openvino, or a full name.",
    )(command)  # fmt: skip


def providers_of(names: Sequence[str]) -> list[str] | None:
    """Full names of execution providers; None for none given."""
    return [_PROVIDERS.get(name.lower(), name) for name in names] or None


def open_model(path: str) -> tuple[ir.Model, Signature]:
    """Load a model and what is to be known for reading its data. Raises ModelError."""
    from onnx_ig.cli.ports import signature
    from onnx_ig.graph.load import load

    model = load(path)
    return model, signature(model)


def preprocessing_of(given: dict[str, Any], ports: Sequence[Port], metadata: Metadata) -> dict[str, Preprocessing]:
    """Preprocessing by input, from options over what the metadata say; empty where no option is given.

    Raises OptionError where a value is wrong.
    """
    from onnx_ig.cli.photographs import guess_preprocessing
    from onnx_ig.errors import OptionError

    options = {k: v for k, v in given.items() if v is not None}
    if not options:
        return {}
    if not ports:
        raise OptionError(f"--{next(iter(options))} is about pictures, and no input of the model takes any")
    if "scale" in options:
        if len(options["scale"]) != 1:
            raise OptionError("--scale is one number")
        options["scale"] = options["scale"][0]
    if "crop" in options and options["crop"] != "center":
        options["crop"] = Size().convert(options["crop"], None, None)
    if isinstance(options.get("size"), int):
        options["size"] = (options["size"], options["size"])
    found = {}
    for port in ports:
        base = metadata.preprocessing.get(port.name)
        if base is None:
            base = guess_preprocessing(port)
            # The unit of mean and std decides on the scale, unless it is told.
            options = {"scale": None, **options} if port.dtype is None or port.dtype.kind == "f" else options
        found[port.name] = replace(base, **options)
    return found


def label_list(text: str) -> list[str]:
    """Labels from a .json list, from a file with one a line, or with commas between. Raises OptionError."""
    from onnx_ig.cli.words import word_list

    return word_list(text, "--labels")


def with_labels(metadata: Metadata, labels: str | None) -> Metadata:
    """The metadata with other labels, where they are given."""
    return metadata if labels is None else replace(metadata, labels=tuple(label_list(labels)))


def output_folder(path: str | None) -> None:
    """Refuse a file in a folder that does not exist before any work is done. Raises OptionError."""
    from onnx_ig.errors import OptionError

    if path is None:
        return
    if Path(path).is_dir():
        raise OptionError(f"{path or 'the empty path'} is a folder; name the file to write")
    if not Path(path).parent.is_dir():
        raise OptionError(f"{path} cannot be written: there is no folder {Path(path).parent}")
