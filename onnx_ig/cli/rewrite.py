"""`onnx-ig rewrite`: the model and its attributions in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from onnx_ig.cli.app import note
from onnx_ig.cli.options import Axis, output_folder, path_options, quantized_option

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_ig.cli.work import Work
    from onnx_ig.explain import Explainer
    from onnx_ig.quadrature import Calibration

__all__ = ["rewrite_command"]


@click.command("rewrite", short_help="Write the model with its attributions as one ONNX file.")
@click.argument("model")
@click.option("-o", "--out", required=True, metavar="OUT.onnx", help="The file to write.")
@path_options
@quantized_option
@click.option("--method", default="integrated_gradients", show_default=True)
@click.option("--n-steps", type=click.IntRange(1), help="Gradients along the path, 50; with --calibrate at most, 1000.")
@click.option(
    "--calibrate",
    "examples",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Samples, as attribute takes them: the fewest steps that meet --tolerance on them are written.",
)
@click.option("--tolerance", type=float, metavar="SHARE", help="What is to be met on the samples of --calibrate; 0.01.")
@click.option("--quadrature", default="gausslegendre", show_default=True, help="Or riemann_left, _right, _middle, ...")
@click.option(
    "--loop",
    type=click.Choice(["batched", "looped"]),
    default="batched",
    show_default=True,
    help="All steps as one batch, or some at a time.",
)
@click.option("--steps-per-iteration", type=click.IntRange(1), help="Steps at a time in the looped form.")
@click.option(
    "--target",
    default="predicted",
    show_default=True,
    metavar="INDEX|LABEL|input",
    help="The entry that is explained; 'input' makes it an input of the model.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="A number or a file, by input; 'input' makes it an input of the model.",
)
@click.option("--batch-axis", "batch_axes", type=Axis(), multiple=True, help="Where samples lie in an input.")
@click.option(
    "--runtime",
    default="generic",
    show_default=True,
    help="What runs it: generic, cpu, cuda, tensorrt, openvino or web.",
)
@click.option(
    "--batchable/--not-batchable",
    default=None,
    help="Whether samples are independent of each other; default: by the graph, or else by running two of them.",
)
def rewrite_command(
    model: str,
    out: str,
    wrt: Sequence[str],
    output: str | None,
    quantized: str,
    method: str,
    n_steps: int | None,
    examples: Sequence[str],
    tolerance: float | None,
    quadrature: str,
    loop: str,
    steps_per_iteration: int | None,
    target: str,
    baselines: Sequence[str],
    batch_axes: Sequence[tuple[str, int | None]],
    runtime: str,
    batchable: bool | None,
) -> None:
    """Write MODEL with its attributions to one plain ONNX file.

    \b
    onnx-ig rewrite model.onnx -o explained.onnx
    onnx-ig rewrite model.onnx -o explained.onnx --calibrate photos/ --tolerance 0.05

    It takes the model's own inputs and gives its own outputs, then NAME_attribution for every attributed input,
    attributed_target and convergence_delta.
    """
    import onnx_ig
    from onnx_ig.cli.options import open_model
    from onnx_ig.cli.targets import baselines_of, target_of
    from onnx_ig.cli.work import work_of
    from onnx_ig.errors import OptionError
    from onnx_ig.manifest import read

    output_folder(out)
    if tolerance is not None and not examples:
        raise OptionError("--tolerance: steps in a file are fixed; give samples to choose them on, --calibrate FILE")
    if examples and quadrature != "gausslegendre":
        raise OptionError(f"--quadrature {quadrature}: with --calibrate the rule is chosen by the samples")
    loaded, signature = open_model(model)
    moved = list(wrt) or [p.name for p in signature.ports.values() if p.role != "held"]
    start: Any = "input"
    named: dict[str, Any] = {}
    if list(baselines) != ["input"]:
        named = baselines_of(baselines, signature, moved) or {}
        start = {name: 0 if value is None else value for name, value in named.items()} or 0
    axes = dict(batch_axes) or None
    if batchable is None:
        batchable = _probed(loaded, list(wrt) or None, output, axes)
    entry = target if target == "input" else target_of(target, signature.metadata.labels)
    steps: int | Calibration = n_steps or 50
    if examples:
        explainer = onnx_ig.Explainer(
            loaded, method, inputs=list(wrt) or None, output=output, batch_axes=axes, quantized=quantized
        )
        if target == "input":
            note("--target input: the steps are chosen with the predicted entry")
        if list(baselines) == ["input"]:
            note("--baseline input: the steps are chosen with a baseline of zero")
        share = 0.01 if tolerance is None else tolerance
        options = {"target": "predicted" if target == "input" else entry, "baselines": named or None}
        steps = _calibrated(explainer, work_of(examples, [], signature), share, n_steps, options)
        click.echo(str(steps))
    result = onnx_ig.rewrite(
        loaded,
        method,
        inputs=list(wrt) or None,
        output=output,
        n_steps=steps,
        quadrature=quadrature,
        loop=loop,
        steps_per_iteration=steps_per_iteration,
        target=entry,
        baselines=start,
        batch_axes=axes,
        batchable=batchable,
        runtime=runtime,
        quantized=quantized,
        save_as=out,
    )
    written = read({p.key: p.value for p in result.metadata_props}).manifest
    click.echo(f"wrote {out}: {', '.join(o.name for o in result.graph.output)}")
    if written is not None and not written.batchable:
        note(f"the model takes its own shapes, one step at a time: {written.reason}")


def _calibrated(
    explainer: Explainer, work: Work, tolerance: float, n_steps: int | None, options: Mapping[str, Any]
) -> Calibration:
    """Steps chosen on all samples of `work` that can be fed. Raises FeedError where none can."""
    from onnx_ig.errors import FeedError
    from onnx_ig.explain.refine import CAP

    for line in work.reading.notes:
        note(line)
    work.follow(explainer.batching)
    reading, keep, bad = work.part(0, work.count)
    for position, reason in bad.items():
        note(f"{work.title(position)} is passed over: {reason}")
    if not keep:
        raise FeedError(next(iter(bad.values())))
    moved = [s.name for s in explainer.subject.moved]
    held = {name: mask for name, mask in reading.held.items() if name in moved}
    return explainer.calibrate(reading.feeds, tolerance, n_steps or CAP, held=held or None, **options)


def _probed(
    model: ir.Model, wrt: list[str] | None, output: str | None, axes: Mapping[str, int | None] | None
) -> bool | None:
    """What two made-up samples show about independence, where the graph leaves it open; None where that cannot be run."""
    from onnx_ig.errors import FeedError, MissingDependencyError, RunError
    from onnx_ig.explain.independence import probe_independence

    try:
        return probe_independence(model, inputs=wrt, output=output, batch_axes=axes)
    except (FeedError, MissingDependencyError, RunError) as error:
        note(f"whether samples are independent cannot be tried out ({error}); --batchable says it by hand")
        return None
