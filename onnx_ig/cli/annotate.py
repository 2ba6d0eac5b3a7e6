"""`onnx-ig annotate`: write into a model's file how pictures and texts become its inputs, and what its classes are."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_ig.cli.options import label_list, open_model, output_folder, picture_options, preprocessing_of

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_ig.cli.ports import Signature
    from onnx_ig.manifest import Vocabulary

__all__ = ["annotate_command"]


@click.command("annotate", short_help="Write preprocessing, labels or a vocabulary into a model's file.")
@click.argument("model")
@click.option("-o", "--out", metavar="OUT.onnx", help="The file to write; default: MODEL itself.")
@click.option("--picture", metavar="NAME", help="The input that takes pictures, where there are several.")
@picture_options
@click.option(
    "--labels", metavar="FILE|A,B,...", help="Class names: a file with one a line, a .json list, or as they are."
)
@click.option(
    "--vocabulary",
    metavar="FILE",
    help="Tokens: a file with one a line or a .json list, or the whole vocabulary as a .json object.",
)
@click.option("--unk", metavar="TOKEN", help="The token for unknown words.")
@click.option("--pad", metavar="TOKEN", help="The token that fills short texts.")
@click.option("--start", metavar="TOKEN", help="The token before every text.")
@click.option("--end", metavar="TOKEN", help="The token after every text.")
@click.option("--hold", metavar="TOKEN", multiple=True, help="A token that stays as it is along the path.")
@click.option("--lowercase/--keep-case", default=None, help="Whether texts are brought to lower case.")
@click.option("--split", metavar="REGEX", help="What a token looks like, or what stands between tokens.")
@click.option(
    "--features", multiple=True, metavar="[NAME=]FILE|[NAME=]A,B,...", help="Names of the columns of an input."
)
def annotate_command(
    model: str,
    out: str | None,
    picture: str | None,
    labels: str | None,
    vocabulary: str | None,
    features: Sequence[str],
    **options: Any,
) -> None:
    """Write into the file of MODEL how pictures and texts become its inputs, and what its classes are called.

    What the file says already stays, but for what is given. The graph and the weights are not touched.
    """
    from onnx_ig.errors import OptionError

    output_folder(out)
    loaded, signature = open_model(model)
    metadata = signature.metadata
    tokens = {k: options.pop(k) for k in ("unk", "pad", "start", "end", "hold", "lowercase", "split")}
    ports = signature.pictures()
    if picture is not None:
        if picture not in signature.ports:
            raise OptionError(f"the model has no input {picture!r}; its inputs are {signature.names}")
        ports = [signature.ports[picture]]
    elif len(ports) > 1 and any(v is not None for v in options.values()):
        names = ", ".join(repr(p.name) for p in ports)
        raise OptionError(f"several inputs can take pictures, {names}: say which with --picture NAME")
    changed = replace(
        metadata,
        preprocessing={**metadata.preprocessing, **preprocessing_of(options, ports, metadata)},
        labels=metadata.labels if labels is None else tuple(label_list(labels)),
        vocabulary=_vocabulary(metadata.vocabulary, vocabulary, tokens),
        features={**metadata.features, **_features(features, signature)},
    )
    if changed == metadata:
        raise OptionError(
            "nothing to write: give --mean, --labels, --vocabulary ... (onnx-ig inspect shows what is there)"
        )
    _write(Path(model), Path(out or model), changed.write(), _weight_files(loaded))
    click.echo(f"wrote {out or model}")


def _vocabulary(known: Vocabulary | None, file: str | None, options: Mapping[str, Any]) -> Vocabulary | None:
    from onnx_ig.cli.words import read_json_or_lines
    from onnx_ig.errors import ModelError, OptionError
    from onnx_ig.manifest import Vocabulary, read

    given = {k: v for k, v in options.items() if v not in (None, ())}
    if file is not None:
        if not Path(file).is_file():
            raise OptionError(f"--vocabulary: there is no file {file}")
        content = read_json_or_lines(Path(file), "--vocabulary")
        if isinstance(content, dict):
            import json

            try:
                known = read({"onnx_ig.vocabulary": json.dumps(content)}).vocabulary
            except ModelError as error:
                raise OptionError(f"--vocabulary: {file} is no vocabulary: {error.__cause__}") from error
        else:
            # The special tokens go with their tokens: those of the old ones do not stay.
            return Vocabulary(content, **given)
    if known is None and given:
        raise OptionError(f"--{next(iter(given))} belongs to a vocabulary: give its tokens with --vocabulary FILE")
    return replace(known, **given) if known is not None else None


def _features(items: Sequence[str], signature: Signature) -> dict[str, list[str]]:
    from onnx_ig.cli.reading import assigned
    from onnx_ig.cli.words import word_list
    from onnx_ig.errors import OptionError

    found = {}
    for item in items:
        name, value = assigned(item, signature)
        if name is None and len(signature.ports) != 1:
            raise OptionError(f"--features: say NAME={item}; the model's inputs are {signature.names}")
        found[name or next(iter(signature.ports))] = word_list(value, "--features")
    return found


def _weight_files(model: ir.Model) -> list[str]:
    """The files beside the model that hold its weights."""
    import onnx_ir as ir

    tensors = (v.const_value for graph in model.graphs() for v in graph.initializers.values())
    return sorted({os.fspath(t.location) for t in tensors if isinstance(t, ir.ExternalTensor)})


def _write(source: Path, path: Path, entries: Mapping[str, str], weights: Sequence[str]) -> None:
    """The file of `source` with these metadata, to `path`, whole or not at all; external weights go along."""
    import onnx

    from onnx_ig.errors import ModelError

    model = onnx.load(source, load_external_data=False)
    kept = [p for p in model.metadata_props if not p.key.startswith("onnx_ig.")]
    written = [onnx.StringStringEntryProto(key=k, value=v) for k, v in entries.items()]
    del model.metadata_props[:]
    model.metadata_props.extend([*kept, *written])
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
            scratched = Path(scratch) / path.name
            scratched.write_bytes(model.SerializeToString())
            if path.parent.resolve() != source.parent.resolve():
                _copy(weights, source.parent, path.parent, Path(scratch))
            os.replace(scratched, path)
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror or error}") from error


def _copy(names: Sequence[str], source: Path, folder: Path, scratch: Path) -> None:
    for name in names:
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, scratch / name)
        os.replace(scratch / name, folder / name)
