"""Operators of ONNX Runtime's own domain and of classical machine learning."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.layers import leading
from onnx_ig.graph.batch.states import FREE, Mixes, Rows, State, batch_rule


@batch_rule(
    "Imputer", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "Scaler", "SVMClassifier",
    "SVMRegressor", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "ZipMap",
    domain="ai.onnx.ml",
)  # fmt: skip
def table(a: Analysis, node: ir.Node) -> State:
    """[N, features], each row for itself."""
    x = node.inputs[0]
    state = a.rows_of(x)
    if state.axis != 0 or (node.op_type != "OneHotEncoder" and a.rank(x) < 2):  # type: ignore[arg-type]
        raise Mixes("works across the rows")
    return state


@batch_rule("FeatureVectorizer", domain="ai.onnx.ml")
def feature_vectorizer(a: Analysis, node: ir.Node) -> State:
    """Columns side by side."""
    return leading(a, node, len(node.inputs))


@batch_rule("EmbedLayerNormalization", domain="com.microsoft")
def embed_layer_normalization(a: Analysis, node: ir.Node) -> Sequence[State]:
    """Token and segment ids [N, T], tables, mask (operand 7), position ids (8)."""
    ids, segments, *rest = node.inputs
    tables, given = rest[:5], [v for v in (segments, *rest[5:]) if v is not None]
    state = a.rows_of(ids, *tables)
    for value in given:
        if not a.free(value):
            state = a.same(state, a.rows_of(value))
        elif not a.even(value, 0) or value is segments:
            raise Mixes(f"pairs rows with entries of {value.name!r}")
    return [state] * len(node.outputs)


@batch_rule("Attention", domain="com.microsoft")
@batch_rule("MultiHeadAttention", domain="com.microsoft")
def fused_attention(a: Analysis, node: ir.Node) -> Sequence[State]:
    """Operands that lead with the rows, and parameters; `past` of Attention has the rows on axis 1."""
    single = node.op_type == "Attention"
    parameters = (1, 2) if single else (3,)
    bias = 5
    found: Rows | None = None
    for index, value in enumerate(node.inputs):
        state = a.state(value)
        if value is None or (index in parameters and state == FREE):
            continue
        if index in parameters:
            raise Mixes(f"takes {value.name!r} from the rows")
        if state == FREE:
            if index != bias or a.dims(value)[0].known != 1:
                raise Mixes(f"pairs rows with entries of {value.name!r}")
            continue
        rows = a.rows_of(value)
        found = a.same(found, rows.at(rows.axis - (single and index == 4)))
    if found is None or found.axis != 0 or not found.plain:
        raise Mixes("works across the rows")
    return [found, *[found.at(1) if single else found] * (len(node.outputs) - 1)]


@batch_rule("RotaryEmbedding", domain="com.microsoft")
def rotary_embedding(a: Analysis, node: ir.Node) -> State:
    """Position ids are [N, T], or one offset for all."""
    x, positions, *caches = node.inputs
    state = a.rows_of(x, *caches)
    if state.axis != 0:
        raise Mixes("works across the rows")
    if not a.free(positions):
        return a.same(state, a.rows_of(positions))
    if positions is not None and a.dims(positions)[0].known != 1:
        raise Mixes(f"pairs rows with entries of {positions.name!r}")
    return state
