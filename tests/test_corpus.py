"""Exported models of many kinds, where a folder of them lies beside the repository: right, flat or refused, none wrong."""

from __future__ import annotations

import pytest

from tests.corpus import files, judge

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not files(), reason="there is no corpus beside the repository")]


@pytest.mark.parametrize("name", files())
def test_a_gradient_is_right_or_refused(name: str) -> None:
    verdict, why = judge(name)
    assert verdict != "wrong", why


def test_most_are_right() -> None:
    verdicts = [judge(name)[0] for name in files()]
    assert verdicts.count("right") >= 0.87 * len(verdicts)
    assert verdicts.count("refused") <= 0.02 * len(verdicts)
