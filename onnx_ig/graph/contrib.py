"""Element types and shapes of ONNX Runtime's own operators, for which onnx has no inference.

Files saved by ONNX Runtime's optimiser hold them (fused attention, GELU, skip connections). Only what the operators'
schemas promise is said: a wrong type in a file makes it unloadable, a missing one does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

__all__ = ["runtime_outputs"]

Output = tuple["ir.TypeProtocol | None", "ir.Shape | None"]
Dims = list["int | ir.SymbolicDim"]

_DOMAINS = frozenset({"com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"})
_SAME_SHAPE = frozenset(
    {
        "BiasAdd",
        "BiasDropout",
        "BiasGelu",
        "BiasSoftmax",
        "FastGelu",
        "GatedRelativePositionBias",
        "Gelu",
        "GroupNorm",
        "Inverse",
        "LayerNormalization",
        "NGramRepeatBlock",
        "QLinearLeakyRelu",
        "QLinearSigmoid",
        "QLinearSoftmax",
        "QuickGelu",
        "RotaryEmbedding",
        "ScaledSiLU",
        "SimplifiedLayerNormalization",
        "SkipGroupNorm",
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "DequantizeLinear",
        "QuantizeLinear",
        "Trilu",
        "QOrderedGelu",
    }
)
_PRODUCTS = frozenset(
    {
        "DynamicQuantizeMatMul",
        "FusedMatMul",
        "FusedMatMulActivation",
        "MatMulInteger16",
        "MatMulIntegerToFloat",
        "TransposeMatMul",
    }
)
_TYPE_OPERANDS: dict[str, tuple[int | None, ...]] = {
    "DequantizeLinear": (1,),
    "DynamicQuantizeLSTM": (0, 0, 0),
    "EmbedLayerNormalization": (2, 0, 2),
    "GatherBlockQuantized": (2,),
    "LayerNormalization": (1,),
    "MatMulIntegerToFloat": (2,),
    "QAttention": (2, 2),
    "QLinearConcat": (1,),
    "QLinearWhere": (1,),
    "QuantizeLinear": (2,),
    "SimplifiedLayerNormalization": (1,),
    "SkipLayerNormalization": (0, None, None, 0),
    "SkipSimplifiedLayerNormalization": (0, None, None, 0),
    "WordConvEmbedding": (1,),
}
"""For each output the operand whose element type it has; None: not said by an operand. Others: (0,)."""
_NOT_THE_FIRST = frozenset(
    {
        "BeamSearch",
        "DynamicTimeWarping",
        "DequantizeBFP",
        "EPContext",
        "GatherPacked",
        "GemmFloat8",
        "GreedySearch",
        "GridSample",
        "IsAllFinite",
        "MatMulInteger16",
        "MulInteger",
        "MurmurHash3",
        "QEmbedLayerNormalization",
        "QGemm",
        "QLinearConv",
        "QuantizeBFP",
        "QuantizeWithOrder",
        "DequantizeWithOrder",
        "ReduceSumInteger",
        "RMSNormRotary",
        "Sampling",
        "Snpe",
        "SparseToDenseMatMul",
        "Tokenizer",
        "WhisperBeamSearch",
        "PackedSparseAttentionIndexer",
        "SparseAttentionIndexer",
    }
)
_ALL_LIKE_FIRST = frozenset(
    {
        "AttnLSTM",
        "Attention",
        "DecoderAttention",
        "DecoderMaskedSelfAttention",
        "SkipGroupNorm",
        "GroupQueryAttention",
        "MultiHeadAttention",
        "SparseAttention",
    }
)


def runtime_outputs(node: ir.Node) -> list[Output] | None:
    """Type and shape of each output of a node, as far as its operands tell; None for operators not known here."""
    if node.domain == "ai.onnx.ml":
        return _table(node)
    standard = node.domain == "" and node.op_type in ("LayerNormalization", "SimplifiedLayerNormalization")
    if not standard and (node.domain not in _DOMAINS or node.op_type in _NOT_THE_FIRST):
        return None
    first = 0 if node.op_type in _ALL_LIKE_FIRST else None
    default = (0, *(first,) * (len(node.outputs) - 1))
    operands = _TYPE_OPERANDS.get(node.op_type, default)
    types = [_dtype(node, operands[i]) if i < len(operands) else None for i in range(len(node.outputs))]
    shapes: list[ir.Shape | None] = [None] * len(node.outputs)
    if node.domain != "com.microsoft.nchwc":
        shape = _SHAPES.get(node.op_type, _like_first if node.op_type in _SAME_SHAPE else None)
        for index, dims in enumerate(shape(node) if shape else ()):
            if index < len(shapes) and dims is not None:
                shapes[index] = ir.Shape(dims)
    return [(ir.TensorType(t) if t is not None else None, s) for t, s in zip(types, shapes, strict=True)]


def _table(node: ir.Node) -> list[Output] | None:
    """Tables [N, features], whose shapes onnx does not infer; element types it does."""
    dims = _dims(node, 0)
    if dims is None or node.outputs[0].shape is not None:
        return None
    if node.op_type in ("Scaler", "Normalizer", "Binarizer", "Imputer", "LabelEncoder"):
        return [(node.outputs[0].type, ir.Shape(dims))]
    if len(dims) == 2 and node.op_type.endswith("Classifier"):
        return [(v.type, ir.Shape([dims[0], None] if i else dims[:1])) for i, v in enumerate(node.outputs)]
    if len(dims) == 2 and node.op_type.endswith("Regressor"):
        return [(node.outputs[0].type, ir.Shape([dims[0], None]))]
    return None


def _dtype(node: ir.Node, index: int | None) -> ir.DataType | None:
    if index is None or index >= len(node.inputs):
        return None
    value = node.inputs[index]
    return None if value is None else value.dtype


def _dims(node: ir.Node, index: int) -> Dims | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None or value.shape is None else list(value.shape)


def _integer(node: ir.Node, name: str, default: int = 0) -> int:
    return node.attributes.get_int(name, default) or default


def _like_first(node: ir.Node) -> Sequence[Dims | None]:
    dims = _dims(node, 0)
    if "LayerNormalization" in node.op_type and node.domain:  # the fourth output is the sum ahead of the norm
        return dims, None, None, dims
    return dims, dims if node.op_type == "SkipGroupNorm" else None


def _product(node: ir.Node) -> Sequence[Dims | None]:
    a, b = _dims(node, 0), _dims(node, 1)
    if a is None or b is None or len(a) < 2 or len(b) < 2 or node.attributes.keys() & {"transBatchA", "transBatchB"}:
        return (None,)
    rows = a[-1] if _integer(node, "transA") else a[-2]
    columns = b[-2] if _integer(node, "transB") else b[-1]
    outer = a[:-2] if len(b) == 2 else b[:-2] if len(a) == 2 else _broadcast(a[:-2], b[:-2])
    return (None if outer is None else [*outer, rows, columns],)


def _broadcast(a: Dims | None, b: Dims | None) -> Dims | None:
    if a is None or b is None:
        return None
    length = max(len(a), len(b))
    a, b = [*[1] * (length - len(a)), *a], [*[1] * (length - len(b)), *b]
    dims: Dims = []
    for p, q in zip(a, b, strict=True):
        if q == 1 or p == q:
            dims.append(p)
        elif p == 1:
            dims.append(q)
        elif isinstance(p, int) or isinstance(q, int):
            dims.append(p if isinstance(p, int) else q)
        else:
            dims.append(ir.SymbolicDim(None))
    return dims


def _quantised_sum(node: ir.Node) -> Sequence[Dims | None]:
    return (_broadcast(_dims(node, 0), _dims(node, 3)),)


def _attention(node: ir.Node) -> Sequence[Dims | None]:
    x, bias = _dims(node, 0), _dims(node, 2)
    sizes = node.attributes.get_ints("qkv_hidden_sizes")
    if x is None or len(x) != 3:
        return (None,)
    if sizes:
        return ([*x[:2], sizes[2]],)
    if bias and isinstance(bias[0], int):
        return ([*x[:2], bias[0] // 3],)
    return (None,)


def _multi_head_attention(node: ir.Node) -> Sequence[Dims | None]:
    query, value = _dims(node, 0), _dims(node, 2)
    return ([*query[:2], value[2]] if query and value and len(query) == len(value) == 3 else None,)


def _embedding(node: ir.Node) -> Sequence[Dims | None]:
    ids, table = _dims(node, 0), _dims(node, 2)
    dims = [*ids, table[1]] if ids is not None and table is not None else None
    return dims, ids[:1] if ids else None, dims


def _lstm(node: ir.Node) -> Sequence[Dims | None]:
    x, hidden = _dims(node, 0), _integer(node, "hidden_size")
    if x is None or len(x) != 3 or not hidden:
        return (None,)
    directions = 2 if node.attributes.get_string("direction", "forward") == "bidirectional" else 1
    state: Dims = [directions, x[1], hidden]
    return [x[0], *state], state, state


_SHAPES: dict[str, Callable[[ir.Node], Sequence[Dims | None]]] = {
    **dict.fromkeys(_PRODUCTS, _product),
    "Attention": _attention,
    "DynamicQuantizeLSTM": _lstm,
    "EmbedLayerNormalization": _embedding,
    "MultiHeadAttention": _multi_head_attention,
    "QLinearAdd": _quantised_sum,
    "QLinearMul": _quantised_sum,
}
