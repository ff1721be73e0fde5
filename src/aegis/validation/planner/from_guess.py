"""The plan of a level from a guess: nothing is known of it but what the problem declares and what somebody expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from aegis.certificate.measures import Measure
from aegis.errors import SettingError
from aegis.problem import Level
from aegis.rng import stream
from aegis.validation.planner.forecast import forecast
from aegis.validation.planner.guess import guessed_play, spacing
from aegis.validation.planner.rates import all_rows, enough
from aegis.validation.planner.results import LevelPlan, Row
from aegis.validation.planner.settings import ALLOWANCE, SPREAD_SHARE, Guess, Settings
from aegis.validation.planner.words import better_by, verb

MIDDLE = 0.5
PRIOR_UNITS = 100  # that bets are placed on, where nobody has logged any


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a level where nobody guesses it, scaled to [0, 1]: what the legacy earns, how rewards vary, decisions.

    typical: None if it is not known; the middle of the range then stands for it. spread: of all rewards in a log, in which the
    differences between contexts are contained, or a share of the range with the allowance for these. units: that bets are placed
    on, before anything is certified.
    """

    typical: float | None = None
    spread: float = ALLOWANCE * SPREAD_SHARE
    decisions: int = 1
    units: int = PRIOR_UNITS


def guessed_level(
    level: Level,
    guess: Guess,
    known: Known,
    settings: Settings,
    delta: float,
    measure: Measure,
    notes: tuple[str, ...] = (),
    deterministic: bool = False,
    told: Callable[[], None] = lambda: None,
) -> LevelPlan:
    """Return the plan; SettingError if the gain is larger than the range or does not exceed the margin. told: after every row."""
    if level.actions.continuous:
        return LevelPlan(level.name, "guess", False, (), False, None, (not_finite(level.name),))
    width = measure.width
    gain, loss = _checked_gain(level, guess, width, measure.goal), guess.loss or 0.0
    typical = known.typical if guess.typical is None else _checked_typical(guess.typical, measure)
    spread = known.spread if guess.spread is None else ALLOWANCE * _checked_spread(guess.spread, width) / width
    decisions = guess.decisions or known.decisions
    lost = guess.loss if guess.loss is not None else _most_lost(gain, typical, width)

    def evaluate(rate: float | None, cap: float) -> Row:
        if rate is None:
            raise SettingError("a guess needs an exploration rate")
        rng = stream(settings.seed, "plan", "guess")
        centre = MIDDLE if typical is None else typical
        play = guessed_play(level.actions.count, rate, cap, gain / width, loss / width, spread, centre, decisions, rng)
        row = forecast((play,), rate, cap, level.margin / width, delta, width, known.units, settings.seed)
        told()
        return replace(row, cost=rate * lost)

    rows = all_rows(evaluate, rates_of(level, settings), settings.caps)
    within = None if settings.within is None else enough(evaluate, rows, settings.within, settings.caps)
    return LevelPlan(level.name, "guess", deterministic, rows, guess.loss is not None, within, notes)


def not_finite(level: str) -> str:
    """Say why there is no plan for a level whose actions are an interval."""
    return (
        f"level '{level}': its actions are an interval, and there is no planner for intervals: plans are made for finitely many "
        "actions, with the legacy's whole distribution. Nothing is forecast here. What makes a certificate come sooner: a wider "
        "'bandwidth', a candidate that chooses nearer to what the legacy chooses, a legacy that spreads its choices more, and "
        "more episodes"
    )


def rates_of(level: Level, settings: Settings) -> tuple[float, ...]:
    """Return the rates to compare, among them the one that the problem declares for the level."""
    declared = None if level.propensity is None else level.propensity.epsilon
    return settings.explore if declared is None else tuple(sorted({*settings.explore, declared}))


def _checked_gain(level: Level, guess: Guess, width: float, goal: str) -> float:
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
            f"typical: what the legacy {verb(measure.goal)} lies within the declared range of the reward, "
            f"[{measure.low:g}, {measure.high:g}]; found {typical:g}"
        )
    return float(measure.scaled(np.array(typical)))
