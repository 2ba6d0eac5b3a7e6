"""The standard's node cases: none wrong, none crashed, and none that was right becomes refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.node_cases import RECORD, SHAPES, tally

pytestmark = pytest.mark.node_cases

_HARMLESS = ("counts", "refused", "left out")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return tally()


def test_nothing_is_wrong_or_fails(found: dict[str, Any]) -> None:
    assert {verdict: cases for verdict, cases in found.items() if verdict not in _HARMLESS} == {}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("verdict", ["refused", "left out"])
def test_no_case_got_worse(found: dict[str, Any], verdict: str, kind: str) -> None:
    recorded = json.loads(RECORD.read_text())
    before = {name for v in _HARMLESS[1:] for name in recorded.get(v, {}).get(kind, {})}
    assert set(found.get(verdict, {}).get(kind, {})) - before == set()


@pytest.mark.parametrize("kind", SHAPES)
def test_share_that_is_right(found: dict[str, Any], kind: str) -> None:
    counts = found["counts"][kind]
    assert counts["right"] >= 0.98 * (counts["right"] + counts.get("refused", 0))
