"""What is certified: the reward, or a guard, as a number in [0, 1] where 1 is best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.errors import RefusedError
from aegis.problem import AnyArray, Array, Batch, Problem


@dataclass(frozen=True, slots=True)
class Measure:
    """A column with its declared range; `goal` says which end is good. `guard`: it must not get worse by more than `allowed`.

    allowed is in the column's units. What is measured is `(x - low)/(high - low)`, or one minus that if small is good.
    """

    column: str
    low: float
    high: float
    goal: str
    unit: str = ""
    clip: bool = False
    guard: bool = False
    allowed: float = 0.0

    @property
    def width(self) -> float:
        """Return how many of the column's units one unit of the scaled measure is."""
        return self.high - self.low

    def scaled(self, values: Array) -> Array:
        """Return values in the column's units on the scale on which 1 is best; not clipped."""
        found = (values - self.low) / self.width
        return found if self.goal == "maximise" else 1.0 - found

    def value(self, scaled: float) -> float:
        """Return a scaled value in the column's units."""
        return self.low + scaled * self.width if self.goal == "maximise" else self.high - scaled * self.width

    def gain(self, scaled: float) -> float:
        """Return a scaled gain in the column's units; above 0 is better, whatever the goal."""
        return scaled * self.width


@dataclass(frozen=True, slots=True)
class Observed:
    """A measure at the nodes that carry it: `low` and `high` `[m]` are what it may be, equal where it was observed.

    A missing value may be anything in [0, 1]: every bound takes the end that hurts it.
    """

    low: Array
    high: Array

    def worst(self, weight: Array) -> Array:
        """Return the end `[m]` that makes `weight * value` smallest."""
        return np.where(weight > 0, self.low, self.high)


def reward_measure(problem: Problem) -> Measure:
    """Return the reward as a measure; RefusedError if no range was declared."""
    reward = problem.reward
    if reward.range is None:
        raise RefusedError(
            f"reward '{reward.column}': no range is declared, and it is never taken from the data; write the smallest and the "
            "largest reward that can occur under 'range' in the problem file"
        )
    return Measure(reward.column, *reward.range, goal=reward.goal, unit=reward.unit, clip=reward.clip)


def guard_measures(problem: Problem) -> tuple[Measure, ...]:
    """Return the guards as measures."""
    return tuple(
        Measure(guard.column, *guard.range, goal=guard.goal, guard=True, allowed=guard.max_worsening) for guard in problem.guards
    )


def check_totals(problem: Problem, measure: Measure) -> None:
    """Raise RefusedError if totals over clusters are asked for and an episode that never came would not count as 0, the worst."""
    if problem.cluster_most is not None and (measure.low != 0 or measure.goal != "maximise"):
        several = len(problem.cluster_columns) > 1
        named = f"columns: [{problem.cluster_name}]" if several else f"column: {problem.cluster_name}"
        raise RefusedError(
            f"with 'cluster: {{{named}, most: {problem.cluster_most}}}' the claim is about totals, in which an "
            f"episode that never came earns 0: the reward '{measure.column}' then needs a range that starts at 0 and the goal "
            "maximise. Rescale it; or certify gains only (--gain-only), which do not depend on where the range starts"
        )


def observe(measure: Measure, batch: Batch, rows: AnyArray | None = None) -> Observed:
    """Return the measure at the innermost rows of a batch, or at some of them. RefusedError names what lies outside the range."""
    if measure.guard:
        found, seen = batch.guards[measure.column], None
    elif batch.reward is None:
        raise RefusedError(f"the log holds no column '{measure.column}'; a certificate needs it")
    else:
        found, seen = batch.reward, batch.observed
    known = np.isfinite(found) if seen is None else np.isfinite(found) & seen
    if rows is not None:
        found, known = found[rows], known[rows]
    scaled = measure.scaled(np.where(known, found, measure.low))
    outside = known & ~((scaled >= 0.0) & (scaled <= 1.0))
    if outside.any() and not measure.clip:
        first = int(np.argmax(outside))
        raise RefusedError(_outside(measure, batch.where(first if rows is None else int(rows[first])), found[first], outside))
    inside = np.clip(scaled, 0.0, 1.0)
    if known.all():
        return Observed(inside, inside)
    return Observed(np.where(known, inside, 0.0), np.where(known, inside, 1.0))


def _outside(measure: Measure, place: str, value: float, outside: AnyArray) -> str:
    more = int(outside.sum()) - 1
    others = f" (as {'does' if more == 1 else 'do'} {more} more nearby)" if more else ""
    return (
        f"{place}, column '{measure.column}': {value:g} lies outside the declared range [{measure.low:g}, {measure.high:g}]"
        f"{others}; widen the range to what can occur, or write 'clip: true' to certify the clipped value"
    )
