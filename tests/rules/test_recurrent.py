"""RNN, GRU and LSTM against central differences of a numpy forward that is itself checked against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import onnx_ig
from onnx_ig.errors import UnsupportedOperatorError
from tests.gradcheck import Runner, gradients_of, node_model
from tests.rules.recurrent_oracle import ALPHA, BETA, DEFAULTS, GATES, run

OPERATORS = list(GATES)
FUNCTIONS = ["Sigmoid", "Tanh", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu"]
FUNCTIONS += ["ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus"]
DIRECTIONS = ["forward", "reverse", "bidirectional"]
ALL = ("Y", "Y_h", "Y_c")
Arrays = dict[str, Any]


def operands(op: str, attributes: Arrays, seed: int = 0, size: float = 0.6, **given: Any) -> Arrays:
    """Random operands, weights of `size`; `given` replaces some, None leaves them out."""
    rng = np.random.default_rng(seed)
    steps, batch, inputs, hidden = 5, 3, 4, 3
    d, g = (2 if attributes.get("direction") == "bidirectional" else 1), GATES[op]
    found: Arrays = {
        "X": rng.standard_normal((steps, batch, inputs)),
        "W": rng.standard_normal((d, g * hidden, inputs)) * size,
        "R": rng.standard_normal((d, g * hidden, hidden)) * size,
        "B": rng.standard_normal((d, 2 * g * hidden)) * size,
        "sequence_lens": None,
        "initial_h": rng.standard_normal((d, batch, hidden)),
    }
    if op == "LSTM":
        found["initial_c"] = rng.standard_normal((d, batch, hidden))
        found["P"] = None
        if given.get("P") is True:
            given["P"] = rng.standard_normal((d, 3 * hidden))
    found.update(given)
    if attributes.get("layout"):
        for name in ("X", "initial_h", "initial_c"):
            if found.get(name) is not None:
                found[name] = np.ascontiguousarray(found[name].swapaxes(0, 1))
    return found


def check(op: str, attributes: Arrays, inputs: Arrays, shapes: str = "static", of: Sequence[str] = ALL) -> None:
    """Compare the gradient of the outputs `of`, all together, with central differences of the oracle."""
    attributes = {"hidden_size": 3, **attributes}
    outputs = ALL[: len(run(op, inputs, attributes))]
    of = [name for name in outputs if name in of]
    model = node_model(op, inputs, attributes, outputs=outputs, dtype=np.float32, shapes=shapes)
    floats = [n for n, a in inputs.items() if a is not None and a.dtype.kind == "f"]
    feeds = {n: a.astype(np.float32) if n in floats else a for n, a in inputs.items() if a is not None}
    rng = np.random.default_rng(1)
    results = dict(zip(outputs, run(op, inputs, attributes), strict=True))
    cotangents = {name: rng.standard_normal(results[name].shape) for name in of}

    def score(moved: Arrays) -> float:
        results = dict(zip(outputs, run(op, {**inputs, **moved}, attributes), strict=True))
        return float(sum((results[name] * g).sum() for name, g in cotangents.items()))

    augmented = onnx_ig.add_gradients(model, of=of, wrt=floats)
    given = {f"grad_{name}": g.astype(np.float32) for name, g in cotangents.items()}
    found = Runner(augmented)({**feeds, **given})[len(outputs) :]
    for name, gradient in zip(floats, found, strict=True):
        assert gradient.shape == inputs[name].shape, name
        for _ in range(2):
            direction = rng.standard_normal(inputs[name].shape)
            ahead, behind = (score({name: inputs[name] + step * direction}) for step in (1e-6, -1e-6))
            expected = (ahead - behind) / 2e-6
            got = float((gradient.astype(np.float64) * direction).sum())
            scale = float(np.abs(gradient * direction).sum()) + 1e-2
            assert abs(got - expected) < 1e-5 * scale + 1e-5, (name, got, expected)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_oracle_computes_what_the_runtime_does(op: str, direction: str) -> None:
    attributes = {"hidden_size": 3, "direction": direction, "clip": 0.8}
    inputs = operands(op, attributes, sequence_lens=np.array([5, 0, 2], np.int32))
    outputs = ["Y", "Y_h"] + (["Y_c"] if op == "LSTM" else [])
    model = node_model(op, inputs, attributes, outputs=outputs, dtype=np.float32)
    feeds = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in inputs.items() if a is not None}
    for got, expected in zip(Runner(model)(feeds), run(op, inputs, attributes), strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-6)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("of", ["Y", "Y_h", "Y_c"])
def test_directions_and_outputs(op: str, direction: str, of: str) -> None:
    attributes = {"direction": direction}
    if of != "Y_c" or op == "LSTM":
        check(op, attributes, operands(op, attributes), of=[of])


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("shapes", ["dynamic", "unranked"])
def test_shapes_known_at_run_time(op: str, shapes: str) -> None:
    attributes = {"direction": "bidirectional"}
    check(op, attributes, operands(op, attributes), shapes)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_without_bias_and_states(op: str, direction: str) -> None:
    attributes = {"direction": direction}
    left_out = {"B": None, "initial_h": None} | ({"initial_c": None} if op == "LSTM" else {})
    check(op, attributes, operands(op, attributes, **left_out))


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [[5, 2, 3], [1, 0, 4]])
def test_sequence_lengths(op: str, direction: str, lengths: list[int]) -> None:
    attributes = {"direction": direction}
    check(op, attributes, operands(op, attributes, sequence_lens=np.array(lengths, np.int32)), "batch")


@pytest.mark.parametrize("op", OPERATORS)
def test_what_padding_holds_does_not_matter(op: str) -> None:
    attributes = {"direction": "bidirectional", "hidden_size": 3}
    inputs = operands(op, attributes, sequence_lens=np.array([5, 2, 3], np.int32))
    model = node_model(op, inputs, attributes, outputs=["Y", "Y_h"], dtype=np.float32)
    feeds = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in inputs.items() if a is not None}
    cotangent = np.ones((5, 2, 3, 3), np.float32)
    clean = gradients_of(model, feeds, "Y", ["X", "W", "R"], cotangent)
    padded = feeds["X"].copy()
    padded[2:, 1] = np.nan
    found = gradients_of(model, {**feeds, "X": padded}, "Y", ["X", "W", "R"], cotangent)
    for name, expected in clean.items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_layout_with_the_batch_first(op: str, direction: str) -> None:
    attributes = {"direction": direction, "layout": 1}
    check(op, attributes, operands(op, attributes))


@pytest.mark.parametrize("op", OPERATORS)
def test_clip(op: str) -> None:
    check(op, {"clip": 0.7}, operands(op, {}))


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(op: str, name: str) -> None:
    count = len(DEFAULTS[op])
    attributes: Arrays = {"activations": [name] * count}
    if name.lower() in ALPHA:
        attributes["activation_alpha"] = [0.4] * count
    if name.lower() in BETA:
        attributes["activation_beta"] = [0.3] * count
    check(op, attributes, operands(op, attributes, seed=3, size=0.2), of=["Y"])


@pytest.mark.parametrize("op", OPERATORS)
def test_activations_of_each_direction(op: str) -> None:
    count = len(DEFAULTS[op])
    forward, reverse = ["ScaledTanh", "Softplus", "LeakyRelu"], ["Elu", "Affine", "Softsign"]
    attributes = {
        "direction": "bidirectional",
        "activations": forward[:count] + reverse[:count],
        "activation_alpha": [0.9, 0.3, 0.7, 0.6],
        "activation_beta": [0.8, 0.2],
    }
    if op == "RNN":
        attributes["activation_alpha"] = [0.9, 0.7]
    if op == "GRU":
        attributes["activation_alpha"] = [0.9, 0.7, 0.6]
    check(op, attributes, operands(op, attributes, seed=4, size=0.2), of=["Y"])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [None, [4, 0, 2]])
def test_lstm_peepholes(direction: str, lengths: list[int] | None) -> None:
    attributes = {"direction": direction, "clip": 1.5}
    lens = None if lengths is None else np.array(lengths, np.int32)
    check("LSTM", attributes, operands("LSTM", attributes, P=True, sequence_lens=lens))


@pytest.mark.parametrize("peepholes", [None, True])
def test_lstm_with_coupled_forget_gate(peepholes: bool | None) -> None:
    attributes = {"input_forget": 1}
    check("LSTM", attributes, operands("LSTM", attributes, P=peepholes))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [None, [4, 0, 2]])
def test_gru_linear_before_reset(direction: str, lengths: list[int] | None) -> None:
    attributes = {"direction": direction, "linear_before_reset": 1}
    lens = None if lengths is None else np.array(lengths, np.int32)
    check("GRU", attributes, operands("GRU", attributes, sequence_lens=lens))


@pytest.mark.parametrize("op", OPERATORS)
def test_only_the_final_state_is_an_output_of_the_node(op: str) -> None:
    inputs = operands(op, {})
    model = node_model(op, inputs, {"hidden_size": 3}, outputs=["", "Y_h"], dtype=np.float32)
    del model.graph.output[0]
    whole = node_model(op, inputs, {"hidden_size": 3}, outputs=["Y", "Y_h"], dtype=np.float32)
    feeds = {n: a.astype(np.float32) for n, a in inputs.items() if a is not None}
    cotangent = np.ones((1, 3, 3), np.float32)
    found = gradients_of(model, feeds, "Y_h", ["X", "R"], cotangent)
    for name, expected in gradients_of(whole, feeds, "Y_h", ["X", "R"], cotangent).items():
        np.testing.assert_array_equal(found[name], expected)


def test_a_default_on_which_runtimes_differ_is_refused() -> None:
    model = node_model("RNN", operands("RNN", {}), {"hidden_size": 3, "activations": ["Affine"]}, outputs=["Y"])
    with pytest.raises(UnsupportedOperatorError, match="activation_alpha"):
        onnx_ig.add_gradients(model, of="Y", wrt="X")


@pytest.mark.parametrize("op", OPERATORS)
def test_the_file_does_not_grow_with_the_length(op: str) -> None:
    inputs = operands(op, {})
    longer = {**inputs, "X": np.zeros((500, 3, 4))}
    models = [node_model(op, i, {"hidden_size": 3}, outputs=["Y"], constants=["W", "R", "B"]) for i in (inputs, longer)]
    sizes = [onnx_ig.add_gradients(m, of="Y", wrt="X").ByteSize() for m in models]
    assert abs(sizes[0] - sizes[1]) < 200
    assert all(isinstance(m, onnx.ModelProto) for m in models)
