"""Support vector machines of the domain ai.onnx.ml.

Source: the operators' schemas, Chang & Lin, LIBSVM (section 8 for probabilities), and ONNX Runtime's CPU kernels, which
give a machine of two classes two columns.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_ig.graph.fused.linear import floats, posted
from onnx_ig.graph.fused.table import ML, Fused, Unexpanded, fused

_SCORES = "Export the model with raw scores, or explain it by perturbation."


@fused("SVMRegressor", domain=ML)
def svm_regressor(f: Fused) -> None:
    """sum_i coefficients_i * K(x, vector_i) + rho; ONNX Runtime applies no post_transform."""
    if int(f.attr("one_class", 0)):
        raise Unexpanded("a one-class machine gives 1 or -1, whose derivative is zero", _SCORES)
    coefficients, rho = _array(f, "coefficients"), _array(f, "rho")[:1]
    count = int(f.attr("n_supports", 0))
    x = floats(f, f.x)
    if not count:
        f.replace(f.op.Gemm(x, coefficients.reshape(-1, 1), rho))
        return
    kernel = _kernel(f, x, _array(f, "support_vectors").reshape(count, -1))
    f.replace(f.op.Gemm(kernel, coefficients.reshape(-1, 1), rho))


@fused("SVMClassifier", domain=ML)
def svm_classifier(f: Fused) -> None:
    """Decision values of every pair of classes, or probabilities of two classes; the label is the node's own."""
    f.stand_in(_scores(f), 1)


def _scores(f: Fused) -> ir.Value:
    x, rho, coefficients = floats(f, f.x), _array(f, "rho"), _array(f, "coefficients")
    each = [int(n) for n in f.attr("vectors_per_class", ())]
    if not each:
        return _linear(f, x, coefficients, rho)
    classes, total = len(each), sum(each)
    kernel = _kernel(f, x, _array(f, "support_vectors").reshape(total, -1))
    values = f.op.Gemm(kernel, _of_pairs(coefficients.reshape(classes - 1, total), each), rho)
    if len(f.attr("prob_a", ())):
        return posted(f, _probabilities(f, values, classes))
    if classes > 2:
        return posted(f, values)
    op, kind = f.op, f.attr("post_transform", "NONE")
    if kind == "NONE":
        return op.Concat(op.Neg(values), values, axis=1)
    if kind == "LOGISTIC":
        return op.Sigmoid(op.Concat(op.Neg(values), values, axis=1))
    return op.Concat(op.Sub(1.0, values), values, axis=1)


def _of_pairs(coefficients: np.ndarray, each: list[int]) -> np.ndarray:
    """[vectors, pairs]: what each vector adds to the decision between class i and class j > i."""
    starts = np.cumsum([0, *each])
    columns = []
    for i in range(len(each)):
        for j in range(i + 1, len(each)):
            column = np.zeros(int(starts[-1]), np.float32)
            own, other = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            column[own], column[other] = coefficients[j - 1, own], coefficients[i, other]
            columns.append(column)
    return np.stack(columns, axis=1)


def _probabilities(f: Fused, values: ir.Value, classes: int) -> ir.Value:
    """1 / (1 + exp(a * value + b)) of the first class. ONNX Runtime solves for it by iteration, to within 0.005."""
    if classes > 2:
        raise Unexpanded("probabilities of more than two classes are solved for by iteration", _SCORES)
    op = f.op
    first = op.Sigmoid(op.Neg(op.Add(op.Mul(values, _array(f, "prob_a")), _array(f, "prob_b"))))
    return op.Concat(first, op.Sub(1.0, first), axis=1)


def _linear(f: Fused, x: ir.Value, coefficients: np.ndarray, rho: np.ndarray) -> ir.Value:
    """Without vectors: one row of coefficients a class, and the first rho for all."""
    classes = len(f.attr("classlabels_ints", ()) or f.attr("classlabels_strings", ()))
    if f.attr("kernel_type", "LINEAR") != "LINEAR" or classes < 2:
        raise Unexpanded("it has neither vectors nor a linear kernel", "Check the file with onnx.checker.")
    return posted(f, f.op.Gemm(x, coefficients.reshape(classes, -1), rho[:1], transB=1))


def _kernel(f: Fused, x: ir.Value, vectors: np.ndarray) -> ir.Value:
    """K(x, v) for every vector v: [N, vectors]."""
    op, kind = f.op, f.attr("kernel_type", "LINEAR")
    gamma, shift, degree = (*_array(f, "kernel_params"), 0.0, 0.0, 0.0)[:3]
    if kind == "RBF":
        away = op.Sub(op.Unsqueeze(x, [1]), vectors)
        return op.Exp(op.Mul(op.ReduceSumSquare(away, [2], keepdims=0), -float(gamma)))
    products = op.Gemm(x, vectors, transB=1)
    if kind == "LINEAR":
        return products
    moved = op.Add(op.Mul(products, float(gamma)), float(shift))
    if kind == "POLY":
        return op.Pow(moved, np.float32(degree))
    if kind == "SIGMOID":
        return op.Tanh(moved)
    raise Unexpanded(f"its kernel {kind!r} is not known", "The file is not valid.")


def _array(f: Fused, name: str) -> np.ndarray:
    return np.asarray(f.attr(name, ()), np.float32)
