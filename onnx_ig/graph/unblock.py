"""Channels in blocks (NCHWc), as ONNX Runtime's optimiser lays them out at its highest level, put back in a row.

A file that was saved there holds convolutions of the domain com.microsoft.nchwc. Their weights are reordered for blocks of
as many channels as a register of the machine holds, which the file does not say and the runtime takes for granted: what
the file computes is what it computes on the machine that runs it, so the runtime here is asked. A file that was saved
for other blocks, where that shows, stays as it is and is refused.
Source: ONNX Runtime, core/optimizer/nchwc_transformer.cc and core/mlas/lib/reorder.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, helper

from onnx_ig.graph.fused.activations import activated
from onnx_ig.graph.fused.table import Fused
from onnx_ig.graph.names import Names
from onnx_ig.graph.upgrade.adapter import Inserter

__all__ = ["UNBLOCKED", "block_size", "unblock"]

DOMAIN = "com.microsoft.nchwc"


def unblock(model: ir.Model, block: int | None = None) -> bool:
    """Write all nodes of the blocked layout out in standard operators, in place; returns whether there were any.

    `block` is the number of channels of a block, None: what the runtime has here. Either all nodes are written out or none
    is: one that stayed would read what the others wrote in another order. Types must have been inferred.
    """
    nodes = [n for graph in model.graphs() for n in graph if n.domain == DOMAIN]
    block = (block or block_size()) if nodes else None
    if block is None or not all(n.op_type in UNBLOCKED and _fits(n, block) for n in nodes):
        return False
    names = Names(model)
    emitters: dict[ir.Graph, Inserter] = {}
    for node in nodes:
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        op = emitters.setdefault(graph, Inserter(graph, names, model.opset_imports[""]))
        f = Fused(node, op, model.opset_imports)
        f.replace(UNBLOCKED[node.op_type](f, block))
    return bool(nodes)


@cache
def block_size() -> int | None:
    """Channels of a block in ONNX Runtime on this machine: the place where it puts the second pixel of the first channel.

    None where it has no blocked layout, or is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64, 1, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("ReorderInput", ["x"], ["y"], domain=DOMAIN)], "g", ends[:1], ends[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    probe = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(probe.SerializeToString(), options, ["CPUExecutionProvider"])
        (y,) = session.run(None, {"x": np.arange(128, dtype=np.float32).reshape(1, 64, 1, 2)})
    except Exception:  # a build without these kernels says so in ways of its own
        return None
    place = int(np.flatnonzero(np.ravel(y) == 1)[0])
    return place if place > 1 else None


def _fits(node: ir.Node, block: int) -> bool:
    """Whether the node can be written out, and nothing about it speaks against blocks of this size."""
    if node.op_type != "Conv":
        return True
    dims = _dims(node)
    return dims is not None and not dims[0] % block and (dims[1] < block or not dims[1] % block)


def _dims(node: ir.Node) -> list[int] | None:
    """The dimensions that the file declares for the weights of a convolution."""
    weights = node.inputs[1]
    if weights is None or weights.shape is None or len(weights.shape) != 4:
        return None
    dims = [d for d in weights.shape if isinstance(d, int)]
    return dims if len(dims) == 4 else None


def _conv(f: Fused, block: int) -> ir.Value:
    """activation(Conv(x, w, b) + z) of weights in blocks.

    Output channels are blocked, [O/c, ..., c]. Input channels are too where there are as many as a block holds,
    [O/c, I/c, h, w, c, c]; else they stand in a row, [O/c, I, h, w, c]: few of them are read unblocked, and depthwise
    convolutions have one.
    """
    op = f.op
    dims = _dims(f.node)
    assert dims is not None
    out, into, height, width = dims
    if into < block:
        parts = op.Reshape(f.need(1), [out // block, into, height, width, block])
        weights = op.Reshape(op.Transpose(parts, perm=[0, 4, 1, 2, 3]), dims)
    else:
        parts = op.Reshape(f.need(1), [out // block, into // block, height, width, block, block])
        weights = op.Reshape(op.Transpose(parts, perm=[0, 5, 1, 4, 2, 3]), dims)
    own = {k: f.attr(k) for k in ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")}
    own = {
        k: v for k, v in own.items() if v is not None and not (k == "pads" and own["auto_pad"] not in (None, "NOTSET"))
    }
    bias, added = f.operand(2), f.operand(3)
    y = op.node("Conv", (f.x, weights, *([bias] if bias is not None else [])), own)
    if added is not None:
        y = op.Add(y, added)
    return activated(f, y, f.attr("activation", ""), list(f.attr("activation_params", ())))


def _pool(f: Fused, block: int) -> ir.Value:
    """The pooling of the same name, channel by channel."""
    own = {k: a.value for k, a in f.node.attributes.items() if a.value is not None}
    return f.op.node(f.node.op_type, (f.x,), own)


def _upsample(f: Fused, block: int) -> ir.Value:
    """Resize by whole factors: repeats, or linear in the coordinates that the attribute names."""
    scales = f.op.constant(np.asarray(f.attr("scales", (1, 1, 1, 1)), np.float32))
    mode = f.attr("mode", "nearest")
    own = {"coordinate_transformation_mode": f.attr("coordinate_transformation_mode", "asymmetric"), "mode": mode}
    if mode == "nearest":
        own = {"coordinate_transformation_mode": "asymmetric", "mode": mode, "nearest_mode": "floor"}
    return f.op.node("Resize", (f.x, None, scales), own)


def _reorder_input(f: Fused, block: int) -> ir.Value:
    """Channels filled up with zeros to whole blocks."""
    last = bool(f.attr("channels_last", 0))
    x = f.op.Transpose(f.x, perm=[0, 3, 1, 2]) if last else f.x
    channels = f.dim(f.x, 3 if last else 1)
    if channels is not None:
        missing = -channels % block
        return f.op.Pad(x, [0, 0, 0, 0, 0, missing, 0, 0]) if missing else f.op.Identity(x)
    filled = f.op.Mod(f.op.Neg(f.op.Shape(x, start=1, end=2)), [block])
    return f.op.Pad(x, f.op.Concat([0, 0, 0, 0, 0], filled, [0, 0], axis=0))


def _reorder_output(f: Fused, block: int) -> ir.Value:
    """The channels that there are in truth."""
    y = f.op.Slice(f.x, [0], [int(f.attr("channels", 0))], [1])
    return f.op.Transpose(y, perm=[0, 2, 3, 1]) if f.attr("channels_last", 0) else y


UNBLOCKED: dict[str, Callable[[Fused, int], ir.Value]] = {
    "AveragePool": _pool,
    "Conv": _conv,
    "GlobalAveragePool": _pool,
    "GlobalMaxPool": _pool,
    "MaxPool": _pool,
    "ReorderInput": _reorder_input,
    "ReorderOutput": _reorder_output,
    "Upsample": _upsample,
}
"""Operator -> what writes a node out; the number of channels of a block is given."""
