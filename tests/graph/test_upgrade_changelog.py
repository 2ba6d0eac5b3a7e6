"""Every incompatible step of the changelog of ONNX operators has an adapter."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import onnx

from onnx_ig.graph.upgrade import ADAPTERS

NEUTRAL = {
    ("Clip", 6): "bounds without default became the extremes of float32: clip() gives those",
    ("GRU", 3): "the default direction lost a typing error",
    ("Erf", 13): "integers, which nobody computes it on, were dropped",
    ("Dropout", 12): "a type variable changed its meaning",
}


def incompatible(old: onnx.defs.OpSchema, new: onnx.defs.OpSchema) -> bool:
    """Whether a valid node of `old` can be invalid, or say something else, under `new`."""
    for name, attribute in old.attributes.items():
        if name not in new.attributes:
            return True
        if attribute.type != new.attributes[name].type or (not attribute.required and new.attributes[name].required):
            return True
        before, after = attribute.default_value, new.attributes[name].default_value
        if before.SerializeToString() != after.SerializeToString():
            return True
    if any(name not in old.attributes and a.required for name, a in new.attributes.items()):
        return True
    if new.deprecated and not old.deprecated:
        return True
    if len(new.inputs) < len(old.inputs) or new.min_input > old.min_input or len(new.outputs) < len(old.outputs):
        return True
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in new.type_constraints}
    return any(
        set(c.allowed_type_strs) - allowed[c.type_param_str]
        for c in old.type_constraints
        if c.type_param_str in allowed
    )


def changes() -> list[tuple[str, int]]:
    history = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            history[schema.name].append(schema)
    found = []
    for name, schemas in history.items():
        schemas.sort(key=lambda s: s.since_version)
        for old, new in pairwise(schemas):
            if new.since_version <= 20 and incompatible(old, new):
                found.append((name, new.since_version))
    return found


def test_every_incompatible_step_of_the_changelog_has_an_adapter() -> None:
    consumed = {"consumed_inputs"}
    for name, version in changes():
        old, new = (onnx.defs.get_schema(name, v) for v in (version - 1, version))
        if set(old.attributes) - set(new.attributes) == consumed and old.min_input == new.min_input:
            same = {k: a.default_value.SerializeToString() for k, a in new.attributes.items()}
            if same == {k: a.default_value.SerializeToString() for k, a in old.attributes.items() if k not in consumed}:
                continue
        covered = any(until >= version for until, _ in ADAPTERS.get(name, ()))
        assert covered or (name, version) in NEUTRAL, (name, version)


def test_what_is_called_neutral_is_a_change() -> None:
    assert not set(NEUTRAL) - set(changes())
