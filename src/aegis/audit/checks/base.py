"""What every check shares: the protocol, the part of a large log that a costly check reads, and tolerance of declared errors.

Thinning. Which part is read depends on counts only, never on content, so that bets stay fair.

Tolerance. The tests of propensities, held actions, carry-over, interference and of sizes that follow actions bet on `E[w -
1] = 0`, which holds for exact propensities. At a level with `wrong_by` they may win although everything is as declared.
There they only warn. Other levels are tested without these, so that a finding here hides nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scipy.special import ndtri

from aegis.audit.batch_view import BatchView
from aegis.audit.finding import Finding
from aegis.problem import Problem

STEP = 32  # batches, of which a costly check looks at one when it has seen enough


class Thinning:
    """Says what a costly check looks at: all batches until it has seen `most` decisions, then one in `STEP`.

    Of no batch does it look at more than `most` decisions: those of its first episodes. A view that is to be skimmed it leaves.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.seen = 0
        self.batches = 0

    def wants(self, decisions: int, skimmed: bool = False) -> bool:
        """Say whether to look at a batch with so many decisions; asked once for each batch."""
        self.batches += 1
        if skimmed or (self.seen >= self.most and self.batches % STEP):
            return False
        self.seen += min(decisions, self.most)
        return True

    def part(self, view: BatchView, level: str) -> BatchView | None:
        """Return what to look at of a batch, to check decisions of a level; None if it is not wanted. Asked once for each."""
        return view.first(level, self.most) if self.wants(len(view.batch.levels[level]), view.skimmed) else None


EXACT_CODES = (
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
class PropensityTolerance:
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
        return item.level in self.factors and item.code in EXACT_CODES


def upper_quantile(probability: float) -> float:
    """Return the standard score that is exceeded with a probability; `scipy.stats` takes longer to import than an audit takes."""
    return -float(ndtri(probability))
