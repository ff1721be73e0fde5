"""The reward, or a guard, as a number in [0, 1] where 1 is best; missing values; a declared range of means; predictions.

A missing value may be anything in [0, 1]: every bound takes the end that hurts it (`Observed.worst`). A declared range of the
mean reward below a decision may be narrower than that of single rewards (theory section 3): rewards r in [0, 1] become
r' = (r - low)/width. A bet of lam on a gain in r is a bet of lam width on the gain in r'. Evidence, bets and bounds stay on
the scale of single rewards, and only their reach grows.

Bets and control variates use reward models that were fitted on prior units only. A prediction can be as wrong as it likes: a
certificate stays valid, it only takes more data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.errors import AegisError, RefusedError
from aegis.mechanisms import LevelRewards, ModelSettings, fit_scalings
from aegis.problem import AnyArray, Array, Batch, Problem, RewardModel, Scope


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
        share = (values - self.low) / self.width
        return share if self.goal == "maximise" else 1.0 - share

    def value(self, scaled: float) -> float:
        """Return a scaled value in the column's units."""
        return self.low + scaled * self.width if self.goal == "maximise" else self.high - scaled * self.width

    def gain(self, scaled: float) -> float:
        """Return a scaled gain in the column's units; above 0 is better for either goal."""
        return scaled * self.width


@dataclass(frozen=True, slots=True)
class Observed:
    """A measure at the nodes that carry it: `low` and `high` `[m]` are what it may be, equal where it was observed."""

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
            f"reward '{reward.column}': no range is declared, and it is never taken from the data",
            fix="write the smallest and the largest reward that can occur under 'range' in the problem file",
        )
    return Measure(reward.column, *reward.range, goal=reward.goal, unit=reward.unit, clip=reward.clip)


def guard_measures(problem: Problem) -> tuple[Measure, ...]:
    """Return the guards as measures."""
    return tuple(
        Measure(guard.column, *guard.range, goal=guard.goal, guard=True, allowed=guard.max_worsening) for guard in problem.guards
    )


def check_cluster_totals(problem: Problem, measure: Measure) -> None:
    """Raise RefusedError if totals over clusters are asked for and an episode that never came would not count as 0, the worst."""
    if problem.cluster_most is not None and (measure.low != 0 or measure.goal != "maximise"):
        several = len(problem.cluster_columns) > 1
        named = f"columns: [{problem.cluster_name}]" if several else f"column: {problem.cluster_name}"
        raise RefusedError(
            f"with 'cluster: {{{named}, most: {problem.cluster_most}}}' the claim is about totals, in which an "
            f"episode that never came earns 0: the reward '{measure.column}' then needs a range that starts at 0 and the goal "
            "maximise",
            fix="rescale it, or certify gains only (--gain-only), which do not depend on where the range starts",
        )


def observe(measure: Measure, batch: Batch, rows: AnyArray | None = None) -> Observed:
    """Return the measure at the innermost rows of a batch, or at some of them. RefusedError names what lies outside the range."""
    if measure.guard:
        values, mask = batch.guards[measure.column], None
    elif batch.reward is None:
        raise RefusedError(f"the log holds no column '{measure.column}', which a certificate needs")
    else:
        values, mask = batch.reward, batch.observed
    known = np.isfinite(values) if mask is None else np.isfinite(values) & mask
    if rows is not None:
        values, known = values[rows], known[rows]
    scaled = measure.scaled(np.where(known, values, measure.low))
    outside = known & ~((scaled >= 0.0) & (scaled <= 1.0))
    if outside.any() and not measure.clip:
        first, more = int(np.argmax(outside)), int(outside.sum()) - 1
        others = f" (as {'does' if more == 1 else 'do'} {more} more nearby)" if more else ""
        raise RefusedError(
            f"{batch.where(first if rows is None else int(rows[first]))}, column '{measure.column}': {values[first]:g} lies "
            f"outside the declared range [{measure.low:g}, {measure.high:g}]{others}",
            fix="widen the range to what can occur, or write 'clip: true' to certify the clipped value",
        )
    inside = np.clip(scaled, 0.0, 1.0)
    if known.all():
        return Observed(inside, inside)
    return Observed(np.where(known, inside, 0.0), np.where(known, inside, 1.0))


MEAN_ROUND_OFF = 1e-12


@dataclass(frozen=True, slots=True)
class MeanRange:
    """Limits of the means below the decisions of a level, on the scale of the measure."""

    level: str
    measure: Measure
    low: float = 0.0
    high: float = 1.0

    @property
    def width(self) -> float:
        """Return the share of the range of single rewards that is left."""
        return self.high - self.low

    def scaled(self, values: Array) -> Array:
        """Return values on the scale on which the limits are 0 and 1; what lies outside is put at the nearer one."""
        return np.clip((values - self.low) / self.width, 0.0, 1.0)

    def observed(self, means: Observed, batch: Batch) -> Observed:
        """Return what was observed below each decision on that scale; RefusedError names the first outside the limits.

        Where rewards are missing the mean may be anything from `low` to `high`, and lies within the limits all the same.
        """
        outside = (means.low > self.high + MEAN_ROUND_OFF) | (means.high < self.low - MEAN_ROUND_OFF)
        known = means.low == means.high
        outside |= known & ~((means.low >= self.low - MEAN_ROUND_OFF) & (means.high <= self.high + MEAN_ROUND_OFF))
        if outside.any():
            decision, measure = int(np.argmax(outside)), self.measure
            first = int(np.argmax(batch.ancestors(list(batch.levels)[-1])[self.level] == decision))
            limits = sorted(measure.value(end) for end in (self.low, self.high))
            raise RefusedError(
                f"{batch.where(first)}, column '{measure.column}': the mean below this decision of level '{self.level}' is "
                f"{measure.value(float(means.low[decision])):g}, outside the declared 'mean_range' "
                f"[{limits[0]:g}, {limits[1]:g}]",
                fix="widen it to what can occur, or leave it out",
            )
        low = self.scaled(means.low)
        return Observed(low, low if means.high is means.low else self.scaled(means.high))


def mean_range_of(problem: Problem, scope: Scope, measure: Measure) -> MeanRange | None:
    """Return the limits of means at the level of a scope; None for guards, several levels, or where none are declared."""
    if len(scope) != 1 or measure.guard:
        return None
    (name,) = scope
    declared = problem.level(name).mean_range
    if declared is None:
        return None
    low, high = sorted(measure.scaled(np.array(declared)).tolist())
    return MeanRange(name, measure, low, high)


REWARD_FEATURES = ("linear", "polynomial")


def with_measure_as_reward(batch: Batch, measure: Measure) -> Batch:
    """Return the batch with the measure in the place of the reward."""
    return batch if not measure.guard else replace(batch, reward=batch.guards[measure.column], observed=None)


def constant_prediction(measure: Measure, prior: Batch | None) -> float:
    """Return one prediction for every unit: the mean of the measure over the prior side, 0.5 without one."""
    reward = None if prior is None else with_measure_as_reward(prior, measure).reward
    known = np.zeros(0) if reward is None else reward[np.isfinite(reward)]
    # Settled, as predictions are: evidence must not depend on the order in which the units came.
    return 0.5 if not known.size else round(float(np.clip(measure.scaled(known).mean(), 0.0, 1.0)) * 2.0**20) / 2.0**20


def fit_reward_models(problem: Problem, prior: Batch, levels: Sequence[str] | None = None) -> LevelRewards | None:
    """Return reward models fitted to a batch, the likeliest of a few for each level; None if nothing can be fitted."""
    try:
        scalings = fit_scalings(problem, [prior])
        if problem.reward.column not in scalings:
            return None
        fitted = [
            LevelRewards.prior(problem, ModelSettings(features=features), scalings, levels).update(prior)
            for features in REWARD_FEATURES
        ]
        return LevelRewards.likeliest(fitted)[0]
    except AegisError:  # a log too small or too odd for a regression: the constant does
        return None


@dataclass(slots=True)
class RewardModels:
    """Predictions fixed before the certified units were looked at.

    rewards: by measured column, one model per level, in the column's units; a column without one is predicted by `guess`.
    guess: by column, a scaled constant. below: by scope, the modelled scaled mean reward below an outer action with the
    candidate acting at the inner levels of that scope (joint scopes only).
    """

    rewards: dict[str, RewardModel] = field(default_factory=dict)
    guess: dict[str, float] = field(default_factory=dict)
    below: dict[tuple[str, Scope], RewardModel] = field(default_factory=dict)


def round_predictions(predictions: Array) -> Array:
    """Return predictions as multiples of 2^-20 in [0, 1].

    The last digits of a matrix product depend on how many rows there are; evidence must not depend on the blocks a log comes in.
    """
    return np.round(np.clip(np.nan_to_num(predictions, nan=0.5), 0.0, 1.0) * 2.0**20) / 2.0**20
