"""Every command on small models: what it prints, and the files it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

import onnxruntime as ort
from PIL import Image

import onnx_ig
from onnx_ig.manifest import read
from tests.cli import models
from tests.cli.conftest import parsed

Run = Callable[..., Any]


def metadata_of(path: Path | str) -> Any:
    return read({p.key: p.value for p in onnx.load(path, load_external_data=False).metadata_props})


def test_help_and_version(run: Run) -> None:
    text = run("--help").stdout
    for command in ("inspect", "check", "attribute", "rewrite", "add-gradients", "annotate"):
        assert command in text
        assert "--help" in run(command, "--help").stdout
    assert "Exit status: 0 done, 1 failed, 2 usage" in text
    assert "0." in run("--version").stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = "onnx, onnx_ir, onnxruntime, matplotlib, PIL, numpy, tqdm"
    code = (
        "import sys, onnx_ig.cli\n"
        "try: onnx_ig.cli.main(['attribute', '--help'])\n"
        "except SystemExit: pass\n"
        f"print('loaded:', [m for m in '{heavy}'.split(', ') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n")


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "onnx_ig", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("onnx-ig")


def test_inspect(folder: Path, run: Run) -> None:
    models.text(folder / "m.onnx")
    text = run("inspect", "m.onnx").stdout
    for words in (
        "ids",
        "attention_mask",
        "ReduceSum",
        "vocabulary: 6 tokens",
        "labels: 2, positive, negative",
        "onnx-ig",
    ):
        assert words in text
    report = parsed(run("inspect", "m.onnx", "--json"))
    assert report["ok"] is True
    assert {i["name"]: i["kind"] for i in report["inputs"]} == {"ids": "tokens", "attention_mask": "held"}
    assert report["metadata"]["labels"] == ["positive", "negative"]


def test_inspect_tells_the_next_command(folder: Path, run: Run) -> None:
    models.text(folder / "text.onnx")
    models.image(folder / "an image.onnx", preprocessing={"image": {}})
    models.two_inputs(folder / "two.onnx")

    def told(*arguments: str) -> str:
        return str(parsed(run("inspect", *arguments, "--json"))["next_command"])

    assert told("text.onnx") == 'onnx-ig attribute text.onnx --text "..."'
    assert told("an image.onnx") == "onnx-ig attribute 'an image.onnx' photo.jpg"
    assert told("two.onnx") == "onnx-ig attribute two.onnx a=FILE b=FILE"
    assert told("two.onnx", "--wrt", "b") == "onnx-ig attribute two.onnx a=FILE b=FILE --wrt b"


def test_inspect_lists_what_is_in_the_way(folder: Path, run: Run) -> None:
    models.no_rule(folder / "m.onnx")
    report = parsed(run("inspect", "m.onnx", "--json"))
    assert report["ok"] is False
    assert report["blocking"][0]["op_type"] == "Mystery"
    assert "strange node" in run("inspect", "m.onnx").stdout


def test_check(folder: Path, run: Run) -> None:
    models.linear(folder / "m.onnx")
    assert "ok" in run("check", "m.onnx").stdout
    report = parsed(run("check", "m.onnx", "--input", "x=[[1, 2, 3]]", "--target", "1", "--json"))
    assert report["ok"] is True
    assert report["example"] is False


def test_attribute_numbers(folder: Path, run: Run) -> None:
    models.linear(folder / "m.onnx", labels=["cat", "dog"])
    (folder / "rows.csv").write_text("age,fare,class\n1,2,3\n4,5,-6\n")
    result = run("attribute", "m.onnx", "rows.csv", "--json", "--save", "a.npz")
    first, second = parsed(result)["results"]
    # y = x @ [[1, 2], [3, 4], [5, 6]] + 1
    assert (first["target"], first["label"], first["prediction"]) == ([1], "dog", pytest.approx(29))
    assert first["baseline_prediction"] == pytest.approx(1)
    assert first["convergence_delta"] == pytest.approx(0, abs=1e-4)
    found = {f["name"]: f["attribution"] for f in first["top_features"]}
    assert found == pytest.approx({"age": 2, "fare": 8, "class": 18})
    assert (second["label"], second["prediction"]) == ("dog", pytest.approx(-7))
    assert [p for r in (first, second) for p in r["picture"]] == ["m_0_attribution.png", "m_1_attribution.png"]
    assert (folder / "m_0_attribution.png").read_bytes().startswith(b"\x89PNG")
    saved = onnx_ig.load_result(folder / "a.npz")
    np.testing.assert_allclose(saved["x"], [[2, 8, 18], [8, 20, -36]], rtol=1e-5)


def test_attribute_prints_for_people(folder: Path, run: Run) -> None:
    models.linear(folder / "m.onnx", labels=["cat", "dog"])
    text = run("attribute", "m.onnx", "x=[[1, 2, 3]]", "--top", "2", "--target", "cat").stdout
    assert "integrated_gradients of y, 50 steps (gausslegendre)" in text
    assert "explained cat (class 0), score 23, at the baseline 1" in text
    assert "the prediction is dog" in text
    assert "delta" in text
    assert "x[2]  +15" in text
    assert "x[0]" not in text
    assert "picture: m_attribution.png" in text


def test_targets_baselines_methods(folder: Path, run: Run) -> None:
    models.linear(folder / "m.onnx")

    def features(*options: str) -> list[dict[str, float]]:
        rows = parsed(run("attribute", "m.onnx", "x=[[1, 2, 3]]", "--no-plot", "--json", *options))["results"]
        return [{f["name"]: f["attribution"] for f in row["top_features"]} for row in rows]

    assert features("--target", "0", "--target", "1") == [
        pytest.approx({"x[0]": 1, "x[1]": 6, "x[2]": 15}),
        pytest.approx({"x[0]": 2, "x[1]": 8, "x[2]": 18}),
    ]
    assert features("--baseline", "1") == [pytest.approx({"x[0]": 0, "x[1]": 4, "x[2]": 12})]
    assert features("--baseline", "x=[[0, 2, 0]]") == [pytest.approx({"x[0]": 2, "x[1]": 0, "x[2]": 18})]
    assert features("--method", "gradient") == [pytest.approx({"x[0]": 2, "x[1]": 4, "x[2]": 6})]
    assert features("--n-steps", "3", "--quadrature", "riemann_left")[0]["x[2]"] == pytest.approx(18)
    np.save(folder / "r.npy", np.array([[[0, 0, 0]], [[2, 4, 6]]], np.float32)[:, 0])
    assert features("--method", "expected_gradients", "--reference", "r.npy") == [
        pytest.approx({"x[0]": 0, "x[1]": 0, "x[2]": 0}, abs=1e-5)
    ]
    assert not list(folder.glob("*.png"))


def test_attribute_a_photograph(folder: Path, run: Run) -> None:
    models.image(folder / "m.onnx", preprocessing={"image": {"mean": [0.5, 0, 0]}}, labels=["red", "no red"])
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, :4, 0] = 255
    Image.fromarray(pixels).save("half.png")
    row = parsed(run("attribute", "m.onnx", "half.png", "--json", "--target", "red"))["results"][0]
    # Red is 0.5 on the left and -0.5 on the right after the mean is taken off; resized to 4 x 4.
    assert row["source"] == "half.png"
    assert row["prediction"] == pytest.approx(0, abs=0.2)
    assert row["picture"] == ["half_attribution.png"]
    assert [len(f["index"]) for f in row["top_features"]] == [2] * 5  # pixels, not channels
    with Image.open("half_attribution.png") as picture:
        assert picture.width > picture.height  # the photograph and the heat map
    run(
        "attribute",
        "m.onnx",
        "half.png",
        "--plot",
        "o.png",
        "--kind",
        "overlay",
        "--colours",
        "red_green",
        "--vmax",
        "1",
    )
    assert Path("o.png").exists()


def test_options_say_how_pixels_are_fed(folder: Path, run: Run) -> None:
    models.image(folder / "m.onnx", "NHWC")
    Image.fromarray(np.full((4, 4, 3), 100, np.uint8)).save("grey.png")

    def scored(*options: str) -> Any:
        return run("attribute", "m.onnx", "grey.png", "--json", "--no-plot", "--target", "0", *options)

    plain = scored()
    assert parsed(plain)["results"][0]["prediction"] == pytest.approx(16 * 100 / 255)
    assert "nothing says how pixels become the input 'image'" in plain.stderr
    told = scored("--mean", "10,20,30", "--std", "2", "--scale", "1")
    assert parsed(told)["results"][0]["prediction"] == pytest.approx(16 * 45)
    assert "nothing says" not in told.stderr


def test_attribute_a_text(folder: Path, run: Run) -> None:
    models.text(folder / "m.onnx")
    row = parsed(run("attribute", "m.onnx", "--text", "[start] Good film", "--json"))["results"][0]
    assert (row["label"], row["prediction"]) == ("positive", pytest.approx(3.25))
    found = {f["name"]: f["attribution"] for f in row["top_features"]}
    assert found == pytest.approx({"[start]": 0, "good": 2, "film": 0.25})  # what is held gets nothing
    page = Path("m_attribution.html").read_text(encoding="utf-8")
    assert ">good</span>" in page
    assert row["picture"] == ["m_attribution.html"]
    text = run("attribute", "m.onnx", "--text", "good", "--text", "bad bad", "--no-plot").stdout
    assert "good(+2)" in text
    assert "bad(+2) bad(+2)" in text
    assert "[pad]" not in text
    row = parsed(run("attribute", "m.onnx", "--text", "good", "--baseline", "unk", "--no-plot", "--json"))["results"][0]
    assert row["top_features"][0]["attribution"] == pytest.approx(1.5)


def test_several_inputs(folder: Path, run: Run) -> None:
    models.two_inputs(folder / "m.onnx")
    np.savez("both.npz", a=np.array([[2.0]], np.float32), b=np.array([[3.0, 5.0]], np.float32))
    for inputs in (["both.npz"], ["a=[[2]]", "b=[[3, 5]]"], ["--input", "a=[[2]]", "--input", "b=[[3, 5]]"]):
        row = parsed(run("attribute", "m.onnx", *inputs, "--json"))["results"][0]
        found = {f["name"]: f["attribution"] for f in row["top_features"]}
        assert found == pytest.approx({"a[0]": 5, "b[1]": 5, "b[0]": 0}, abs=1e-5)
        assert row["picture"] == ["m_attribution.png"]
    held = parsed(run("attribute", "m.onnx", "both.npz", "--wrt", "b", "--no-plot", "--json"))["results"][0]
    assert held["top_features"][0] == {"input": "b", "index": [1], "name": "b[1]", "attribution": pytest.approx(10)}


def test_rewrite(folder: Path, run: Run) -> None:
    models.linear(folder / "m.onnx", labels=["cat", "dog"])
    text = run("rewrite", "m.onnx", "-o", "out.onnx", "--n-steps", "5").stdout
    assert "x_attribution" in text
    session = ort.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    values = session.run(None, {"x": np.ones((2, 3), np.float32)})
    found = dict(zip([o.name for o in session.get_outputs()], values, strict=True))
    np.testing.assert_allclose(found["x_attribution"], [[2, 4, 6]] * 2, rtol=1e-5)
    about = metadata_of("out.onnx")
    assert about.manifest.n_steps == 5
    assert about.labels == ("cat", "dog")
    run("rewrite", "m.onnx", "-o", "in.onnx", "--target", "input", "--baseline", "input")
    names = [i.name for i in ort.InferenceSession("in.onnx", providers=["CPUExecutionProvider"]).get_inputs()]
    assert names == ["x", "target", "x_baseline"]


def test_add_gradients(folder: Path, run: Run) -> None:
    models.linear(folder / "m.onnx")
    text = run("add-gradients", "m.onnx", "-o", "out.onnx", "--of", "y", "--wrt", "x").stdout
    assert "takes x, grad_y; gives y, grad_x" in text
    session = ort.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    feeds = {"x": np.ones((1, 3), np.float32), "grad_y": np.array([[1, 0]], np.float32)}
    np.testing.assert_allclose(session.run(["grad_x"], feeds)[0], [[1, 3, 5]])


def test_annotate(folder: Path, run: Run) -> None:
    models.image(folder / "m.onnx")
    original = onnx.load("m.onnx")
    original.metadata_props.add(key="author", value="somebody")
    onnx.save(original, "m.onnx")
    (folder / "labels.txt").write_text("red\nno red\n")
    run(
        "annotate",
        "m.onnx",
        "-o",
        "n.onnx",
        "--labels",
        "labels.txt",
        "--mean",
        "0.5,0.4,0.3",
        "--resize",
        "8",
        "--crop",
        "center",
    )
    about = metadata_of("n.onnx")
    assert about.labels == ("red", "no red")
    spec = about.preprocessing["image"]
    assert (spec.layout, spec.mean, spec.resize, spec.crop, spec.scale) == (
        "NCHW",
        (0.5, 0.4, 0.3),
        8,
        "center",
        1 / 255,
    )
    written = onnx.load("n.onnx")
    assert written.graph == original.graph
    assert {p.key: p.value for p in written.metadata_props}["author"] == "somebody"
    # What is there stays, and the file itself is written where no other is named.
    run("annotate", "n.onnx", "--std", "0.2")
    again = metadata_of("n.onnx")
    assert (again.labels, again.preprocessing["image"].mean) == (about.labels, (0.5, 0.4, 0.3))
    assert again.preprocessing["image"].std == (0.2,)


def test_annotate_a_vocabulary(folder: Path, run: Run) -> None:
    models.text(folder / "m.onnx", vocabulary={"tokens": ["old"]})
    (folder / "tokens.txt").write_text("[pad]\n[unk]\nbad\ngood\n", encoding="utf-8")
    run(
        "annotate",
        "m.onnx",
        "--vocabulary",
        "tokens.txt",
        "--unk",
        "[unk]",
        "--pad",
        "[pad]",
        "--lowercase",
        "--split",
        r"\w+",
    )
    found = metadata_of("m.onnx").vocabulary
    assert found.tokens == ("[pad]", "[unk]", "bad", "good")
    assert (found.unk, found.pad, found.lowercase, found.split) == ("[unk]", "[pad]", True, r"\w+")
    run("annotate", "m.onnx", "--keep-case", "--hold", "[unk]")
    assert (metadata_of("m.onnx").vocabulary.lowercase, metadata_of("m.onnx").vocabulary.hold) == (False, ("[unk]",))
    (folder / "v.json").write_text(json.dumps(models.VOCABULARY))
    run("annotate", "m.onnx", "--vocabulary", "v.json", "--features", "ids=first,second")
    assert metadata_of("m.onnx").vocabulary.tokens[3] == "good"
    assert metadata_of("m.onnx").features == {"ids": ("first", "second")}


def test_annotate_takes_external_weights_along(folder: Path, run: Run) -> None:
    models.external(folder / "m.onnx")
    (folder / "there").mkdir()
    run("annotate", "m.onnx", "-o", "there/n.onnx", "--labels", "a,b")
    session = ort.InferenceSession("there/n.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": np.ones((1, 3), np.float32)})[0], [[10, 13]])
    assert metadata_of("there/n.onnx").labels == ("a", "b")


def test_a_picture_that_cannot_be_drawn_is_only_an_error_where_it_was_asked_for(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx_ig.cli.drawing
    from onnx_ig.errors import MissingDependencyError

    def missing(*args: Any, **kwargs: Any) -> None:
        raise MissingDependencyError("pictures need matplotlib: pip install 'onnx_ig[plot]'")

    models.linear(folder / "m.onnx")
    monkeypatch.setattr(onnx_ig.cli.drawing, "picture", missing)
    result = run("attribute", "m.onnx", "x=[[1, 2, 3]]")
    assert "Note: no picture: pictures need matplotlib" in result.stderr
    assert "prediction" in result.stdout
    assert "onnx_ig[plot]" in run("attribute", "m.onnx", "x=[[1, 2, 3]]", "--plot", "a.png", status=1).stderr


def test_values_inside_the_model(folder: Path, run: Run) -> None:
    models.linear(folder / "m.onnx")
    row = parsed(run("attribute", "m.onnx", "x=[[1, 2, 3]]", "--wrt", "xw", "--target", "0", "--json"))["results"][0]
    assert row["top_features"][0] == {"input": "xw", "index": [0], "name": "xw[0]", "attribution": pytest.approx(22)}
    assert row["picture"] == ["m_attribution.png"]


def test_rewrite_tries_out_whether_samples_are_independent(folder: Path, run: Run) -> None:
    # The graph adds up rows either way; what comes of it only running it tells.
    models.mixing(folder / "apart.onnx", share=0.0)
    run("rewrite", "apart.onnx", "-o", "a.onnx")
    assert metadata_of("a.onnx").manifest.batchable
    models.mixing(folder / "mixed.onnx", share=0.5)
    result = run("rewrite", "mixed.onnx", "-o", "m.onnx")
    manifest = metadata_of("m.onnx").manifest
    assert not manifest.batchable
    assert manifest.reason in result.stderr
    run("rewrite", "apart.onnx", "-o", "n.onnx", "--not-batchable")
    assert not metadata_of("n.onnx").manifest.batchable
