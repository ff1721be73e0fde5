"""The plan of the levels of a problem from a pilot log, with its notes in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.certificate import Candidate, Reach, can_water_fill
from aegis.ope import CandidateView, Measure, RewardModels
from aegis.policies import Logged
from aegis.problem import Batch, Level, Problem, Scope
from aegis.validation.planner.forecast import forecast_row
from aegis.validation.planner.guess import KnownLevel, exploration_rates, interval_note, plan_from_guess
from aegis.validation.planner.pilot_level import (
    REFERENCE_CAP,
    LegacyBehaviour,
    PilotLevel,
    cut_in_halves,
    fit_half,
    make_pilot_level,
)
from aegis.validation.planner.plan_result import (
    OVER_EXPLORING_LEGACY,
    OVER_INCUMBENT,
    LevelPlan,
    PlanRow,
    better_by,
    smallest_sufficient_rate,
)
from aegis.validation.planner.plan_settings import PlanGuess, PlanSettings

NOTABLE = 0.05  # share of the modelled differences from which it is said that it was taken off


def no_gain_note(level: str, pilot: PilotLevel, measure: Measure, counts: bool) -> str:
    """Return that the pilot shows no gain, and what it shows; counts: the numbers of the plan are made from it all the same."""
    width = measure.width
    shown = f"{_who(pilot)} gains {pilot.robust * width:.3g} there, give or take {2 * pilot.error * width:.3g}"
    note = f"the pilot itself shows no gain yet at level '{level}': {shown}"
    if not counts:
        return note
    return (
        f"{note}; what is counted on is {pilot.counted * width + 0.0:.3g}, as in the table. Take the numbers for a guess, or "
        "give the gain that is hoped for (--gain)"
    )


def _who(pilot: PilotLevel) -> str:
    return f"a candidate capped at {REFERENCE_CAP:g}" if pilot.caps is None else "the candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """A pilot log in two halves, with the reward models of each; candidate: the user's, None for capped ones.

    delta: the risk of one claim. count_row: called after every row of the plan.
    """

    problem: Problem
    measure: Measure
    batch: Batch
    candidate: Candidate | None
    guess: PlanGuess
    settings: PlanSettings
    delta: float
    count_row: Callable[[], None]
    halves: tuple[Batch, Batch] = field(init=False)
    models: tuple[RewardModels, RewardModels] = field(init=False)

    def __post_init__(self) -> None:
        first, second = cut_in_halves(self.batch, self.settings.seed)
        name = self.problem.innermost.name
        object.__setattr__(self, "halves", (first, second))
        models = tuple(fit_half(self.problem, self.measure, name, half) for half in (first, second))
        object.__setattr__(self, "models", models)

    @property
    def units(self) -> int:
        """Return the number of episodes or clusters."""
        return len(np.unique(self.batch.episode if self.batch.cluster is None else self.batch.cluster))

    def level(self, level: Level) -> LevelPlan:
        """Return the plan of a level; where the log cannot tell, from the guess, or without rows but with the reason."""
        problem, name, gain = self.problem, level.name, self.guess.gain
        if level.actions.continuous:
            return self._without_rows(name, interval_note(name))
        if not can_water_fill(problem, Scope(name), Reach.capped(math.inf)) or problem.carry_over != "none":
            return self._without_rows(name, _not_fillable(name))
        behaviour = LegacyBehaviour.of(self.batch.levels[name], level.actions.count)
        if behaviour is None:
            return self._without_rows(name, _taken_only(name))
        if behaviour.deterministic:
            return self._deterministic(level)
        pilot = make_pilot_level(problem, self.measure, self.halves, self.models, name, self.candidate)
        if pilot is None:
            return self._without_rows(name, _taken_only(name))
        guessed = gain is not None and self.candidate is None and not pilot.shows_gain
        notes = self._notes(level, pilot, behaviour, counts=not guessed)
        if gain is not None and guessed:
            used = (
                f"so the numbers are from the gain that was given: the best action {better_by(gain, self.measure.goal)} than the "
                "legacy's own"
            )
            return self._from_guess(level, (no_gain_note(name, pilot, self.measure, counts=False), used, *notes))
        return self._explored(level, pilot, behaviour, notes)

    def _from_guess(self, level: Level, notes: tuple[str, ...], deterministic: bool = False) -> LevelPlan:
        rewards = CandidateView(self.problem, self.batch, Logged(self.problem), self.models[0]).subtree(self.measure, level.name)
        reward = (rewards.low + rewards.high) / 2
        decisions = max(1, round(reward.size / self.units))
        known = KnownLevel(float(reward.mean()), float(reward.std()), decisions, self.units)
        return plan_from_guess(
            level, self.guess, known, self.settings, self.delta, self.measure, notes, deterministic, self.count_row
        )

    def _explored(self, level: Level, pilot: PilotLevel, behaviour: LegacyBehaviour, notes: tuple[str, ...]) -> LevelPlan:
        width, settings, caps = self.measure.width, self.settings, pilot.caps or self.settings.caps

        def evaluate(rate: float | None, cap: float) -> PlanRow:
            plays, margin = pilot.plays(rate, cap), level.margin / width
            row = forecast_row(plays, rate, cap, margin, self.delta, width, self.units, settings.seed)
            self.count_row()
            return row if rate is None else replace(row, cost=pilot.cost(rate) * width)

        rates: tuple[float | None, ...] = (None,) if behaviour.uniform_already else (None, *exploration_rates(level, settings))
        rows = tuple(evaluate(rate, cap) for rate in rates for cap in caps)
        weak = () if pilot.shows_gain else (no_gain_note(level.name, pilot, self.measure, counts=True),)
        return LevelPlan(
            level=level.name,
            source="pilot",
            notes=(*self._gain_not_used(level.name, pilot), *weak, *notes),
            rows=rows,
            cost_known=True,
            within=smallest_sufficient_rate(evaluate, rows, settings.within, caps),
            comparator=OVER_INCUMBENT if pilot.stated else OVER_EXPLORING_LEGACY,
        )

    def _deterministic(self, level: Level) -> LevelPlan:
        note = (
            f"the legacy leaves nothing to chance at level '{level.name}': no gain can be certified there from such a log, "
            "however long. Mix exploration into it: with a small probability take any available action, and log the probabilities"
        )
        if self.guess.gain is None:
            more = "the log cannot say what other actions earn; give the gain that is hoped for (--gain) to have episodes counted"
            return LevelPlan(level=level.name, source="pilot", notes=(note, more), deterministic=True)
        return self._from_guess(level, (note,), deterministic=True)

    def _without_rows(self, level: str, why: str) -> LevelPlan:
        return LevelPlan(level=level, source="pilot", notes=(why, *self._gain_not_used(level)))

    def _gain_not_used(self, level: str, pilot: PilotLevel | None = None) -> tuple[str, ...]:
        """Return that a gain that was given is not used, and why if the pilot has its own; empty if none was given."""
        if self.guess.gain is None:
            return ()
        note = f"the gain of {self.guess.gain:g} that was given is not used at level '{level}'"
        if pilot is None:
            return (note,)
        gains = f"{_who(pilot)} gains {pilot.counted * self.measure.width:.3g}"
        if self.candidate is not None:
            return (f"{note}: the plan is for the policy that was given, and {gains} by the pilot",)
        return (f"{note}: the pilot shows its own: {gains} there, which is what counts",)

    def _notes(self, level: Level, pilot: PilotLevel, behaviour: LegacyBehaviour, counts: bool) -> tuple[str, ...]:
        """Return what else is to know. counts: what the pilot says of gains is what counts."""
        observed = self.batch.observed
        missing = 0.0 if observed is None else 1 - float(observed.mean())
        notes = {
            "no reward model could be fitted to the pilot, so that no candidate can be learned from it; make it longer": (
                not (self.models[0].rewards and self.models[1].rewards)
            ),
            f"the fitted model is optimistic: {1 - pilot.shrink:.0%} was taken off its differences between actions, so that they "
            "make the gain that the other half of the pilot shows": counts and 0 < pilot.shrink < 1 - NOTABLE,
            "the legacy chooses uniformly already: it cannot explore more, and what it would do otherwise is not known": (
                behaviour.uniform_already
            ),
            f"{missing:.1%} of the rewards are missing; a certificate counts each at its worst, which takes longer than "
            "shown": missing > 0,
            f"the propensities of level '{level.name}' are estimated; the plan is for those that a controller logs exactly. "
            "Within a declared error ('wrong_by') it takes longer than shown, and without one nothing is certified": (
                level.propensity is not None and level.propensity.estimated
            ),
            "if the policy was learned from this very log, the pilot flatters it: take the numbers for a lower limit": (
                self.candidate is not None and bool(self.candidate.record)
            ),
        }
        return tuple(note for note, holds in notes.items() if holds)


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
