"""What scikit-learn's exporters write in the domain ai.onnx.ml: preparation of features and linear models.

Source: the operators' schemas and ONNX Runtime's CPU kernels (on the two classes of a single row of coefficients).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.emit import is_float
from onnx_ig.graph.fused.table import ML, Fused, Unexpanded, fused

__all__ = ["floats", "posted", "two_classes"]


def floats(f: Fused, x: ir.Value) -> ir.Value:
    """`x` in the type that the operators of this domain compute in, float32."""
    return f.cast(x, ir.DataType.FLOAT)


@fused("Scaler", domain=ML)
def scaler(f: Fused) -> None:
    """(x - offset) * scale, one entry a feature or one for all."""
    offset, scale = (np.asarray(f.attr(n, (d,)), np.float32) for n, d in (("offset", 0.0), ("scale", 1.0)))
    f.replace(f.op.Mul(f.op.Sub(floats(f, f.x), offset), scale))


@fused("Imputer", domain=ML)
def imputer(f: Fused) -> None:
    """`imputed` where x equals `replaced` (NaN equals NaN here), else x."""
    op, x = f.op, f.x
    if is_float(f.dtype(x)):
        old = float(f.attr("replaced_value_float", 0.0))
        new = np.asarray(f.attr("imputed_value_floats", ()), np.float32).astype(f.dtype(x).numpy())
    else:
        old = int(f.attr("replaced_value_int64", 0))
        new = np.asarray(f.attr("imputed_value_int64s", ()), f.dtype(x).numpy())
    if not new.size:
        raise Unexpanded("it has no imputed values", "The file is not valid.")
    found = op.IsNaN(x) if math.isnan(old) else op.Equal(x, np.asarray(old, f.dtype(x).numpy()))
    f.replace(op.Where(found, new, x))


@fused("Normalizer", domain=ML)
def normalizer(f: Fused) -> None:
    """x / max(x), x / sum(|x|) or x / sqrt(sum(x^2)) along axis 1 (0 of a vector); x where the divisor is 0."""
    op, x = f.op, floats(f, f.x)
    axes = [1 if f.ranked(f.x) > 1 else 0]
    norm = f.attr("norm", "MAX")
    if norm == "MAX":
        size = op.ReduceMax(x, axes, keepdims=1)
    elif norm == "L1":
        size = op.ReduceL1(x, axes, keepdims=1)
    elif norm == "L2":
        size = op.ReduceL2(x, axes, keepdims=1)
    else:
        raise Unexpanded(f"its norm {norm!r} is not known", "The file is not valid.")
    f.replace(op.Div(x, op.Where(op.Equal(size, 0.0), 1.0, size)))


@fused("FeatureVectorizer", domain=ML)
def feature_vectorizer(f: Fused) -> None:
    """The operands as floats [N, C] (a vector is one row), side by side, each cut or filled up to its dimension."""
    op, sizes, parts = f.op, f.attr("inputdimensions", ()), []
    for index, value in enumerate(f.node.inputs):
        if value is None:
            raise Unexpanded(f"its operand {index} is missing", "The file is not valid.")
        part = floats(f, value)
        if f.ranked(value) == 1:
            part = op.Unsqueeze(part, [0])
        wanted, given = int(sizes[index]) if index < len(sizes) else None, f.dim(value, -1)
        if wanted is not None and wanted != given:
            if given is None or given < wanted:
                part = op.Pad(part, [0, 0, 0, wanted - (given or 0)])
            part = op.Slice(part, [0], [wanted], [1])
        parts.append(part)
    f.replace(op.Concat(*parts, axis=1))


@fused("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(f: Fused) -> None:
    """Entries of the last axis; those of a vector become a matrix of one row."""
    picked = f.op.Gather(f.x, f.op.Reshape(f.need(1), [-1]), axis=-1)
    f.replace(f.op.Unsqueeze(picked, [0]) if f.ranked(f.x) == 1 else picked)


@fused("LinearRegressor", domain=ML)
def linear_regressor(f: Fused) -> None:
    """x @ coefficients^T + intercepts, transformed."""
    f.replace(posted(f, _scores(f, int(f.attr("targets", 1)))))


@fused("LinearClassifier", domain=ML)
def linear_classifier(f: Fused) -> None:
    """Scores x @ coefficients^T + intercepts, transformed; the label is the node's own."""
    count = len(f.attr("intercepts", ())) or None
    labels = len(f.attr("classlabels_ints", ()) or f.attr("classlabels_strings", ()))
    scores = _scores(f, count or labels)
    scores = two_classes(f, scores) if count == 1 and labels == 2 else posted(f, scores)
    f.stand_in(scores, 1)


def _scores(f: Fused, rows: int) -> ir.Value:
    weights = np.asarray(f.attr("coefficients"), np.float32).reshape(rows, -1)
    biases = np.asarray(f.attr("intercepts", ()), np.float32)
    x = floats(f, f.x)
    if f.ranked(f.x) == 1:
        x = f.op.Reshape(x, [1, -1])
    return f.op.Gemm(x, weights, biases if biases.size else None, transB=1)


def two_classes(f: Fused, score: ir.Value) -> ir.Value:
    """Scores [N, 2] from the one [N, 1] of the second class."""
    op, kind = f.op, f.attr("post_transform", "NONE")
    if kind == "PROBIT":
        raise Unexpanded("its post_transform PROBIT has no standard operator", "Explain the scores ahead of it.")
    if kind == "LOGISTIC":
        score = op.Sigmoid(score)
    return op.Concat(op.Sub(1.0, score), score, axis=1)


def posted(f: Fused, scores: ir.Value) -> ir.Value:
    """`post_transform` of scores [N, C]."""
    op, kind = f.op, f.attr("post_transform", "NONE")
    if kind == "LOGISTIC":
        return op.Sigmoid(scores)
    if kind == "SOFTMAX":
        return op.Softmax(scores, axis=-1)
    if kind == "SOFTMAX_ZERO":
        gone = op.LessOrEqual(op.Abs(scores), 1e-7)  # as ONNX Runtime tells zero
        shares = op.Softmax(op.Where(gone, -math.inf, scores), axis=-1)
        return op.Where(gone, 0.0, shares)
    if kind == "NONE":
        return scores
    raise Unexpanded(f"its post_transform {kind} has no standard operator", "Explain the scores ahead of it.")
