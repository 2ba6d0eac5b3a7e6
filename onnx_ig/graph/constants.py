"""Constants that a graph computes: said on the value, so that rules and shape inference see them.

Exporters compute pads, axes and shapes by chains of small nodes, keep half-precision weights behind a Cast, and share
weights through Identity. Nodes stay as they are (the runtime folds them when it loads the file): `const_value` of what
they compute is set, and nothing is stored twice.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from onnx_ig.graph.sizes import Numbers, Symbols

__all__ = ["settle_constants"]

_log = logging.getLogger(__name__)
_SMALL = 1 << 11  # elements that a constant may have to be computed here: shapes, pads, masks of small windows
_COMPUTED = frozenset(
    {
        "Abs", "Add", "And", "Cast", "Ceil", "Clip", "Concat", "ConstantOfShape", "CumSum", "Div", "Equal", "Exp",
        "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity",
        "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "Pow", "Range", "ReduceMax",
        "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "ScatterND", "Slice", "Split", "Sqrt", "Squeeze", "Sub",
        "Tile", "TopK", "Transpose", "Unsqueeze", "Where",
    }
)  # fmt: skip


def settle_constants(model: ir.Model) -> bool:
    """Set `const_value` of every value that small constants, or shapes known in full, determine; in place.

    Identities of initializers go, unless their output is an output of the graph. A weight behind a Cast is computed
    when it is asked for. Types and shapes must have been inferred.

    Returns whether inference can know more now: a value so found feeds a node of which some dimension is open.
    """
    useful = False
    symbols = Symbols()
    for graph in model.graphs():
        for node in list(graph):
            followed = symbols.follow(node)
            if node.domain != "" or any(v.const_value is not None for v in node.outputs):
                continue
            if node.op_type == "Identity" and _bypassed(node):
                continue
            found = _known(node, followed) or _values(node, model.opset_imports[""])
            for value, tensor in zip(node.outputs, found, strict=False):
                value.const_value = tensor
                useful = useful or any(_open(v) for user in value.consumers() for v in user.outputs)
    return useful


def _bypassed(node: ir.Node) -> bool:
    """Let users of an initializer's Identity read the initializer itself."""
    source, output = node.inputs[0], node.outputs[0]
    if source is None or not source.is_initializer() or source.is_graph_input() or output.is_graph_output():
        return False
    if source.graph is not node.graph:  # an outer weight: a body may be fed by it alone
        return False
    output.replace_all_uses_with(source)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    return True


def _known(node: ir.Node, followed: Sequence[Numbers] | None) -> list[ir.TensorProtocol]:
    """Sizes that turned out to be numbers: one dimension of a shape whose others are open, and what follows from it."""
    tensors: list[ir.TensorProtocol] = []
    for value, numbers in zip(node.outputs, followed or (), strict=False):
        integers = numbers.integers()
        if integers is None or value.dtype is None or value.dtype.is_floating_point():
            return []
        array = np.array(integers, value.dtype.numpy())
        tensors.append(ir.Tensor(array if numbers.rank else array.reshape(()), dtype=value.dtype, name=value.name))
    return tensors


def _values(node: ir.Node, opset: int) -> list[ir.TensorProtocol]:
    if node.op_type == "Constant":  # an output of the graph, which could not become an initializer
        tensor = ir.convenience.get_const_tensor(node.outputs[0])
        return [] if tensor is None else [tensor]
    if node.op_type not in _COMPUTED:
        return []
    operands = [v for v in node.inputs if v is not None]
    tensors = [v.const_value for v in operands if v.const_value is not None and not v.is_graph_input()]
    if len(tensors) != len(operands) or not tensors:
        return []
    if any(t.dtype == ir.DataType.STRING for t in tensors):
        return []
    if sum(t.size for t in tensors) <= _SMALL and _stays_small(node, tensors):
        return _computed(node, opset)
    if node.op_type == "Cast":
        return [_cast_when_asked(node, tensors[0])]
    return []


def _stays_small(node: ir.Node, tensors: list[ir.TensorProtocol]) -> bool:
    """Whether the result has few elements too, for the operators that can make many of few."""
    if node.op_type in ("ConstantOfShape", "Expand", "Tile"):
        counts = tensors[-1].numpy().astype(np.float64)
        size = tensors[0].size if node.op_type == "Tile" else 1
        return bool(size * np.prod(counts) <= _SMALL)
    if node.op_type == "Range":
        start, limit, step = (float(t.numpy().item()) for t in tensors)
        return step != 0 and (limit - start) / step <= _SMALL
    return True


def _computed(node: ir.Node, opset: int) -> list[ir.TensorProtocol]:
    arrays = {v.name or "": v.const_value.numpy() for v in node.inputs if v is not None and v.const_value is not None}
    if node.op_type == "Div" and any(a.dtype.kind in "iu" and (a < 0).any() for a in arrays.values()):
        return []  # the reference rounds down, the standard to zero
    graph = onnx.helper.make_graph(
        [ir.to_proto(node)],
        "constant",
        [onnx.ValueInfoProto(name=name) for name in arrays],
        [onnx.ValueInfoProto(name=v.name) for v in node.outputs if v.name],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, arrays)
    except Exception as error:  # a model that is wrong here is for the runtime to refuse
        _log.info("%s (%s) is not computed: %s", node.op_type, node.name, error)
        return []
    tensors: list[ir.TensorProtocol] = []
    for value, result in zip([v for v in node.outputs if v.name], results, strict=True):
        array = np.asarray(result)
        if array.size > _SMALL or value.dtype is None or array.dtype != value.dtype.numpy():
            return []
        tensors.append(ir.Tensor(array, dtype=value.dtype, name=value.name))
    return tensors if len(tensors) == len(node.outputs) else []


def _cast_when_asked(node: ir.Node, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    dtype = ir.DataType(node.attributes["to"].as_int())

    def compute() -> ir.TensorProtocol:
        with np.errstate(over="ignore"):
            return ir.Tensor(tensor.numpy().astype(dtype.numpy()), dtype=dtype)

    return ir.LazyTensor(compute, dtype=dtype, shape=ir.Shape(tensor.shape.numpy()), name=node.outputs[0].name or "")


def _open(value: ir.Value) -> bool:
    return value.shape is None or any(
        not isinstance(d, int) and (d.value is None or str(d.value).startswith("unk__")) for d in value.shape
    )
