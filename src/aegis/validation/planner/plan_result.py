"""The result of a plan: one row for each exploration rate and cap, level by level, and words for rewards and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

OVER_INCUMBENT = "the incumbent, without exploration"

OVER_EXPLORING_LEGACY = "the legacy with this exploration, as no incumbent is stated"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One exploration rate and one cap.

    explore: the rate; None means as the legacy logs now. cap: W, infinite for none. episodes: after how many certified units half
    of all such studies have their certificate; likely: nine in ten; None if not within reach, and `why` says so. gain: of the
    candidate over its comparator, in reward units per decision: what a certificate speaks of. cost: what exploring at this rate
    costs per decision compared with not exploring, None if it is not known.
    """

    explore: float | None
    cap: float
    episodes: int | None
    likely: int | None
    gain: float
    cost: float | None = None
    why: str = ""

    @property
    def total(self) -> float | None:
        """Return what exploring costs until nine in ten studies have their certificate, in units of an episode's mean reward."""
        return None if self.cost is None or self.likely is None else self.cost * self.likely

    def plain(self) -> dict[str, Any]:
        """Return plain data; a cap that is infinite is the word 'inf'."""
        return {
            "explore": self.explore,
            "cap": "inf" if math.isinf(self.cap) else self.cap,
            "episodes": self.episodes,
            "likely": self.likely,
            "gain": self.gain,
            "cost": self.cost,
            "total_cost": self.total,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """The rows of one level.

    source: 'guess' or 'pilot'. deterministic: the pilot shows that the legacy leaves nothing to chance here. cost_known: costs
    come from the guess or the pilot's model; otherwise they are the most that is possible. within: the smallest exploration rate
    with a certificate, in nine of ten studies, within the number of episodes wanted; None if none was wanted or none is found.
    comparator: who gains are over, in words.
    """

    level: str
    source: str
    notes: tuple[str, ...]
    rows: tuple[PlanRow, ...] = ()
    deterministic: bool = False
    cost_known: bool = False
    within: PlanRow | None = None
    comparator: str = OVER_INCUMBENT

    @property
    def quickest(self) -> PlanRow | None:
        """Return the row with the fewest episodes, of several the one that explores least; None if no row has a number."""
        rows = [row for row in self.rows if row.likely is not None]
        return min(rows, key=lambda row: (row.likely, row.explore or 0.0)) if rows else None

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        quickest = self.quickest
        return {
            "level": self.level,
            "source": self.source,
            "deterministic": self.deterministic,
            "comparator": self.comparator,
            "cost_is": "estimate" if self.cost_known else "at most",
            "rows": [row.plain() for row in self.rows],
            "quickest": None if quickest is None else quickest.plain(),
            "within": None if self.within is None else self.within.plain(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """How much exploration and how many episodes it takes until a gain is certified: a forecast, never a certificate.

    unit_word: what is counted, episodes or clusters. delta: the risk of one test, after it was shared. assumed: what the forecast
    takes for granted, in sentences. goal: maximise, or minimise if rewards are costs; a gain above 0 is better all the same.
    """

    levels: tuple[LevelPlan, ...]
    unit: str
    unit_word: str
    delta: float
    tests: int
    wanted: int | None
    pilot_episodes: int | None
    assumed: tuple[str, ...]
    goal: str = "maximise"

    def level(self, name: str) -> LevelPlan:
        """Return the plan of a level; KeyError if there is none."""
        return {level.level: level for level in self.levels}[name]

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "levels": [level.plain() for level in self.levels],
            "unit": self.unit,
            "goal": self.goal,
            "counted_in": self.unit_word,
            "delta_per_test": self.delta,
            "tests": self.tests,
            "within": self.wanted,
            "pilot_episodes": self.pilot_episodes,
            "assumed": list(self.assumed),
        }


REFINED = 4  # halvings of the interval in which the smallest rate that is enough lies

TENTH = 0.1  # where nothing below the first rate was looked at, a tenth of it is the other end


Evaluate = Callable[[float | None, float], PlanRow]


def smallest_sufficient_rate(
    evaluate: Evaluate, rows: Sequence[PlanRow], wanted: int | None, caps: Sequence[float]
) -> PlanRow | None:
    """Return the row of the smallest rate that has a certificate within the episodes wanted in nine of ten studies.

    The rates of the rows are looked at first, then rates between the last that is not enough and the first that is. A legacy that
    explores enough as it is needs no other rate: its row is returned.
    """
    good = [] if wanted is None else [row for row in rows if _within(row, wanted)]
    if wanted is None or not good:
        return None
    best = min(good, key=lambda row: (row.explore or 0.0, row.likely))
    if best.explore is None:
        return best
    below = [row.explore for row in rows if row.explore is not None and row.explore < best.explore]
    low, high = max(below) if below else TENTH * best.explore, best.explore
    for _ in range(REFINED):
        rate = math.sqrt(low * high)
        enough = [row for row in (evaluate(rate, cap) for cap in caps) if _within(row, wanted)]
        if enough:
            best, high = min(enough, key=lambda row: row.likely or 0), rate
        else:
            low = rate
    return best


def _within(row: PlanRow, wanted: int) -> bool:
    return row.likely is not None and row.likely <= wanted


def earning_verb(goal: str) -> str:
    """Return what a legacy or an action does: earn a reward, or cost something."""
    return "costs" if goal == "minimise" else "earns"


def better_by(amount: float, goal: str) -> str:
    """Return by how much something is better, in words; below 0 it is worse, and 0 is no different."""
    if amount == 0:
        return f"{earning_verb(goal)} as much"
    more = (amount > 0) == (goal != "minimise")
    return f"{earning_verb(goal)} {abs(amount):g} {'more' if more else 'less'}"


def levels_named(names: tuple[str, ...]) -> str:
    """Return the levels of a sentence: level 'a', or levels 'a' and 'b'."""
    *others, last = [f"'{name}'" for name in names]
    return f"levels {', '.join(others)} and {last}" if others else f"level {last}"
