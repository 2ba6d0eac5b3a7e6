"""Operators of the domain ai.onnx.ml and what `prepare` writes them out as, side by side in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto

from onnx_ig.graph.fused import REASON
from onnx_ig.graph.load import load
from onnx_ig.graph.prepare import prepare
from tests.graph.compare import assert_same
from tests.graph.test_fused import check, model_of, x

ML: dict[str, Any] = {"domain": "ai.onnx.ml"}
rng = np.random.default_rng(5)


def flat(*shape: int) -> list[float]:
    return [float(v) for v in rng.standard_normal(shape).astype(np.float32).ravel()]


def labelled(
    operator: str, attributes: dict[str, Any], given: np.ndarray, labels: int = 2, tolerance: float = 2e-6
) -> ir.Model:
    """Both outputs as they were, the label from the node itself."""
    attributes = {"classlabels_ints": list(range(labels)), **attributes}
    model, feeds = model_of(
        operator, {"x": given}, attributes, outputs=("label", "y"), types={"label": TensorProto.INT64}, **ML
    )
    prepared = assert_same(model, feeds, tolerance=tolerance)
    assert [n.op_type for n in prepared.graph if n.domain] == [operator]
    producer = prepared.graph.outputs[1].producer()
    assert producer is not None
    assert producer.domain == ""
    alone, _ = model_of(operator, {"x": given}, attributes, outputs=("label", "y"), **ML)
    del alone.graph.output[0]
    assert not any(n.domain for n in prepare(load(alone)).graph)
    return prepared


@pytest.mark.parametrize("given", [x(4, 3), rng.integers(0, 9, (4, 3)), rng.standard_normal((4, 3))])
def test_scaler(given: np.ndarray) -> None:
    check("Scaler", {"x": given}, {"offset": flat(3), "scale": flat(3)}, **ML)
    check("Scaler", {"x": given}, {"offset": [0.5], "scale": [2.0]}, **ML)


@pytest.mark.parametrize("replaced", [2.0, float("nan")])
@pytest.mark.parametrize("imputed", [[7.0], [7.0, 8.0, 9.0]])
def test_imputer(replaced: float, imputed: list[float]) -> None:
    given = np.array([[1, 2, 4], [2, 5, 6]], np.float32)
    if np.isnan(replaced):
        given[0, 2] = np.nan
    check("Imputer", {"x": given}, {"replaced_value_float": replaced, "imputed_value_floats": imputed}, **ML)


def test_imputer_of_integers() -> None:
    attributes = {"replaced_value_int64": 2, "imputed_value_int64s": [5]}
    check("Imputer", {"x": np.array([[1, 2], [2, 3]])}, attributes, types={"y": TensorProto.INT64}, **ML)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    given = np.concatenate([x(3, 4), np.zeros((1, 4), np.float32)])
    check("Normalizer", {"x": given}, {"norm": norm}, **ML)
    check("Normalizer", {"x": x(4)}, {"norm": norm}, **ML)


def test_feature_vectorizer() -> None:
    check("FeatureVectorizer", {"a": x(4, 3), "b": x(4, 2)}, {"inputdimensions": [3, 2]}, fed=2, **ML)
    check("FeatureVectorizer", {"a": x(4, 3), "b": x(4, 2)}, {"inputdimensions": [2, 2]}, fed=2, **ML)


@pytest.mark.parametrize("picked", [np.array([2, 0]), np.array([[1]])])
def test_array_feature_extractor(picked: np.ndarray) -> None:
    for given in (x(4, 3), x(3), x(2, 4, 3)):
        check("ArrayFeatureExtractor", {"x": given, "i": picked}, **ML)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear(post: str) -> None:
    given = x(4, 3)
    attributes = {"coefficients": flat(2, 3), "intercepts": flat(2), "post_transform": post}
    check("LinearRegressor", {"x": given}, {**attributes, "targets": 2}, **ML)
    labelled("LinearClassifier", attributes, given)
    three = {"coefficients": flat(3, 3), "intercepts": flat(3), "post_transform": post}
    labelled("LinearClassifier", three, given, 3)
    one = {"coefficients": flat(3), "intercepts": flat(1), "post_transform": post}
    labelled("LinearClassifier", one, given)


def test_linear_without_intercepts() -> None:
    check("LinearRegressor", {"x": x(4, 3)}, {"coefficients": flat(3)}, **ML)


PARAMETERS = {"kernel_type": "LINEAR", "kernel_params": [0.5, 0.2, 2.0]}
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_svm_regressor(kernel: str) -> None:
    attributes = {
        "coefficients": flat(5), "rho": flat(1), "support_vectors": flat(5, 3), "n_supports": 5,
        "kernel_type": kernel, "kernel_params": [0.5, 0.2, 2.0], "post_transform": "LOGISTIC",
    }  # fmt: skip
    check("SVMRegressor", {"x": x(4, 3)}, attributes, **ML)


def test_svm_regressor_without_vectors() -> None:
    check("SVMRegressor", {"x": x(4, 3)}, {"coefficients": flat(3), "rho": flat(1), **PARAMETERS}, **ML)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_svm_classifier(kernel: str, post: str) -> None:
    given = x(4, 3)
    common = {"kernel_type": kernel, "kernel_params": [0.5, 0.2, 2.0], "post_transform": post}
    two = {"coefficients": flat(5), "rho": flat(1), "support_vectors": flat(5, 3), "vectors_per_class": [2, 3]}
    labelled("SVMClassifier", {**common, **two}, given)
    labelled("SVMClassifier", {**common, **two, "prob_a": [-1.2], "prob_b": [0.3]}, given, tolerance=6e-3)
    three = {"coefficients": flat(2, 6), "rho": flat(3), "support_vectors": flat(6, 3), "vectors_per_class": [2, 1, 3]}
    labelled("SVMClassifier", {**common, **three}, given, 3)


def test_svm_classifier_without_vectors() -> None:
    labelled("SVMClassifier", {"coefficients": flat(3, 3), "rho": flat(3), **PARAMETERS}, x(4, 3), 3)


@pytest.mark.parametrize(
    ("operator", "attributes", "reason"),
    [
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "post_transform": "PROBIT"}, "PROBIT"),
        ("SVMRegressor", {"coefficients": [1.0, 2.0, 3.0], "rho": [0.0], "one_class": 1}, "one-class"),
        ("TreeEnsembleRegressor", {}, "piecewise constant"),
    ],
)
def test_what_stays_and_why(operator: str, attributes: dict[str, Any], reason: str) -> None:
    model, _ = model_of(operator, {"x": x(4, 3)}, attributes, **ML)
    (node,) = prepare(load(model)).graph
    assert reason in node.meta[REASON][0]
    assert node.meta[REASON][1]


def test_more_than_two_probabilities_stay() -> None:
    three = {
        "coefficients": flat(2, 6), "rho": flat(3), "support_vectors": flat(6, 3), "vectors_per_class": [2, 1, 3],
        "prob_a": flat(3), "prob_b": flat(3), "classlabels_ints": [0, 1, 2],
    }  # fmt: skip
    model, _ = model_of("SVMClassifier", {"x": x(4, 3)}, three, outputs=("label", "y"), **ML)
    (node,) = prepare(load(model)).graph
    assert "iteration" in node.meta[REASON][0]
