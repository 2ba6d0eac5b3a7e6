"""Model-local functions, replaced by their bodies."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_ig.errors import ModelError

__all__ = ["inline"]


def inline(model: ir.Model) -> None:
    """Replace every call of a model-local function by the function's body, and drop the functions.

    A function has its own opset imports, which may differ from the model's. What each standard node was written for
    goes into `node.version`; `upgrade` makes them agree.

    Raises ModelError where functions call each other in a circle, take graphs as attributes, or import another version
    of a non-standard domain than the model does.
    """
    _spell_domain(model)
    _stamp(model)
    if not model.functions:
        return
    local = {identifier[0] for identifier in model.functions}
    for function in model.functions.values():
        _one_value_an_output(function)
        _agree(model, function)
    try:
        InlinePass()(model)
    except Exception as error:  # the pass wraps what went wrong several times over
        cause = error
        while cause.__cause__ is not None:
            cause = cause.__cause__  # type: ignore[assignment]
        raise ModelError(f"the model's functions cannot be inlined: {cause}") from error
    model.functions.clear()
    used = {node.domain for graph in model.graphs() for node in graph}
    for domain in local - used:
        model.opset_imports.pop(domain, None)


def _spell_domain(model: ir.Model) -> None:
    """The standard domain is "" and may also be spelled "ai.onnx"."""
    for imports in (model.opset_imports, *(f.opset_imports for f in model.functions.values())):
        if "ai.onnx" in imports:
            version = imports.pop("ai.onnx")
            imports.setdefault("", version)


def _stamp(model: ir.Model) -> None:
    declared = model.opset_imports.get("")
    if declared is None:
        declared = model.opset_imports[""] = _undeclared(model)
    for nodes, version in (
        (model.graph.all_nodes(), declared),
        *((f.all_nodes(), f.opset_imports.get("", declared)) for f in model.functions.values()),
    ):
        for node in nodes:
            if node.domain == "":
                node.version = version


def _undeclared(model: ir.Model) -> int:
    """The opset of a model that does not import the standard domain.

    Below IR version 3 there were no imports and opset 1 was meant (ONNX IR specification). Later ones are invalid;
    ONNX Runtime reads them with its latest opset. The lowest with the same operators as the latest says the same.
    """
    if (model.ir_version or 0) < 3 and not model.opset_imports:
        return 1
    latest = onnx.defs.onnx_opset_version()
    operators = {n.op_type for graph in model.graphs() for n in graph if n.domain == ""}
    return max((onnx.defs.get_schema(o, latest).since_version for o in operators if onnx.defs.has(o)), default=1)


def _agree(model: ir.Model, function: ir.Function) -> None:
    """Move a function's imports to the model: the inliner refuses any that differ, used or not."""
    for domain in {n.domain for n in function.all_nodes() if n.op_identifier() not in model.functions} - {""}:
        ours, theirs = model.opset_imports.get(domain), function.opset_imports.get(domain)
        if ours is not None and theirs is not None and ours != theirs:
            raise ModelError(
                f"the model imports version {ours} of the domain {domain!r} and its function {function.name!r} "
                f"version {theirs}; export the model again with one version"
            )
        if ours is None and theirs is not None:
            model.opset_imports[domain] = theirs
    function.opset_imports.clear()


def _one_value_an_output(function: ir.Function) -> None:
    """Give every output of a function a node of its own.

    The inliner renames the value that stands for an output to what the call names it: were that an input of the
    function or another output too, the caller's value would lose its name.
    """
    seen: set[ir.Value] = set(function.inputs)
    for index, output in enumerate(function.outputs):
        if output in seen:
            node = ir.Node("", "Identity", [output], version=function.opset_imports.get(""))
            function.append(node)
            function.outputs[index] = node.outputs[0]
        seen.add(function.outputs[index])
