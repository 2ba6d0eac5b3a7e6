"""Appending nodes to a graph: `op.Mul(a, 2.0)`.

Built on onnx_ir's nodes; what is added is what rules need to read like formulas: Python numbers as operands, shared
constants, a name that is new in every scope, and the dtype of every value emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ig.errors import ModelError
from onnx_ig.graph.names import Names

__all__ = ["Emitter", "is_float"]

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def is_float(dtype: ir.DataType | None) -> bool:
    """Whether a value of this type can carry a cotangent."""
    return dtype in _FLOATS


class _Signature(NamedTuple):
    """Type variables of an operator's operands, as its schema gives them."""

    inputs: tuple[str, ...]
    least: int  # operands that must be there, if only as an empty name
    variadic: bool
    outputs: tuple[str, ...]
    only: dict[str, ir.DataType]  # type variables that the schema allows one tensor type only
    integer: frozenset[str]  # type variables that allow int64 and no float

    def input(self, index: int) -> str:
        if index < len(self.inputs):
            return self.inputs[index]
        if self.variadic:
            return self.inputs[-1]
        raise IndexError(index)


def _data_type(tensor: str) -> ir.DataType | None:
    names = {"float": "FLOAT", "double": "DOUBLE"}
    inner = tensor.removeprefix("tensor(").removesuffix(")")
    return getattr(ir.DataType, names.get(inner, inner.upper()), None) if tensor.startswith("tensor(") else None


@cache
def _signature(op_type: str, opset: int) -> _Signature:
    schema = onnx.defs.get_schema(op_type, opset)
    only: dict[str, ir.DataType] = {}
    integer = set()
    for constraint in schema.type_constraints:
        allowed = list(constraint.allowed_type_strs)
        single = _data_type(allowed[0]) if len(allowed) == 1 else None
        if single is not None:
            only[constraint.type_param_str] = single
        if "tensor(int64)" in allowed and "tensor(float)" not in allowed:
            integer.add(constraint.type_param_str)
    for formal in (*schema.inputs, *schema.outputs):
        fixed = _data_type(formal.type_str)
        if fixed is not None:
            only[formal.type_str] = fixed
    variadic = bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return _Signature(
        tuple(i.type_str for i in schema.inputs),
        schema.min_input,
        variadic,
        tuple(o.type_str for o in schema.outputs),
        only,
        frozenset(integer),
    )


class Emitter:
    """Appends standard operators to `graph`.

    `op.Name(*inputs, outputs=1, **attributes)` returns the output value, or a tuple of them where `outputs` is above 1.
    An input is an `ir.Value`, None (optional operand left out), or a constant: a Python number (0-D), a list (1-D) or a
    numpy array. Numbers and lists take the type of the sibling operand that shares their type variable in the schema,
    else int64; numpy arrays keep their own. Equal constants are one initializer.
    Attributes that are None are left out.
    """

    def __init__(self, graph: ir.Graph, names: Names, opset: int):
        self.graph = graph
        self.names = names
        self.opset = opset
        self._constants: dict[tuple[ir.DataType, tuple[int, ...], bytes], ir.Value] = {}

    def scope(self, graph: ir.Graph) -> Emitter:
        """An emitter into another graph of the same model (a subgraph)."""
        return Emitter(graph, self.names, self.opset)

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(*inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
            return self.node(op_type, inputs, attributes, outputs=outputs)

        return emit

    def node(self, op_type: str, inputs: tuple[Any, ...], attributes: dict[str, Any], *, outputs: int = 1) -> Any:
        """Append one node; see the class."""
        signature = _signature(op_type, self.opset)
        bound: dict[str, ir.DataType] = dict(signature.only)
        for index, value in enumerate(inputs):
            if isinstance(value, ir.Value) and value.dtype is not None:
                bound.setdefault(signature.input(index), value.dtype)
            elif isinstance(value, np.ndarray | np.generic):
                bound.setdefault(signature.input(index), ir.DataType.from_numpy(value.dtype))
        operands = [self._operand(op_type, v, signature.input(i), bound, signature) for i, v in enumerate(inputs)]
        while len(operands) > signature.least and operands[-1] is None:
            operands.pop()
        given = {k: v for k, v in attributes.items() if v is not None}
        node = ir.Node(
            "",
            op_type,
            operands,
            ir.convenience.convert_attributes(given),
            num_outputs=outputs,
            name=self.node_name(op_type),
        )
        for index, output in enumerate(node.outputs):
            output.name = self.names.numbered("ig")
            dtype = self._output_type(op_type, given, signature, index, bound)
            if dtype is not None:
                output.dtype = dtype
        self.place(node)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def place(self, node: ir.Node) -> None:
        """Where new nodes go: the end of the graph."""
        self.graph.append(node)

    def node_name(self, op_type: str) -> str:
        """The name of a new node."""
        return self.names.numbered(f"ig_{op_type}")

    def constant(self, array: np.ndarray | ir.TensorProtocol, stem: str = "ig_const") -> ir.Value:
        """A shared initializer of the emitter's graph."""
        tensor = ir.tensor(array) if isinstance(array, np.ndarray) else array
        shape = tuple(int(d) for d in tensor.shape.numpy())
        key = (tensor.dtype, shape, tensor.tobytes())
        if key not in self._constants:
            value = ir.Value(name=self.names.numbered(stem), const_value=tensor)
            value.dtype = tensor.dtype
            value.shape = ir.Shape(shape)
            self.graph.register_initializer(value)
            self._constants[key] = value
        return self._constants[key]

    def _operand(
        self, op_type: str, value: Any, variable: str, bound: dict[str, ir.DataType], signature: _Signature
    ) -> ir.Value | None:
        if value is None or isinstance(value, ir.Value):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self.constant(np.asarray(value))
        dtype = bound.get(variable)
        if dtype is None and (variable in signature.integer or variable == "tensor(int64)" or _integral(value)):
            dtype = ir.DataType.INT64
        if dtype is None:
            raise ModelError(f"the type of the constant {value!r} of {op_type} cannot be told: its sibling has no type")
        return self.constant(np.asarray(value).astype(dtype.numpy()))

    def _output_type(
        self,
        op_type: str,
        attributes: dict[str, Any],
        signature: _Signature,
        index: int,
        bound: dict[str, ir.DataType],
    ) -> ir.DataType | None:
        chosen = attributes.get("to", attributes.get("dtype"))
        if op_type in ("Cast", "EyeLike") and chosen is not None:
            return ir.DataType(chosen)
        if op_type == "ConstantOfShape":
            value = attributes.get("value")
            return ir.DataType.FLOAT if value is None else value.dtype
        if not signature.outputs:
            return None
        variable = signature.outputs[min(index, len(signature.outputs) - 1)]
        return bound.get(variable)


def _integral(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "iu" or np.asarray(value).size == 0
