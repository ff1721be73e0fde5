"""The plan of the levels of a problem from a pilot log."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from aegis.certificate import Candidate
from aegis.certificate.measures import Measure
from aegis.certificate.parts import Reach, fillable
from aegis.certificate.view import Models, View
from aegis.policies import Logged
from aegis.problem import Batch, Level, Problem, Scope
from aegis.validation.planner.forecast import forecast
from aegis.validation.planner.from_guess import Known, guessed_level, not_finite, rates_of
from aegis.validation.planner.legacy import Behaviour
from aegis.validation.planner.pilot import PilotLevel, cut_in_halves, fit_half, pilot_level
from aegis.validation.planner.pilot_notes import instead, no_gain, not_used, pilot_notes
from aegis.validation.planner.rates import all_rows, enough
from aegis.validation.planner.results import EXPLORING, INCUMBENT, LevelPlan, Row
from aegis.validation.planner.settings import Guess, Settings


@dataclass(frozen=True, slots=True)
class Pilot:
    """A pilot log in two halves, with the reward models of each; given: the user's candidate, None for capped ones."""

    problem: Problem
    measure: Measure
    batch: Batch
    halves: tuple[Batch, Batch]
    models: tuple[Models, Models]
    given: Candidate | None

    @classmethod
    def of(cls, problem: Problem, measure: Measure, batch: Batch, given: Candidate | None, seed: int) -> Pilot:
        """Cut a batch in halves and fit their models."""
        first, second = cut_in_halves(batch, seed)
        name = problem.innermost.name
        models = fit_half(problem, measure, name, first), fit_half(problem, measure, name, second)
        return cls(problem, measure, batch, (first, second), models, given)

    @property
    def units(self) -> int:
        """Return the number of episodes or clusters."""
        return len(np.unique(self.batch.episode if self.batch.cluster is None else self.batch.cluster))

    def level(
        self, level: Level, guess: Guess, settings: Settings, delta: float, told: Callable[[], None] = lambda: None
    ) -> LevelPlan:
        """Return the plan of a level; where the log cannot tell, from the guess, or without rows but with the reason."""
        problem, name = self.problem, level.name
        if level.actions.continuous:
            return _untold(name, guess, not_finite(name))
        if not fillable(problem, Scope(name), Reach.capped(math.inf)) or problem.carry_over != "none":
            return _untold(name, guess, _not_fillable(name))
        behaviour = Behaviour.of(self.batch.levels[name], level.actions.count)
        if behaviour is None:
            return _untold(name, guess, _taken_only(name))
        if behaviour.deterministic:
            return self._deterministic(level, guess, settings, delta, told)
        found = pilot_level(problem, self.measure, self.halves, self.models, name, self.given)
        if found is None:
            return _untold(name, guess, _taken_only(name))
        modelled = bool(self.models[0].rewards and self.models[1].rewards)
        guessed = guess.gain is not None and self.given is None and not found.shows_gain
        notes = pilot_notes(level, self.batch, found, behaviour, modelled, self.given, counts=not guessed)
        if guess.gain is not None and guessed:
            told_by = (no_gain(level.name, found, self.measure, counts=False), instead(guess.gain, self.measure))
            return guessed_level(level, guess, self._known(level), settings, delta, self.measure, (*told_by, *notes), False, told)
        return self._explored(level, guess, found, behaviour, notes, settings, delta, told)

    def _explored(
        self,
        level: Level,
        guess: Guess,
        found: PilotLevel,
        behaviour: Behaviour,
        notes: tuple[str, ...],
        settings: Settings,
        delta: float,
        told: Callable[[], None],
    ) -> LevelPlan:
        width = self.measure.width
        caps = found.caps or settings.caps

        def evaluate(rate: float | None, cap: float) -> Row:
            row = forecast(found.plays(rate, cap), rate, cap, level.margin / width, delta, width, self.units, settings.seed)
            told()
            return row if rate is None else replace(row, cost=found.cost(rate) * width)

        rates: tuple[float | None, ...] = (None,) if behaviour.uniform_already else (None, *rates_of(level, settings))
        rows = all_rows(evaluate, rates, caps)
        within = None if settings.within is None else enough(evaluate, rows, settings.within, caps)
        unused = () if guess.gain is None else (not_used(level.name, guess.gain, found, self.measure, self.given),)
        weak = () if found.shows_gain else (no_gain(level.name, found, self.measure, counts=True),)
        comparator = INCUMBENT if found.stated else EXPLORING
        return LevelPlan(level.name, "pilot", False, rows, True, within, (*unused, *weak, *notes), comparator)

    def _deterministic(self, level: Level, guess: Guess, settings: Settings, delta: float, told: Callable[[], None]) -> LevelPlan:
        note = (
            f"the legacy leaves nothing to chance at level '{level.name}': no gain can be certified there from such a log, "
            "however long. Mix exploration into it: with a small probability take any available action, and log the probabilities"
        )
        if guess.gain is None:
            more = "the log cannot say what other actions earn; give the gain that is hoped for (--gain) to have episodes counted"
            return LevelPlan(level.name, "pilot", True, (), False, None, (note, more))
        return guessed_level(level, guess, self._known(level), settings, delta, self.measure, (note,), True, told)

    def _known(self, level: Level) -> Known:
        seen = View(self.problem, self.batch, Logged(self.problem), self.models[0]).subtree(self.measure, level.name)
        reward = (seen.low + seen.high) / 2
        return Known(float(reward.mean()), float(reward.std()), max(1, round(reward.size / self.units)), self.units)


def _untold(level: str, guess: Guess, why: str) -> LevelPlan:
    """Return a level without rows; a gain that was given is not used then, which is said."""
    unused = () if guess.gain is None else (f"the gain of {guess.gain:g} that was given is not used at level '{level}'",)
    return LevelPlan(level, "pilot", False, (), False, None, (why, *unused))


def _not_fillable(level: str) -> str:
    return (
        f"level '{level}': plans are made for rewards that belong to decisions at or below the level and do not depend on "
        "earlier decisions (carry_over: none); otherwise certify what there is, and 'not yet' says how many further episodes it "
        "would take"
    )


def _taken_only(level: str) -> str:
    return (
        f"level '{level}': the log holds the probability of the action taken only, or lacks some; a plan needs the legacy's "
        "whole distribution: log one column per action (propensity 'columns'), or the action it meant to take and its "
        "exploration rate ('base' and 'epsilon'); or plan from a guess, without the log"
    )
