"""The plan of a level from a guess, before there is any data.

In the stylised level of a guess, actions earn evenly spaced rewards, the legacy has an action of its own and explores
uniformly, and the candidate is the best one that its cap allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from aegis.errors import SettingError
from aegis.ope import Measure, capped_variation
from aegis.policies import capped_probabilities
from aegis.problem import Array, Level
from aegis.rng import stream
from aegis.validation.planner.forecast import HypotheticalStudy, forecast_row
from aegis.validation.planner.plan_result import (
    LevelPlan,
    PlanRow,
    better_by,
    earning_verb,
    smallest_sufficient_rate,
)
from aegis.validation.planner.plan_settings import ALLOWANCE, SPREAD_SHARE, PlanGuess, PlanSettings

ROWS = 4000

CELLS = 2**20  # rows x actions

LEAST_UNITS = 200

STEEPEST = 1e4  # beyond it the legacy's own action is the best one, or the worst

HALVINGS = 60


def spacing(gain: float, loss: float) -> float:
    """Return how far apart the best and the worst action are: a random one lies half of that below the best."""
    return 2.0 * (gain + loss)


def study_from_guess(
    actions: int,
    explore: float,
    limit: float,
    gain: float,
    loss: float,
    spread: float,
    typical: float,
    decisions: int,
    rng: np.random.Generator,
) -> HypotheticalStudy:
    """Return the study of a guess; everything is scaled to rewards in [0, 1], and spacing(gain, loss) is at most 1.

    gain: of the best action over the legacy's own, on average. loss: of a random action against it, below 0 if that earns more.
    typical: what the legacy's own action earns; it is moved where rewards would leave the range. decisions: of the level in one
    unit; they share the legacy's own action, so that they tell less than as many units would.
    """
    apart = spacing(gain, loss)
    scores = np.linspace(-0.5, 0.5, actions)
    units = max(LEAST_UNITS, -(-min(ROWS, CELLS // actions) // decisions))
    places = np.searchsorted(np.cumsum(own_chances(scores, loss / apart)), (np.arange(units) + 0.5) / units)
    own = np.repeat(np.minimum(places, actions - 1), decisions)
    logging = np.full((own.size, actions), explore / actions)
    logging[np.arange(own.size), own] += 1.0 - explore
    candidate = capped_probabilities(np.tile(scores, (own.size, 1)), logging, limit)
    middle = min(max(typical - loss, apart / 2), 1 - apart / 2)
    mean = np.tile(middle + apart * scores, (own.size, 1))
    residual = spread * rng.standard_normal(own.size)

    def pool(values: Array) -> Array:
        return np.asarray(values.reshape(units, decisions, -1).mean(axis=1))

    uniform = explore == 1.0  # such a legacy has no action of its own
    return HypotheticalStudy(
        logging=logging,
        candidate=candidate,
        control=mean,
        mean=mean,
        residual=residual,
        largest=1.0 - 1.0 / limit if uniform else capped_variation(limit, explore),
        pool=pool,
        comparator=logging if uniform else (np.arange(actions) == own[:, None]).astype(np.float64),
    )


def own_chances(scores: Array, place: float) -> Array:
    """Return with which chances `[A]` each action is the legacy's own: any of them, tilted until their mean score is `place`."""
    low, high = -STEEPEST, STEEPEST
    for _ in range(HALVINGS):
        tilt = 0.5 * (low + high)
        if _tilted(scores, tilt) @ scores < place:
            low = tilt
        else:
            high = tilt
    return _tilted(scores, low)


def _tilted(scores: Array, tilt: float) -> Array:
    powers = tilt * scores
    weights = np.exp(powers - powers.max())
    return np.asarray(weights / weights.sum())


MIDDLE = 0.5

PRIOR_UNITS = 100  # that bets are placed on, without a log


@dataclass(frozen=True, slots=True)
class KnownLevel:
    """What is known of a level where the guess is silent, scaled to [0, 1]: what the legacy earns, how rewards vary, decisions.

    typical: None if it is not known; the middle of the range then stands for it. spread: of all rewards in a log, in which the
    differences between contexts are contained, or a share of the range with the allowance for these. units: that bets are placed
    on, before anything is certified.
    """

    typical: float | None = None
    spread: float = ALLOWANCE * SPREAD_SHARE
    decisions: int = 1
    units: int = PRIOR_UNITS


def plan_from_guess(
    level: Level,
    guess: PlanGuess,
    known: KnownLevel,
    settings: PlanSettings,
    delta: float,
    measure: Measure,
    notes: tuple[str, ...] = (),
    deterministic: bool = False,
    count_row: Callable[[], None] = lambda: None,
) -> LevelPlan:
    """Return the plan; SettingError if the gain is larger than the range or does not exceed the margin.

    count_row: called after every row.
    """
    if level.actions.continuous:
        return LevelPlan(level=level.name, source="guess", notes=(interval_note(level.name),))
    width = measure.width
    gain, loss = _check_guess(level, guess, measure), guess.loss or 0.0
    typical = known.typical if guess.typical is None else float(measure.scaled(np.array(guess.typical)))
    spread = known.spread if guess.spread is None else ALLOWANCE * guess.spread / width
    decisions = guess.decisions or known.decisions
    # At most lost by a random action: it earns the worst possible reward at least; the legacy, the best minus the gain at most.
    most_lost = width - gain if typical is None else typical * width
    lost = most_lost if guess.loss is None else guess.loss

    def evaluate(rate: float | None, cap: float) -> PlanRow:
        explore = float(rate or 0.0)  # a guess has no rate 'as logged'
        rng = stream(settings.seed, "plan", "guess")
        centre = MIDDLE if typical is None else typical
        play = study_from_guess(level.actions.count, explore, cap, gain / width, loss / width, spread, centre, decisions, rng)
        row = forecast_row((play,), rate, cap, level.margin / width, delta, width, known.units, settings.seed)
        count_row()
        return replace(row, cost=explore * lost)

    rows = tuple(evaluate(rate, cap) for rate in exploration_rates(level, settings) for cap in settings.caps)
    return LevelPlan(
        level=level.name,
        source="guess",
        notes=notes,
        rows=rows,
        deterministic=deterministic,
        cost_known=guess.loss is not None,
        within=smallest_sufficient_rate(evaluate, rows, settings.within, settings.caps),
    )


def interval_note(level: str) -> str:
    """Say why there is no plan for a level whose actions are an interval."""
    return (
        f"level '{level}': its actions are an interval, and there is no planner for intervals: plans are made for finitely many "
        "actions, with the legacy's whole distribution. Nothing is forecast here. What makes a certificate come sooner: a wider "
        "'bandwidth', a candidate that chooses nearer to what the legacy chooses, a legacy that spreads its choices more, and "
        "more episodes"
    )


def exploration_rates(level: Level, settings: PlanSettings) -> tuple[float, ...]:
    """Return the rates to compare, among them the one that the problem declares for the level."""
    declared = None if level.propensity is None else level.propensity.epsilon
    return settings.explore if declared is None else tuple(sorted({*settings.explore, declared}))


def _check_guess(level: Level, guess: PlanGuess, measure: Measure) -> float:
    """Return the gain of a guess; SettingError where the guess does not fit the declared range of the reward."""
    width, goal = measure.width, measure.goal
    if guess.gain is None:
        raise SettingError("say which gain is hoped for, in the reward's units (--gain), or give a pilot log to take it from")
    if (apart := spacing(guess.gain, guess.loss or 0.0)) > width:
        random = "" if guess.loss is None else f" and a random one {better_by(-guess.loss, goal)}"
        raise SettingError(
            f"gain: if the best action {better_by(guess.gain, goal)} than the legacy's own{random}, actions differ by {apart:g} "
            f"or so, more than the declared range of the reward, {width:g} from end to end; gains are counted in the "
            "reward's units per decision"
        )
    if guess.gain <= level.margin:
        raise SettingError(
            f"gain: {guess.gain:g} does not exceed the margin {level.margin:g} of level '{level.name}', which is what a "
            "certificate has to show; hope for more, or declare a smaller margin"
        )
    if guess.spread is not None and guess.spread > width / 2:
        raise SettingError(
            f"spread: no reward within the declared range, {width:g} from end to end, has a standard deviation above "
            f"{width / 2:g}; found {guess.spread:g}. Give the standard deviation, not the variance, in the reward's units"
        )
    if guess.typical is not None and not measure.low <= guess.typical <= measure.high:
        raise SettingError(
            f"typical: what the legacy {earning_verb(goal)} lies within the declared range of the reward, "
            f"[{measure.low:g}, {measure.high:g}]; found {guess.typical:g}"
        )
    return guess.gain
