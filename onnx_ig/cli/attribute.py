"""`onnx-ig attribute`: which inputs made the model say what it said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from onnx_ig.cli.app import note
from onnx_ig.cli.options import (
    Axis,
    data_options,
    open_model,
    output_folder,
    path_options,
    picture_options,
    preprocessing_of,
    provider_option,
    providers_of,
    quantized_option,
    with_labels,
)

__all__ = ["attribute_command"]


@click.command("attribute", short_help="Attribute a model's output to its inputs, with a picture.")
@click.argument("model")
@data_options
@path_options
@quantized_option
@click.option(
    "--method",
    default="integrated_gradients",
    show_default=True,
    help="Or gradient, gradient_x_input, interior_gradients, guided_backprop, deeplift ...",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="INDEX|LABEL",
    help="The entry that is explained, several times for several; default: the predicted one.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="A number, a file, black or white for pictures, a token for texts; default: zero.",
)
@click.option("--n-steps", type=click.IntRange(1), help="Gradients along the path, 50; with --tolerance at most, 1000.")
@click.option("--tolerance", type=float, metavar="SHARE", help="As many gradients as each sample needs, as 0.01.")
@click.option("--quadrature", default="gausslegendre", show_default=True, help="Or riemann_left, _right, _middle, ...")
@click.option("--internal-batch-size", type=click.IntRange(1), help="Most rows (samples x steps) in one run.")
@click.option(
    "--memory", metavar="SIZE", help="What runs may take beyond the model, as 2GB; default: half of what is free."
)
@click.option("--batch-axis", "batch_axes", type=Axis(), multiple=True, help="Where samples lie in an input.")
@click.option(
    "--reference", "references", multiple=True, metavar="[NAME=]FILE", help="Baselines of expected_gradients."
)
@click.option("--path", "paths", multiple=True, metavar="[NAME=]FILE", help="The path of path_integrated_gradients.")
@provider_option
@picture_options
@click.option("--labels", metavar="FILE|A,B,...", help="Class names; default: those of the model's file.")
@click.option(
    "--plot", "plot", metavar="FILE", help="Where the picture goes; default: NAME_attribution.png or .html here."
)
@click.option("--no-plot", is_flag=True, help="No picture.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    help="original_image, heat_map, blended_heat_map, overlay, masked_image, alpha_scaling, bars, series, "
    "tokens or curves; several pictures stand side by side.",
)
@click.option("--colours", help="blue_orange, red_green, or a colour map of matplotlib.")
@click.option("--sign", type=click.Choice(["all", "positive", "negative", "absolute_value"]), help="What is drawn.")
@click.option("--vmin", type=float, help="Lower end of the colours.")
@click.option("--vmax", type=float, help="Upper end of the colours.")
@click.option("--save", metavar="FILE.npz", help="Write all numbers to a file.")
@click.option("--top", type=click.IntRange(0), default=5, show_default=True, help="How many features are listed.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def attribute_command(
    model: str,
    inputs: Sequence[str],
    more_inputs: Sequence[str],
    texts: Sequence[str],
    wrt: Sequence[str],
    output: str | None,
    quantized: str,
    method: str,
    targets: Sequence[str],
    baselines: Sequence[str],
    n_steps: int | None,
    tolerance: float | None,
    quadrature: str,
    internal_batch_size: int | None,
    memory: str | None,
    batch_axes: Sequence[tuple[str, int | None]],
    references: Sequence[str],
    paths: Sequence[str],
    providers: Sequence[str],
    labels: str | None,
    plot: str | None,
    no_plot: bool,
    kinds: Sequence[str],
    colours: str | None,
    sign: str | None,
    vmin: float | None,
    vmax: float | None,
    save: str | None,
    top: int,
    as_json: bool,
    **pictures: Any,
) -> None:
    """Attribute an output of MODEL to its inputs: a photograph or a folder of them, numbers (.npy .npz .csv) or texts
    (.txt, one a line).

    \b
    onnx-ig attribute model.onnx photo.jpg
    onnx-ig attribute model.onnx photos/ --tolerance 0.01 --save all.npz
    onnx-ig attribute model.onnx mean=mean.csv worst=worst.csv
    onnx-ig attribute model.onnx --text "Not bad at all!"

    Prints the prediction, how far the attributions are from complete (delta), and the features that matter most, and
    leaves a picture. Samples that cannot be fed are told and passed over. With --save, samples are kept in
    FILE.npz.partial as they are finished: when a run is broken off, the same command goes on from there.
    """
    from onnx_ig.cli.drawing import Drawing
    from onnx_ig.cli.long import Output, attribute_all
    from onnx_ig.cli.targets import baselines_of, steps_of, targets_of
    from onnx_ig.cli.work import work_of
    from onnx_ig.explain import Explainer
    from onnx_ig.graph.external import weight_files

    for path in (plot, save):
        output_folder(path)
    loaded, signature = open_model(model)
    given = {**click.get_current_context().params, "weights": [str(p) for p in weight_files(loaded)]}
    known = preprocessing_of(pictures, signature.pictures(), signature.metadata)
    metadata = with_labels(
        replace(signature.metadata, preprocessing={**signature.metadata.preprocessing, **known}), labels
    )
    signature = replace(signature, metadata=metadata)
    work = work_of([*inputs, *more_inputs], texts, signature)
    for line in work.reading.notes:
        note(line)
    metadata = replace(metadata, features={**metadata.features, **work.reading.features})
    drawing = None if no_plot else Drawing(plot, kinds, colours, sign, vmin, vmax)
    explainer = Explainer(
        loaded,
        method,
        inputs=list(wrt) or None,
        output=output,
        batch_axes=dict(batch_axes) or None,
        providers=providers_of(providers),
        quantized=quantized,
    )
    moved = [s.name for s in explainer.subject.moved]
    options = {
        "baselines": baselines_of(baselines, signature, moved),
        "target": targets_of(targets, metadata.labels),
        "n_steps": n_steps,
        "quadrature": quadrature,
        "internal_batch_size": internal_batch_size,
        "tolerance": tolerance,
        "memory_budget": memory,
        "path": steps_of(paths, "--path", signature, moved),
        "references": steps_of(references, "--reference", signature, moved),
    }
    attribute_all(explainer, work, metadata, options, Output(model, drawing, save, top, as_json), given)
