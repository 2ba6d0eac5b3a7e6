"""Layers of networks: convolutions, pools, normalisations, reductions, recurrences, attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_ig.graph.batch.analysis import Analysis
from onnx_ig.graph.batch.states import FREE, Mixes, Rows, State, batch_rule
from onnx_ig.graph.sizes import ONE, Size, product


def leading(a: Analysis, node: ir.Node, count: int = 1) -> Rows:
    """The state of operators whose first `count` operands have the rows first and whose others do not depend on them."""
    found: Rows | None = None
    for value in node.inputs[:count]:
        if value is None:
            continue
        if a.free(value):
            raise Mixes(f"pairs rows with entries of {value.name!r}")
        found = a.same(found, a.rows_of(value))
    if not a.free(*node.inputs[count:]):
        raise Mixes("takes a parameter from the rows")
    if found is None or found.axis != 0:
        raise Mixes("works across the rows")
    return found


@batch_rule(
    "AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalLpPool",
    "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN", "LpPool", "QLinearConv", "SpaceToDepth",
    "STFT",
)  # fmt: skip
@batch_rule(
    "NhwcConv", "NhwcMaxPool", "GroupNorm", "QLinearAveragePool", "QLinearGlobalAveragePool", domain="com.microsoft"
)
@batch_rule(
    "AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput", "Upsample",
    domain="com.microsoft.nchwc",
)  # fmt: skip
def spatial(a: Analysis, node: ir.Node) -> State:
    """[N, C, ...], each sample for itself; parameters do not depend on the rows."""
    if node.domain == "com.microsoft.nchwc" and len(node.inputs) > 3 and node.inputs[3] is not None:
        return a.same(leading(a, _first(node, 3)), a.rows_of(node.inputs[3]))
    return leading(a, node)


def _first(node: ir.Node, count: int) -> ir.Node:
    return ir.Node(node.domain, node.op_type, node.inputs[:count])


@batch_rule("FusedConv", "NhwcFusedConv", domain="com.microsoft")
def fused_conv(a: Analysis, node: ir.Node) -> State:
    """A convolution that adds its fourth operand."""
    x, *weights = node.inputs
    state = a.rows_of(x, *weights[:2])
    added = weights[2] if len(weights) > 2 else None
    if state.axis != 0:
        raise Mixes("works across the rows")
    return state if added is None else a.same(state, a.rows_of(added))


@batch_rule("MaxPool")
def max_pool(a: Analysis, node: ir.Node) -> Sequence[State]:
    """The indices count positions over the whole batch; only MaxUnpool may read them."""
    state = leading(a, node)
    return state, Rows(0, state.before, state.per, offsets=True)


@batch_rule("MaxUnpool")
def max_unpool(a: Analysis, node: ir.Node) -> State:
    """Puts entries back to where the indices say: into the same row, where a row has as many places as when pooled."""
    x, indices, *shape = node.inputs
    state, other, source = a.rows_of(x), a.state(indices), _pooled(indices)
    fits = source is not None and product(a.dims(source)[1:]) == product(a.dims(node.outputs[0])[1:])
    if not isinstance(other, Rows) or not other.offsets or shape or state.axis or not fits:
        raise Mixes("puts entries where they are not known to belong to the same row")
    return a.same(state, replace(other, offsets=False))


def _pooled(indices: ir.Value | None) -> ir.Value | None:
    """What a MaxPool gave `indices` for."""
    node = None if indices is None else indices.producer()
    while node is not None and node.op_type in ("Cast", "Identity") and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node.inputs[0] if node is not None and node.op_type == "MaxPool" else None


@batch_rule("GridSample", "DeformConv")
def sampled(a: Analysis, node: ir.Node) -> State:
    """Grid or offsets (and mask) have a sample for each of the data's."""
    if node.op_type == "GridSample":
        return leading(a, node, 2)
    x, weight, offset, *rest = node.inputs
    if not a.free(weight, *rest[:1]):
        raise Mixes("takes a parameter from the rows")
    state = a.same(a.rows_of(x), a.rows_of(offset))
    state = state if len(rest) < 2 or rest[1] is None else a.same(state, a.rows_of(rest[1]))
    if state.axis != 0:
        raise Mixes("works across the rows")
    return state


@batch_rule("BatchNormalization")
def batch_normalization(a: Analysis, node: ir.Node) -> State:
    """Fixed statistics, one a channel (axis 1); training takes them over the batch."""
    if node.attributes.get_int("training_mode", 0):
        raise Mixes("takes its statistics over the batch (training_mode)")
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    if state.axis == 1:
        raise Mixes("has statistics for every row")
    return state


@batch_rule("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(a: Analysis, node: ir.Node) -> State:
    """Over the axes from `axis` on."""
    x, *parameters = node.inputs
    state = a.rows_of(x, *parameters)
    (axis,) = a.positive([node.attributes.get_int("axis", -1)], x)
    if state.axis >= axis:
        raise Mixes("normalises over the rows")
    for value in parameters:
        _steady(a, x, value, state)
    return state


def _steady(a: Analysis, x: ir.Value | None, value: ir.Value | None, state: Rows) -> None:
    if value is None or x is None:
        return
    axis = state.axis - a.rank(x) + a.rank(value)
    if axis >= 0 and not a.even(value, axis):
        raise Mixes(f"pairs rows with entries of {value.name!r}")


@batch_rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(a: Analysis, node: ir.Node) -> State:
    """Over the last axis of the sum of two operands."""
    x, skip, *parameters = node.inputs
    if not a.free(*parameters):
        raise Mixes("takes a parameter from the rows")
    state = a.broadcast([x, skip])
    if not isinstance(state, Rows) or state.axis == a.rank(x) - 1:  # type: ignore[arg-type]
        raise Mixes("normalises over the rows")
    return state


@batch_rule("MeanVarianceNormalization")
def mean_variance_normalization(a: Analysis, node: ir.Node) -> State:
    """Over `axes`, [0, 2, 3] by default: the rows too."""
    state = a.rows_of(node.inputs[0])
    if state.axis in a.positive(node.attributes.get_ints("axes", (0, 2, 3)), node.inputs[0]):
        raise Mixes("normalises over the rows")
    return state


@batch_rule("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "CumSum", "CumProd")
def along(a: Analysis, node: ir.Node) -> State:
    """Along one axis."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    axes = a.integers(node.inputs[1]) if len(node.inputs) > 1 else [node.attributes.get_int("axis", -1)]
    if axes is None or state.axis in a.positive(axes, node.inputs[0]):
        raise Mixes("works along the rows' axis")
    return state


@batch_rule("BiasSoftmax", domain="com.microsoft")
def bias_softmax(a: Analysis, node: ir.Node) -> State:
    """Over the axes from `axis` on, of the sum of both operands."""
    state = a.broadcast(node.inputs)
    (axis,) = a.positive([node.attributes.get_int("axis", 1)], node.inputs[0])
    if not isinstance(state, Rows) or state.axis >= axis:
        raise Mixes("works along the rows' axis")
    return state


@batch_rule(
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
def reduced(a: Analysis, node: ir.Node) -> State:
    """Over `axes`; all of them where none is given."""
    x, axes = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    state = a.rows_of(x, axes)
    chosen = [] if axes is None else a.integers(axes)
    if chosen is None:
        raise Mixes("reduces axes that are not known before it runs")
    if not chosen:
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return state
        raise Mixes("reduces over the rows")
    return _without(a, x, state, chosen, bool(node.attributes.get_int("keepdims", 1)))


@batch_rule("ArgMax", "ArgMin")
def arg_extreme(a: Analysis, node: ir.Node) -> State:
    """Along one axis, which goes or becomes 1."""
    state = a.rows_of(node.inputs[0])
    axis = node.attributes.get_int("axis", 0)
    return _without(a, node.inputs[0], state, [axis], bool(node.attributes.get_int("keepdims", 1)))


def _without(a: Analysis, x: ir.Value | None, state: Rows, axes: Sequence[int], kept: bool) -> State:
    axes = a.positive(axes, x)
    if state.axis in axes:
        raise Mixes("reduces over the rows")
    return state if kept else state.at(state.axis - sum(axis < state.axis for axis in axes))


@batch_rule("TopK")
def top_k(a: Analysis, node: ir.Node) -> State:
    """The largest along one axis."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    if state.axis in a.positive([node.attributes.get_int("axis", -1)], node.inputs[0]):
        raise Mixes("compares rows")
    return state


@batch_rule("DFT")
def dft(a: Analysis, node: ir.Node) -> State:
    """Along one axis."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    given = node.inputs[2] if len(node.inputs) > 2 else None
    axes = [-2] if given is None else a.integers(given)
    if axes is None or state.axis in a.positive(axes, node.inputs[0]):
        raise Mixes("works along the rows' axis")
    return state


@batch_rule("RNN", "GRU", "LSTM")
def recurrent(a: Analysis, node: ir.Node) -> Sequence[State]:
    """X [T, N, I] (layout 0) or [N, T, I] (1); the states have the rows on axis 1 or 0, the lengths on axis 0."""
    layout = node.attributes.get_int("layout", 0)
    x, weights = node.inputs[0], [*node.inputs[1:4], *node.inputs[7:8]]
    state = a.rows_of(x, *weights)
    if state.axis != 1 - layout:
        raise Mixes("runs along the rows")
    for index, axis in ((4, 0), (5, 1 - layout), (6, 1 - layout)):
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is None:
            continue
        if a.free(value):
            if a.taken_as_rows(value, axis) is not None:
                continue
            raise Mixes(f"pairs rows with entries of {value.name!r}")
        state = a.same(state.at(axis), a.rows_of(value)).at(state.axis)
    return [state.at(0 if layout else 2), state.at(1 - layout), state.at(1 - layout)][: len(node.outputs)]


@batch_rule("Resize")
def resize(a: Analysis, node: ir.Node) -> State:
    """The rows' axis must keep its length."""
    x, scales, sizes = node.inputs[0], *((*node.inputs, None, None)[2:4])
    state = a.rows_of(x)
    axes = node.attributes.get_ints("axes")
    places = list(range(a.rank(x))) if axes is None else a.positive(axes, x)
    if not a.free(node.inputs[1] if len(node.inputs) > 1 else None):
        raise Mixes("takes a region from the rows")
    for value, kept in ((scales, ONE), (sizes, state.length)):
        numbers = a.numbers(value)
        if value is None or (numbers is not None and not numbers.elements):
            continue
        if numbers is None and (not a.free(value) or state.axis in places):
            raise Mixes("changes the rows' axis, as far as can be told")
        for axis, size in zip(places, numbers.elements if numbers else (), strict=False):
            if axis == state.axis and (size is None or size.at(a.rows) != kept.at(a.rows)):
                raise Mixes("changes the rows' axis")
            if axis != state.axis and (size is None or size.open):
                raise Mixes("has sizes that depend on the rows")
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch" and state.axis in places:
        raise Mixes("changes the rows' axis, as far as can be told")
    return state


@batch_rule("AffineGrid")
def affine_grid(a: Analysis, node: ir.Node) -> State:
    """[N, 2, 3] and a size that starts with N."""
    state, size = a.rows_of(node.inputs[0]), a.numbers(node.inputs[1])
    if (
        state.axis != 0
        or size is None
        or size.elements[0] is None
        or size.elements[0].at(a.rows) != state.length.at(a.rows)
    ):
        raise Mixes("has a size that is not known to be the rows'")
    if any(e is None or e.open for e in size.elements[1:]):
        raise Mixes("has sizes that depend on the rows")
    return state


@batch_rule("ReverseSequence")
def reverse_sequence(a: Analysis, node: ir.Node) -> State:
    """Along `time_axis`, a length for each entry of `batch_axis`."""
    x, lengths = node.inputs[0], node.inputs[1]
    if a.free(x):
        raise Mixes("reverses by lengths from the rows")
    state = a.rows_of(x)
    time, batch = node.attributes.get_int("time_axis", 0), node.attributes.get_int("batch_axis", 1)
    steady = lengths is not None and a.free(lengths)
    if state.axis == time or (steady and state.axis == batch and a.taken_as_rows(lengths, 0) is None):  # type: ignore[arg-type]
        raise Mixes("works along the rows' axis")
    return state if a.free(lengths) else a.same(state, a.rows_of(lengths).at(batch))


@batch_rule("OneHot")
def one_hot(a: Analysis, node: ir.Node) -> State:
    """A new axis."""
    state = a.rows_of(node.inputs[0], *node.inputs[1:])
    (axis,) = a.positive([node.attributes.get_int("axis", -1)], node.inputs[0], more=1)
    return state.at(state.axis + (axis <= state.axis))


@batch_rule("Attention", "RotaryEmbedding")
def attention(a: Analysis, node: ir.Node) -> State:
    """Queries, keys, values and caches lead with the rows; the mask broadcasts to [N, H, Tq, Tk]."""
    found: Rows | None = None
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        state = a.state(value)
        if state == FREE:
            _steady_mask(a, node, index, value)
            continue
        moving = a.rows_of(value)
        shift = 4 - a.rank(value) if node.op_type == "Attention" and index == 3 else 0
        found = a.same(found, moving.at(moving.axis + shift))
    if found is None or found.axis != 0:
        raise Mixes("works across the rows")
    return found


def _steady_mask(a: Analysis, node: ir.Node, index: int, value: ir.Value) -> None:
    mask = node.op_type == "Attention" and index == 3
    if mask and (a.rank(value) < 4 or a.dims(value)[0] == Size(1)):
        return
    if node.op_type == "RotaryEmbedding" and index in (1, 2) and a.rank(value) == 2:
        return
    raise Mixes(f"pairs rows with entries of {value.name!r}")
