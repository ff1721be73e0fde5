"""What a forecast takes for granted, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from aegis.certificate.measures import Measure
from aegis.certificate.units import unit_word
from aegis.problem import Problem
from aegis.validation.planner.from_guess import PRIOR_UNITS
from aegis.validation.planner.results import LevelPlan
from aegis.validation.planner.settings import ALLOWANCE, SPREAD_SHARE, Guess
from aegis.validation.planner.words import better_by, levels_named, verb


def assumed(problem: Problem, measure: Measure, guess: Guess, levels: Sequence[LevelPlan], pilot: bool) -> tuple[str, ...]:
    """Return the sentences that hold for the levels of a plan; none if nothing is forecast of any. pilot: a log was read."""
    if all(problem.level(level.level).actions.continuous for level in levels):
        return ()  # there is no planner for intervals
    found = [
        f"counted are the {unit_word(problem)} that are certified; those that the policy is learned from come on top ('aegis "
        "learn' takes half of a log, unless told otherwise, and a pilot log may serve)",
        "the exploring legacy logs the probabilities of all actions, nothing drifts, and the gain stays what it is here",
    ]
    guessed = tuple(level.level for level in levels if level.source == "guess" and level.rows)
    if guessed:
        where = levels_named(guessed)
        found += [f"{where}, {sentence}" for sentence in _guessed(problem, measure, guess, pilot)]
    shown = tuple(level.level for level in levels if level.source == "pilot" and level.rows)
    if shown:
        where = levels_named(shown)
        found += [
            f"{where}, from the pilot: a candidate learned on one half is played in the contexts of the other half, with what "
            "that half says about rewards; where it shows a smaller gain than its model, less half a standard error, that one "
            "counts",
            f"{where}: rows that explore more than the log did rest on what the model says about actions that were rarely tried",
        ]
    return tuple(found)


def _guessed(problem: Problem, measure: Measure, guess: Guess, pilot: bool) -> tuple[str, ...]:
    goal = measure.goal
    best = "" if guess.gain is None else better_by(guess.gain, goal)
    random = f"{verb(goal)} as much (nothing was said)" if guess.loss is None else better_by(-guess.loss, goal)
    spaced = f"what actions {verb(goal).removesuffix('s')} is evenly spaced"
    placed = f"the {unit_word(problem)} of the pilot" if pilot else f"{PRIOR_UNITS} {unit_word(problem)}"
    return (
        f"from a guess: the best action {best} than the legacy's own, a random one {random}, and {spaced}, which the reward "
        f"model gets right; bets are placed on {placed}",
        _logged(guess, goal) if pilot else _said(guess, measure),
    )


def _said(guess: Guess, measure: Measure) -> str:
    """Return what stands for the rest of a guess without a log."""
    spread = f"{SPREAD_SHARE * measure.width:g} (a tenth of the range)" if guess.spread is None else f"{guess.spread:g}"
    typical = "the middle of the range" if guess.typical is None else f"{guess.typical:g}"
    decisions = "one decision" if guess.decisions is None else f"{guess.decisions} decisions"
    things = "costs" if measure.goal == "minimise" else "rewards"
    return (
        f"from a guess: {things} vary by {spread} around that, {_allowed()}; the legacy {verb(measure.goal)} {typical}, and an "
        f"episode has {decisions} of the level"
    )


def _logged(guess: Guess, goal: str) -> str:
    """Return what a log adds to a guess."""
    given = {
        f"spread of {'costs' if goal == 'minimise' else 'rewards'}, differences between contexts included": guess.spread,
        f"what the legacy {verb(goal)}": guess.typical,
        "decisions in an episode": guess.decisions,
    }
    taken = [words for words, value in given.items() if value is None]
    told = "" if guess.spread is None else f"; the spread of the guess is {_allowed()}"
    return f"taken from the log: {', '.join(taken) or 'what the legacy does, the rest is the guess'}{told}"


def _allowed() -> str:
    return f"taken {ALLOWANCE:g} times as large because contexts differ"
