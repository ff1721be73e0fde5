"""The plan of a level from a guess: nothing is known of it but what the problem declares and what somebody expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from aegis.errors import SettingError
from aegis.problem import Level
from aegis.rng import stream
from aegis.validation.planner.forecast import forecast, out_of_reach
from aegis.validation.planner.guess import guessed_play
from aegis.validation.planner.rates import Evaluate, all_rows, enough
from aegis.validation.planner.results import LevelPlan, Row
from aegis.validation.planner.settings import SPREAD_SHARE, Guess, Settings


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a level beside the guess, scaled to [0, 1]: what the legacy earns, how rewards vary, decisions in a unit."""

    typical: float = 0.5
    spread: float = SPREAD_SHARE
    decisions: int = 1
    most_lost: float | None = None


def guessed_level(
    level: Level,
    guess: Guess,
    known: Known,
    settings: Settings,
    delta: float,
    width: float,
    notes: tuple[str, ...] = (),
    deterministic: bool = False,
    told: Callable[[], None] = lambda: None,
) -> LevelPlan:
    """Return the plan; SettingError if the gain is larger than the range or does not exceed the margin. told: after every row."""
    gain = _checked_gain(level, guess, width)
    spread = known.spread if guess.spread is None else guess.spread / width
    decisions = guess.decisions or known.decisions
    # The candidate earns `gain` more than the legacy, so that the legacy is at least that far from the best end of the range.
    most_lost = width - gain if known.most_lost is None else known.most_lost * width

    def evaluate(rate: float | None, cap: float) -> Row:
        if rate is None:
            raise SettingError("a guess needs an exploration rate")
        play = guessed_play(
            level.actions.count, rate, cap, gain / width, spread, known.typical, decisions, stream(settings.seed, "plan", "guess")
        )
        if play is None:
            row = out_of_reach(rate, cap, gain)
        else:
            row = forecast((play,), rate, cap, level.margin / width, delta, width, settings.seed)
        told()
        return replace(row, cost=rate * most_lost)

    rows = all_rows(evaluate, rates_of(level, settings), settings.caps)
    within = None if settings.within is None else enough(evaluate, rows, settings.within, settings.caps)
    return LevelPlan(level.name, "guess", deterministic, rows, False, within, notes)


def rates_of(level: Level, settings: Settings) -> tuple[float, ...]:
    """Return the rates to compare, among them the one that the problem declares for the level."""
    declared = None if level.propensity is None else level.propensity.epsilon
    return settings.explore if declared is None else tuple(sorted({*settings.explore, declared}))


def _checked_gain(level: Level, guess: Guess, width: float) -> float:
    if guess.gain is None:
        raise SettingError("say which gain is hoped for, in the reward's units (--gain), or give a pilot log to take it from")
    if guess.gain >= width:
        raise SettingError(
            f"gain: {guess.gain:g} is not smaller than the declared range of the reward, {width:g} from end to end: no policy can "
            "gain so much; it is counted in the reward's units per decision"
        )
    if guess.gain <= level.margin:
        raise SettingError(
            f"gain: {guess.gain:g} does not exceed the margin {level.margin:g} of level '{level.name}', which is what a certificate "
            "has to show; hope for more, or declare a smaller margin"
        )
    return guess.gain


__all__ = ["Evaluate", "Known", "guessed_level", "rates_of"]
