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
    rows_by_rate_and_cap,
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

    if explore == 1.0:  # a uniform legacy has no action of its own
        return HypotheticalStudy(
            logging=logging,
            candidate=candidate,
            control=mean,
            mean=mean,
            residual=residual,
            largest=1.0 - 1.0 / limit,
            pool=pool,
            comparator=logging,
        )
    incumbent = (np.arange(actions) == own[:, None]).astype(np.float64)
    return HypotheticalStudy(
        logging=logging,
        candidate=candidate,
        control=mean,
        mean=mean,
        residual=residual,
        largest=capped_variation(limit, explore),
        pool=pool,
        comparator=incumbent,
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
        return LevelPlan(
            level=level.name,
            source="guess",
            deterministic=False,
            rows=(),
            cost_known=False,
            within=None,
            notes=(interval_note(level.name),),
        )
    width = measure.width
    gain, loss = _checked_gain(level, guess, width, measure.goal), guess.loss or 0.0
    typical = known.typical if guess.typical is None else _checked_typical(guess.typical, measure)
    spread = known.spread if guess.spread is None else ALLOWANCE * _checked_spread(guess.spread, width) / width
    decisions = guess.decisions or known.decisions
    lost = guess.loss if guess.loss is not None else _most_lost(gain, typical, width)

    def evaluate(rate: float | None, cap: float) -> PlanRow:
        if rate is None:
            raise SettingError("a guess needs an exploration rate")
        rng = stream(settings.seed, "plan", "guess")
        centre = MIDDLE if typical is None else typical
        play = study_from_guess(level.actions.count, rate, cap, gain / width, loss / width, spread, centre, decisions, rng)
        row = forecast_row((play,), rate, cap, level.margin / width, delta, width, known.units, settings.seed)
        count_row()
        return replace(row, cost=rate * lost)

    rows = rows_by_rate_and_cap(evaluate, exploration_rates(level, settings), settings.caps)
    within = None if settings.within is None else smallest_sufficient_rate(evaluate, rows, settings.within, settings.caps)
    return LevelPlan(
        level=level.name,
        source="guess",
        deterministic=deterministic,
        rows=rows,
        cost_known=guess.loss is not None,
        within=within,
        notes=notes,
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


def _checked_gain(level: Level, guess: PlanGuess, width: float, goal: str) -> float:
    if guess.gain is None:
        raise SettingError("say which gain is hoped for, in the reward's units (--gain), or give a pilot log to take it from")
    if spacing(guess.gain, guess.loss or 0.0) > width:
        random = "" if guess.loss is None else f" and a random one {better_by(-guess.loss, goal)}"
        raise SettingError(
            f"gain: if the best action {better_by(guess.gain, goal)} than the legacy's own{random}, actions differ by "
            f"{spacing(guess.gain, guess.loss or 0.0):g} or so, more than the declared range of the reward, {width:g} from end "
            "to end; gains are counted in the reward's units per decision"
        )
    if guess.gain <= level.margin:
        raise SettingError(
            f"gain: {guess.gain:g} does not exceed the margin {level.margin:g} of level '{level.name}', which is what a "
            "certificate has to show; hope for more, or declare a smaller margin"
        )
    return guess.gain


def _checked_spread(spread: float, width: float) -> float:
    if spread > width / 2:
        raise SettingError(
            f"spread: no reward within the declared range, {width:g} from end to end, has a standard deviation above "
            f"{width / 2:g}; found {spread:g}. Give the standard deviation, not the variance, in the reward's units"
        )
    return spread


def _most_lost(gain: float, typical: float | None, width: float) -> float:
    """Return the most that a random action can earn less than the legacy's own, in the reward's units.

    It earns the worst possible reward at least; the legacy, the best possible minus the gain at most.
    """
    return width - gain if typical is None else typical * width


def _checked_typical(typical: float, measure: Measure) -> float:
    if not measure.low <= typical <= measure.high:
        raise SettingError(
            f"typical: what the legacy {earning_verb(measure.goal)} lies within the declared range of the reward, "
            f"[{measure.low:g}, {measure.high:g}]; found {typical:g}"
        )
    return float(measure.scaled(np.array(typical)))
