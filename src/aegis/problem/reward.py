"""The reward of decisions, and the guards: columns that must not get worse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from aegis.errors import ProblemError, finite_number


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a decision: column, declared range [low, high], unit, goal, and what it belongs to (`per`).

    clip: rewards outside the range are to be clipped by who maps them to it; what is certified then is the clipped reward.
    closed: a column of flags; where it is false the reward is still awaited. Without one, a missing reward is missing for good.
    """

    column: str = "reward"
    range: tuple[float, float] | None = None
    unit: str = ""
    goal: Literal["maximise", "minimise"] = "maximise"
    per: str = "decision"
    clip: bool = False
    closed: str | None = None

    def __post_init__(self) -> None:
        if self.range is not None:
            check_ordered_limits(self.range, f"reward '{self.column}'")
        elif self.clip:
            raise ProblemError(f"reward '{self.column}': 'clip' needs a 'range' to clip to; declare it, or leave 'clip' out")
        if self.closed == "":
            raise ProblemError(f"reward '{self.column}': 'closed' names a column of flags, found an empty name; leave it out")


@dataclass(frozen=True, slots=True)
class Guard:
    """A column that must not get worse by more than `max_worsening`."""

    column: str
    range: tuple[float, float]
    max_worsening: float
    goal: Literal["maximise", "minimise"] = "minimise"

    def __post_init__(self) -> None:
        check_ordered_limits(self.range, f"guard '{self.column}'")
        finite_number(f"guard '{self.column}': 'max_worsening'", self.max_worsening, 0.0, error=ProblemError)


def check_ordered_limits(limits: tuple[float, float], where: str, name: str = "range") -> None:
    """Raise ProblemError unless limits are two finite numbers in order; name: the field that holds them."""
    low, high = limits
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ProblemError(f"{where}: '{name}' is [low, high] with finite low < high, found {list(limits)}")
