"""Bringing old opsets up to the oldest that rules are written for.

The adapters are our own: `onnx.version_converter` drops model-local functions, needs a copy without weights, loses the
coordinate mode of Upsample and Resize-10, and breaks BatchNormalization with spatial=0, Hardmax-11 and
GroupNormalization.

What changed between opset 1 and 20, by the operator changelog (`onnx.defs.get_all_schemas_with_history`; a test walks
it and asks that every incompatible step is named in one of the two lists):

    until 2   Pad `paddings`; LpPool, GlobalLpPool float `p`; Split sizes of the data's type
    until 4   Concat without axis
    until 5   Reshape `shape`
    until 6   Cast to the name of a type; Tile along one axis; Selu constants; `consumed_inputs` of 23 operators
    until 7   Add, Sub, Mul, Div, Pow, And, Or, Xor, Equal, Greater, Less `axis`; PRelu slope; Gemm `broadcast`;
              RNN, GRU, LSTM `output_sequence`; BatchNormalization and Dropout `is_test`
    until 9   BatchNormalization `spatial`; Scan's batch axis; MeanVarianceNormalization (experimental form)
    until 10  Slice attributes; TopK `k`; Upsample (removed); what ONNX Runtime keeps of the experimental operators:
              Affine, Crop, DynamicSlice, ImageScaler, ParametricSoftplus, Scale, ScaledTanh
    until 11  Clip bounds; Pad attributes; Resize coordinates; Scatter (renamed)
    until 12  Dropout `ratio`
    until 13  Softmax, LogSoftmax, Hardmax flatten; ReduceSum, Squeeze, Unsqueeze `axes`; Split `split`
    until 14  BatchNormalization training outputs
    until 16  RoiAlign half-pixel shift
    until 18  the other Reduce operators' `axes`; Split without sizes
    until 20  DFT `axis`; GridSample `mode` names
    until 21  GroupNormalization, whose scale and bias are one a group up to 20: written out, so that the operator of
              that name always has one a channel

What only widened, and needs nothing: new element types everywhere; operands that broadcast (Max, Min, Mean, Sum, Gemm,
PRelu); negative axes and indices; new attributes whose default is the old behaviour (AveragePool `count_include_pad`,
`ceil_mode`, `dilations`; MaxPool and LpPool alike; ArgMax, ArgMin `select_last_index`; Cast `saturate`; DepthToSpace
`mode`; GatherND `batch_dims`; RNN, GRU, LSTM `layout`; QuantizeLinear, DequantizeLinear `axis`; Reshape `allowzero`;
Resize `antialias`, `axes`, `keep_aspect_ratio_policy`; Scatter* `reduction`; Shape `start`, `end`; TopK `largest`,
`sorted`); optional operands that became so (Gemm C, Resize roi and scales, OptionalHasElement); OneHot's negative
indices, which ONNX Runtime always counted from the end. LayerNormalization and SimplifiedLayerNormalization below
opset 17, which ONNX Runtime's optimiser writes, mean the same afterwards.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_ig.errors import ModelError
from onnx_ig.graph.names import Names
from onnx_ig.graph.types import infer
from onnx_ig.graph.upgrade import meanings, normalization, operands, removed, resize, scan
from onnx_ig.graph.upgrade.adapter import ADAPTERS, FOREVER, Adapter, Inserter, Old, adapter

__all__ = [
    "ADAPTERS",
    "FOREVER",
    "OLDEST",
    "adapter",
    "meanings",
    "normalization",
    "operands",
    "removed",
    "resize",
    "scan",
    "upgrade",
]

OLDEST = 20
_IN_PLACE_GONE = 6
_RANKS_KNOWN = 7  # below, onnx infers next to nothing: the first step goes there, so that the second one sees ranks


def upgrade(model: ir.Model) -> None:
    """Bring every node of `model` to one opset, 20 at least, in place.

    Functions must have been inlined; `node.version` says what each standard node was written for (`inline` leaves it
    so), else the model's own opset import. Nodes of other domains stay as they are.

    Raises ModelError where an opset is newer than the installed onnx knows, or a node has no counterpart.
    """
    nodes = [n for n in _nodes(model) if n.domain == ""]
    declared = model.opset_imports.get("")
    for node in nodes:
        node.version = node.version or declared
    versions = {n.version for n in nodes if n.version is not None} | {declared or OLDEST}
    known = onnx.defs.onnx_opset_version()
    if max(versions) > known:
        raise ModelError(
            f"the model is of opset {max(versions)} and onnx {onnx.__version__} knows opsets up to {known}; "
            "install a newer onnx"
        )
    target = max(OLDEST, *versions)
    for step in (_RANKS_KNOWN, target):
        pending = {node for node in nodes if _adapters(node, step, target)}
        if pending and len(versions) == 1:
            infer(model)
        if pending:
            _bring(model, pending, step, target)
        for node in nodes:
            node.version = max(node.version or 0, step)
        versions = {max(version, step) for version in versions}
        model.opset_imports[""] = max(step, *versions)
    for node in _nodes(model):
        node.version = None


def _adapters(node: ir.Node, step: int, target: int) -> list[Adapter]:
    version = node.version or 0
    found = [f for until, f in ADAPTERS.get(node.op_type, ()) if version < until and (until <= step or step == target)]
    if version < _IN_PLACE_GONE and "consumed_inputs" in node.attributes:
        found.append(_not_in_place)
    return found


def _not_in_place(o: Old) -> None:
    """Which operands an operator might overwrite, a hint that opset 6 did away with."""
    o.take("consumed_inputs")


def _bring(model: ir.Model, pending: set[ir.Node], step: int, target: int) -> None:
    names = Names(model)
    for graph in list(model.graphs()):  # Scan-8 moves its body a level down
        op = Inserter(graph, names, target)
        for node in list(graph):
            for function in _adapters(node, step, target) if node in pending else ():
                if node.graph is graph:
                    function(Old(node, op))


def _nodes(model: ir.Model) -> list[ir.Node]:
    return [node for graph in model.graphs() for node in graph]
