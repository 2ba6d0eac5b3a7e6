"""Where integers become floats: embeddings, one-hot codes, quantised tables, images of bytes."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_ig.graph.emit import is_float

__all__ = ["ROLE", "STORED", "classes", "lookups", "numbers", "straight"]

_SHAPED = frozenset({"Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Expand", "Cast"})
_TO_TABLE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_SHAPED, (0,)),
    "Add": (0, 1), "Sub": (0,), "Mul": (0, 1), "Where": (1, 2), "Clip": (0,), "Min": (0, 1), "Max": (0, 1), "Mod": (0,),
}  # fmt: skip
"""Operands through which ids reach their table: reshaped, or brought into its range (TensorFlow and JAX let negative ids
count from the end). Comparisons are not among them: positions counted from a padding mask are no tokens."""

ROLE = "onnx_ig.role"
"""Key in the `meta` of rows of a table: what the ids that select them say, where that is not which token it is."""

STORED = frozenset(
    {
        ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT16, ir.DataType.UINT16,
        ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E4M3FNUZ, ir.DataType.FLOAT8E5M2, ir.DataType.FLOAT8E5M2FNUZ,
    }
)  # fmt: skip
"""Element types of quantised tables."""

_SAMPLED = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})


def lookups(ids: ir.Value) -> tuple[ir.Value, ...]:
    """The first float values that integers `ids` [...] select, one vector each: [..., E].

    Rows of a table that no input reaches (Gather; of a quantised table, what it is dequantised to), or one-hot codes
    (OneHot, a comparison with all classes), or where such codes only select rows of a matrix, these rows.
    """
    found: dict[ir.Value, None] = {}
    frontier, seen = [ids], {ids}
    rank = _rank(ids)
    while frontier:
        value = frontier.pop()
        for node, index in value.uses():
            for floats in _selected(node, index, rank):
                found.setdefault(floats)
            for passed in _passed(node, index):
                if passed not in seen:
                    seen.add(passed)
                    frontier.append(passed)
    return tuple(found)


def numbers(samples: ir.Value) -> ir.Value | None:
    """The floats of the same shape that an input of 8 or 16 bits is used as: behind Cast or DequantizeLinear.

    None where it is used otherwise, or as several.
    """
    if samples.dtype not in _SAMPLED:
        return None
    found: set[ir.Value] = set()
    frontier = [samples]
    while frontier:
        for node, index in frontier.pop().uses():
            output = node.outputs[0]
            if node.op_type == "Shape":
                continue
            if node.op_type == "Identity":
                frontier.append(output)
            elif index == 0 and node.op_type in ("Cast", "DequantizeLinear") and is_float(output.dtype):
                found.add(output)
            else:
                return None
    return found.pop() if len(found) == 1 else None


def classes(selected: ir.Value) -> int | None:
    """How many ids there are to choose from, of a value that `lookups` found; None where the file does not say."""
    node = selected.producer()
    if node is None:
        return None
    if node.op_type in ("Gather", "GatherBlockQuantized"):
        return _length(node.inputs[0], 0)
    if node.op_type in ("MatMul", "Gemm"):
        return _length(node.inputs[1], 0)
    if node.op_type == "OneHot":
        depth = node.inputs[1].const_value if node.inputs[1] is not None else None
        return None if depth is None else int(depth.numpy().reshape(-1)[0])
    if node.op_type == "Equal":
        return max((n for n in (_length(v, -1) for v in node.inputs) if n is not None), default=None)
    moving = [v for v in node.inputs if v is not None and not _is_fixed(v)]
    return classes(moving[0]) if moving else None


def straight(ids: ir.Value) -> bool:
    """Whether ids reach their tables as they are fed, so that those out of range fail: not clipped, shifted or wrapped."""
    frontier, seen = [ids], {ids}
    while frontier:
        for node, index in frontier.pop().uses():
            if index not in _TO_TABLE.get(node.op_type, ()):
                continue
            if node.op_type not in _SHAPED:
                return False
            fresh = [v for v in node.outputs if v not in seen]
            seen.update(fresh)
            frontier.extend(fresh)
    tables = [v.producer() for v in lookups(ids)]
    return all(n is not None and n.op_type == "Gather" and not n.attributes.get_int("axis", 0) for n in tables)


def _length(value: ir.Value | None, axis: int) -> int | None:
    if value is None or value.shape is None or not len(value.shape):
        return None
    dim = value.shape[axis]
    return dim if isinstance(dim, int) else None


def _passed(node: ir.Node, index: int) -> Iterator[ir.Value]:
    """The ids behind a node that only moves them: integers, or floats on their way to a comparison."""
    output = node.outputs[0]
    if index in _TO_TABLE.get(node.op_type, ()) and (not is_float(output.dtype) or node.op_type in _SHAPED):
        yield output


def _selected(node: ir.Node, index: int, rank: int | None) -> Iterator[ir.Value]:
    """The floats that a node selects by the ids that are its operand `index`."""
    output = node.outputs[0]
    if node.op_type == "Gather" and index == 1 and node.domain == "" and _is_fixed(node.inputs[0]):
        kind = output.dtype or node.inputs[0].dtype  # type: ignore[union-attr]
        if is_float(kind):
            yield output
        elif kind in STORED:
            yield from _dequantized(output)
    elif node.op_type == "GatherBlockQuantized" and index == 1 and _is_fixed(node.inputs[0]):
        yield output
    elif node.op_type == "OneHot" and index == 0 and is_float(output.dtype):
        axis = node.attributes.get_int("axis", -1)
        if axis == -1 or (output.shape is not None and axis == len(output.shape) - 1):
            yield _rows(output)
    elif node.op_type == "Equal" and _compares_with_all(node, index, rank):
        for use, place in output.uses():
            coded = use.outputs[0]
            plain = use.op_type == "Cast" and place == 0
            chosen = use.op_type == "Where" and place == 0 and all(_is_fixed(v) for v in use.inputs[1:])
            if (plain or chosen) and is_float(coded.dtype):
                yield _rows(coded)


def _dequantized(rows: ir.Value) -> Iterator[ir.Value]:
    """The floats behind rows of a quantised table: those that DequantizeLinear makes, or Cast and what scales it."""
    for node, index in rows.uses():
        output = node.outputs[0]
        if index != 0:
            continue
        if node.op_type == "DequantizeLinear":
            yield output
        elif node.op_type == "Cast" and is_float(output.dtype):
            yield _scaled(output)
        elif node.op_type in _SHAPED:
            yield from _dequantized(output)


def _scaled(value: ir.Value) -> ir.Value:
    """The value behind the constants that are the only use of `value`: a zero point taken off, a scale multiplied."""
    while True:
        uses = list(value.uses())
        if len(uses) != 1 or uses[0].node.op_type not in ("Sub", "Mul"):
            return value
        node, index = uses[0].node, uses[0].idx
        if not _is_fixed(node.inputs[1 - index]):
            return value
        value = node.outputs[0]


def _compares_with_all(node: ir.Node, index: int, rank: int | None) -> bool:
    """Whether Equal compares every id with every class along a new last axis."""
    output, ids, classes = node.outputs[0], node.inputs[index], node.inputs[1 - index]
    if rank is None or ids is None or classes is None or not _is_fixed(classes):
        return False
    if _rank(output) != rank + 1 or classes.shape is None or not len(classes.shape):
        return False
    return classes.shape[-1] != 1 and _ends_with_one(ids)


def _ends_with_one(value: ir.Value) -> bool:
    """Whether the last axis has length 1, or had before it was spread."""
    while value.shape is not None and len(value.shape):
        if value.shape[-1] == 1:
            return True
        node = value.producer()
        if node is None or node.op_type not in ("Cast", "Expand", "Identity") or node.inputs[0] is None:
            return False
        value = node.inputs[0]
    return False


def _rows(codes: ir.Value) -> ir.Value:
    """The rows of a fixed matrix that one-hot codes select, where that is all they do; else the codes."""
    uses = list(codes.uses())
    if len(uses) == 1 and uses[0].node.op_type in ("MatMul", "Gemm") and uses[0].idx == 0:
        node = uses[0].node
        plain = node.op_type == "MatMul" or (len(node.inputs) < 3 and not node.attributes.get_int("transA", 0))
        if plain and _is_fixed(node.inputs[1]) and _rank(node.inputs[1]) == 2:
            return node.outputs[0]
    return codes


def _is_fixed(value: ir.Value | None) -> bool:
    """Whether no input of the model reaches a value."""
    seen: set[ir.Value] = set()
    frontier = [] if value is None else [value]
    while frontier:
        current = frontier.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.is_graph_input() and current.const_value is None:
            return False
        node = current.producer()
        if node is not None:
            frontier.extend(v for v in node.inputs if v is not None)
    return True


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)
