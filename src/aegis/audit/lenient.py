"""Levels whose propensities are declared to be wrong by up to a factor: what takes them as exact only warns there.

The tests of propensities, held actions, carry-over, interference and of sizes that follow actions bet on `E[w - 1] = 0`, which
holds for exact propensities. At a level with `wrong_by` they may win although everything is as declared. Other levels are tested
without these, so that what is found here does not hide anything there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from aegis.audit.finding import Finding
from aegis.problem import Problem

EXACT = (
    "miscalibrated-propensities",
    "actions-held",
    "carry-over",
    "behaviour-reacts",
    "siblings-interfere",
    "episodes-interfere",
    "neighbours-interfere",
    "cluster-interferes",
    "size-follows-action",
)


@dataclass(frozen=True, slots=True)
class Lenient:
    """The levels with a declared factor, and what becomes of findings there."""

    problem: Problem
    factors: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", self.problem.wrong_by())

    def findings(self, test: Callable[[set[str]], list[Finding]], wrong: set[str]) -> list[Finding]:
        """Return what a test finds; it is given the levels to leave out, to begin with those whose propensities are `wrong`."""
        if not self.factors:
            return test(wrong)
        found = [item for item in test({*wrong, *self.factors}) if not self._doubted(item)]
        return found + [self.softened(item) for item in test(wrong) if self._doubted(item)]

    def softened(self, item: Finding) -> Finding:
        """Return the finding, as a warning if it refuses and takes as exact what is declared not to be."""
        if item.severity != "refused" or not self._doubted(item):
            return item
        factor = self.factors[str(item.level)]
        words = f"this does not refuse: it takes the propensities as exact, which may be wrong by a factor of up to {factor:g}"
        return replace(item, severity="warning", message=f"{item.message}; {words}")

    def _doubted(self, item: Finding) -> bool:
        return item.level in self.factors and item.code in EXACT
