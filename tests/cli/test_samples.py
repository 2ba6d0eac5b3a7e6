"""The sample models from the command line: inputs, labels, scores and attributions as the references have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")

from onnx_ig import load_result
from onnx_ig.cli.options import open_model
from onnx_ig.cli.reading import read_inputs
from tests.cli.conftest import parsed

SAMPLES = Path(__file__).parents[2] / "sample_models"
MODELS = ("digits", "sentiment", "tumour", "efficientnet_lite0")


def reference(name: str) -> dict[str, Any]:
    with np.load(SAMPLES / "references" / f"{name}.npz", allow_pickle=False) as file:
        return {k: file[k] for k in file.files}


def told(prediction: dict[str, Any]) -> list[str]:
    """The arguments that a shipped input is given by."""
    if "text" in prediction:
        return ["--text", prediction["text"]]
    return [f"{name}={SAMPLES / file}" for name, file in prediction["files"].items()]


@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_labels(name: str, run: Callable[..., Any]) -> None:
    predictions = json.loads(str(reference(name)["info"]))["predictions"]
    for prediction in predictions[:2]:
        result = run(
            "attribute", SAMPLES / f"{name}.onnx", *told(prediction), "--n-steps", "1", "--no-plot", "--json"
        )  # fmt: skip
        row = parsed(result)["results"][0]
        assert (row["predicted"], row["label"]) == ([prediction["index"]], prediction["label"])
        assert row["prediction"] == pytest.approx(prediction["score"], rel=1e-4)


def test_a_photograph_is_prepared_as_for_the_reference() -> None:
    _, signature = open_model(str(SAMPLES / "efficientnet_lite0.onnx"))
    feeds = read_inputs([str(SAMPLES / "cat.jpg")], [], signature).feeds
    np.testing.assert_allclose(feeds["image"], reference("efficientnet_lite0")["input.image"], atol=1e-6)


def test_texts_are_tokenized_as_for_the_reference() -> None:
    _, signature = open_model(str(SAMPLES / "sentiment.onnx"))
    texts = (SAMPLES / "sentiment.txt").read_text(encoding="utf-8").splitlines()
    np.testing.assert_array_equal(read_inputs([], texts, signature).feeds["ids"], reference("sentiment")["input.ids"])


def test_attributions_of_a_table(folder: Path, run: Callable[..., Any]) -> None:
    run("attribute", SAMPLES / "tumour.onnx", SAMPLES / "tumour.npz", "--save", "a.npz", "--no-plot")
    expected = reference("tumour")
    for name, found in load_result("a.npz").items():
        captum = expected[f"integrated_gradients_gausslegendre.{name}"]
        np.testing.assert_allclose(found, captum, atol=1e-5 * np.abs(captum).max())


def test_pictures_of_every_kind(folder: Path, run: Callable[..., Any]) -> None:
    pytest.importorskip("matplotlib")
    image = SAMPLES / "digit_3.png"
    for kinds in (["heat_map"], ["overlay", "masked_image", "alpha_scaling"], ["original_image", "blended_heat_map"]):
        options = [word for kind in kinds for word in ("--kind", kind)]
        run("attribute", SAMPLES / "digits.onnx", image, *options, "--plot", f"{kinds[0]}.png", "--n-steps", "5")
        assert Path(f"{kinds[0]}.png").stat().st_size > 1000
    run(
        "attribute", SAMPLES / "digits.onnx", image, "--method", "interior_gradients", "--kind", "curves",
        "--plot", "curves.png",
    )  # fmt: skip
    assert Path("curves.png").stat().st_size > 1000
