"""Whether completeness is out of reach: the gradient of a model is not that of the function along the path.

The gradient of a quantised model goes straight through its roundings, and that of a jump (Floor, a comparison) is zero:
the integral of the gradient is then another number than the change of the score, and no steps bring the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onnx_ig.refinement import Rule

__all__ = ["REASON", "Stall"]

REASON = (
    "rules agree and the delta stays where it is, so that more steps do not help: the gradient is not that of the function "
    "along the path, as in a quantised model or where the score jumps"
)
_GROWN = 2.0
"""Times the gradients over which the delta has to stay, two refinements at least."""
_STAYS = 0.1
"""Share of the delta by which it may move meanwhile."""
_ROUGH = 1.2
"""Times by which the gaps' misses, without sign, grow on roundings that go up and down: the finer the gaps, the more the
score moves by what its gradient does not know of. Kinks halve them."""
_KEPT = 0.75
"""Share of them that is left where a score climbs by jumps, however narrow the gaps."""
_NARROW = 2.0**-22
"""Gaps of this width over their far end, the resolution of float32, hide no ridge, which a score climbs between two
gradients: what is missed there is a jump. Beside a baseline of zero scores change at any scale (normalisations)."""
_LONG = 4.0
_MANY = 16
"""Gaps that half of the delta lies in, after that many times the gradients: as many ridges that none of them has met yet
are taken for jumps."""


@dataclass
class Stall:
    """Follows one sample: at every level its gradients, the delta, and what the gaps miss without sign."""

    levels: list[tuple[int, float, float]] = field(default_factory=list)

    def seen(self, rule: Rule, missed: float) -> bool:
        """Take in a level whose rules agree; whether more of them will not bring the delta down.

        `missed` is the sum less the change of the score. Never for a rule that does not tell what its gaps miss.
        """
        widths, misses = rule.misses()
        if not len(misses):
            return False
        spread = float(np.abs(misses).sum())
        self.levels.append((rule.count, missed, spread))
        before = self._before(_GROWN)
        if before is None:
            return False
        if spread >= _ROUGH * before:
            return True
        wide = -np.sign(missed) * misses[widths > _NARROW]  # what makes up the delta is positive
        if spread >= _KEPT * before and float(wide.sum()) <= abs(missed) / 2:
            return True
        long = self._before(_LONG)
        if long is None or spread < _KEPT * long:
            return False
        largest = np.cumsum(np.sort(wide[wide > 0])[::-1])
        return int(np.searchsorted(largest, abs(missed) / 2)) >= _MANY

    def _before(self, grown: float) -> float | None:
        """The misses when there were that many times fewer gradients; None where the delta has moved since."""
        count, missed, _ = self.levels[-1]
        places = [i for i, level in enumerate(self.levels[:-2]) if level[0] * grown <= count]
        if not places or max(abs(m - missed) for _, m, _ in self.levels[places[-1] :]) > _STAYS * abs(missed):
            return None
        return self.levels[places[-1]][2]

    def restart(self) -> None:
        """The rules no longer agree: what was seen before does not count."""
        self.levels.clear()
