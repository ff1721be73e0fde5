"""The plan of the levels of a problem from a pilot log, with its notes in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

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
    rows_by_rate_and_cap,
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


def guess_used_note(gain: float, measure: Measure) -> str:
    """Return that the guess is used where the pilot shows no gain."""
    return (
        f"so the numbers are from the gain that was given: the best action {better_by(gain, measure.goal)} than the legacy's own"
    )


def gain_not_used_note(level: str, gain: float, pilot: PilotLevel, measure: Measure, candidate: Candidate | None) -> str:
    """Return that a gain that was given is not used because the pilot has its own."""
    why = f"the pilot shows its own: {_who(pilot)} gains {pilot.counted * measure.width:.3g} there, which is what counts"
    if candidate is not None:
        why = (
            f"the plan is for the policy that was given, and {_who(pilot)} gains {pilot.counted * measure.width:.3g} by the pilot"
        )
    return f"the gain of {gain:g} that was given is not used at level '{level}': {why}"


def pilot_notes(
    level: Level,
    batch: Batch,
    pilot: PilotLevel,
    behaviour: LegacyBehaviour,
    modelled: bool,
    candidate: Candidate | None,
    counts: bool,
) -> tuple[str, ...]:
    """Return what else is to know; batch: the pilot.

    modelled: both halves have reward models. given: the user's candidate. counts: what the pilot says of gains is what counts.
    """
    notes = []
    if not modelled:
        notes.append("no reward model could be fitted to the pilot, so that no candidate can be learned from it; make it longer")
    if counts and 0 < pilot.shrink < 1 - NOTABLE:
        notes.append(
            f"the fitted model is optimistic: {1 - pilot.shrink:.0%} was taken off its differences between actions, so that they "
            "make the gain that the other half of the pilot shows"
        )
    if behaviour.uniform_already:
        notes.append("the legacy chooses uniformly already: it cannot explore more, and what it would do otherwise is not known")
    if batch.observed is not None and not batch.observed.all():
        missing = 1 - float(batch.observed.mean())
        notes.append(
            f"{missing:.1%} of the rewards are missing; a certificate counts each at its worst, which takes longer than shown"
        )
    if level.propensity is not None and level.propensity.estimated:
        notes.append(
            f"the propensities of level '{level.name}' are estimated; the plan is for those that a controller logs exactly. "
            "Within a declared error ('wrong_by') it takes longer than shown, and without one nothing is certified"
        )
    if candidate is not None and candidate.record:
        notes.append("if the policy was learned from this very log, the pilot flatters it: take the numbers for a lower limit")
    return tuple(notes)


def _who(pilot: PilotLevel) -> str:
    return f"a candidate capped at {REFERENCE_CAP:g}" if pilot.caps is None else "the candidate"


@dataclass(frozen=True, slots=True)
class Pilot:
    """A pilot log in two halves, with the reward models of each; given: the user's candidate, None for capped ones."""

    problem: Problem
    measure: Measure
    batch: Batch
    halves: tuple[Batch, Batch]
    models: tuple[RewardModels, RewardModels]
    candidate: Candidate | None

    @classmethod
    def of(cls, problem: Problem, measure: Measure, batch: Batch, candidate: Candidate | None, seed: int) -> Pilot:
        """Cut a batch in halves and fit their models."""
        first, second = cut_in_halves(batch, seed)
        name = problem.innermost.name
        models = fit_half(problem, measure, name, first), fit_half(problem, measure, name, second)
        return cls(problem=problem, measure=measure, batch=batch, halves=(first, second), models=models, candidate=candidate)

    @property
    def units(self) -> int:
        """Return the number of episodes or clusters."""
        return len(np.unique(self.batch.episode if self.batch.cluster is None else self.batch.cluster))

    def level(
        self, level: Level, guess: PlanGuess, settings: PlanSettings, delta: float, count_row: Callable[[], None] = lambda: None
    ) -> LevelPlan:
        """Return the plan of a level; where the log cannot tell, from the guess, or without rows but with the reason."""
        problem, name = self.problem, level.name
        if level.actions.continuous:
            return _level_without_rows(name, guess, interval_note(name))
        if not can_water_fill(problem, Scope(name), Reach.capped(math.inf)) or problem.carry_over != "none":
            return _level_without_rows(name, guess, _not_fillable(name))
        behaviour = LegacyBehaviour.of(self.batch.levels[name], level.actions.count)
        if behaviour is None:
            return _level_without_rows(name, guess, _taken_only(name))
        if behaviour.deterministic:
            return self._deterministic(level, guess, settings, delta, count_row)
        pilot = make_pilot_level(problem, self.measure, self.halves, self.models, name, self.candidate)
        if pilot is None:
            return _level_without_rows(name, guess, _taken_only(name))
        modelled = bool(self.models[0].rewards and self.models[1].rewards)
        guessed = guess.gain is not None and self.candidate is None and not pilot.shows_gain
        notes = pilot_notes(level, self.batch, pilot, behaviour, modelled, self.candidate, counts=not guessed)
        if guess.gain is not None and guessed:
            told_by = (no_gain_note(level.name, pilot, self.measure, counts=False), guess_used_note(guess.gain, self.measure))
            return plan_from_guess(
                level, guess, self._known(level), settings, delta, self.measure, (*told_by, *notes), False, count_row
            )
        return self._explored(level, guess, pilot, behaviour, notes, settings, delta, count_row)

    def _explored(
        self,
        level: Level,
        guess: PlanGuess,
        pilot: PilotLevel,
        behaviour: LegacyBehaviour,
        notes: tuple[str, ...],
        settings: PlanSettings,
        delta: float,
        count_row: Callable[[], None],
    ) -> LevelPlan:
        width = self.measure.width
        caps = pilot.caps or settings.caps

        def evaluate(rate: float | None, cap: float) -> PlanRow:
            row = forecast_row(pilot.plays(rate, cap), rate, cap, level.margin / width, delta, width, self.units, settings.seed)
            count_row()
            return row if rate is None else replace(row, cost=pilot.cost(rate) * width)

        rates: tuple[float | None, ...] = (None,) if behaviour.uniform_already else (None, *exploration_rates(level, settings))
        rows = rows_by_rate_and_cap(evaluate, rates, caps)
        within = None if settings.within is None else smallest_sufficient_rate(evaluate, rows, settings.within, caps)
        unused = () if guess.gain is None else (gain_not_used_note(level.name, guess.gain, pilot, self.measure, self.candidate),)
        weak = () if pilot.shows_gain else (no_gain_note(level.name, pilot, self.measure, counts=True),)
        comparator = OVER_INCUMBENT if pilot.stated else OVER_EXPLORING_LEGACY
        return LevelPlan(
            level=level.name,
            source="pilot",
            deterministic=False,
            rows=rows,
            cost_known=True,
            within=within,
            notes=(*unused, *weak, *notes),
            comparator=comparator,
        )

    def _deterministic(
        self, level: Level, guess: PlanGuess, settings: PlanSettings, delta: float, count_row: Callable[[], None]
    ) -> LevelPlan:
        note = (
            f"the legacy leaves nothing to chance at level '{level.name}': no gain can be certified there from such a log, "
            "however long. Mix exploration into it: with a small probability take any available action, and log the probabilities"
        )
        if guess.gain is None:
            more = "the log cannot say what other actions earn; give the gain that is hoped for (--gain) to have episodes counted"
            return LevelPlan(
                level=level.name, source="pilot", deterministic=True, rows=(), cost_known=False, within=None, notes=(note, more)
            )
        return plan_from_guess(level, guess, self._known(level), settings, delta, self.measure, (note,), True, count_row)

    def _known(self, level: Level) -> KnownLevel:
        rewards = CandidateView(self.problem, self.batch, Logged(self.problem), self.models[0]).subtree(self.measure, level.name)
        reward = (rewards.low + rewards.high) / 2
        return KnownLevel(
            typical=float(reward.mean()),
            spread=float(reward.std()),
            decisions=max(1, round(reward.size / self.units)),
            units=self.units,
        )


def _level_without_rows(level: str, guess: PlanGuess, why: str) -> LevelPlan:
    """Return a level without rows; a gain that was given is not used then, which is said."""
    unused = () if guess.gain is None else (f"the gain of {guess.gain:g} that was given is not used at level '{level}'",)
    return LevelPlan(
        level=level, source="pilot", deterministic=False, rows=(), cost_known=False, within=None, notes=(why, *unused)
    )


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
