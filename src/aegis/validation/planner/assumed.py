"""What a forecast takes for granted, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from aegis.certificate.measures import Measure
from aegis.certificate.units import unit_word
from aegis.problem import Problem
from aegis.validation.planner.results import LevelPlan
from aegis.validation.planner.settings import SPREAD_SHARE, Guess


def assumed(problem: Problem, measure: Measure, guess: Guess, levels: Sequence[LevelPlan]) -> tuple[str, ...]:
    """Return the sentences that hold for the levels of a plan."""
    found = [
        f"counted are the {unit_word(problem)} that are certified; those that the policy is learned from come on top ('aegis "
        "learn' takes half of a log, unless told otherwise, and a pilot log may serve)",
        "the exploring legacy logs the probabilities of all actions, nothing drifts, and the gain stays what it is here",
    ]
    guessed = [level for level in levels if level.source == "guess"]
    if guessed:
        found += [
            f"from a guess: the best action earns {guess.gain:g} more than the legacy's own, a random one {_less(guess)}, and "
            "actions earn evenly spaced rewards, which the reward model gets right",
            _logged(guess) if any(level.deterministic for level in guessed) else _said(guess, measure),
        ]
    if any(level.source == "pilot" and level.rows for level in levels):
        found += [
            "from the pilot: a candidate learned on one half is played in the contexts of the other half, with what that half "
            "says about rewards; where it shows a smaller gain than its model, less half a standard error, that one counts",
            "rows that explore more than the log did rest on what the model says about actions that were rarely tried",
        ]
    return tuple(found)


def _less(guess: Guess) -> str:
    return "as much (nothing was said)" if guess.loss is None else f"{guess.loss:g} less"


def _said(guess: Guess, measure: Measure) -> str:
    """Return what stands for the rest of a guess without a log."""
    spread = f"{SPREAD_SHARE * measure.width:g} (a tenth of the range)" if guess.spread is None else f"{guess.spread:g}"
    typical = "the middle of the range" if guess.typical is None else f"{guess.typical:g}"
    decisions = "one decision" if guess.decisions is None else f"{guess.decisions} decisions"
    return f"rewards vary by {spread} around that, the legacy earns {typical}, and an episode has {decisions} of the level"


def _logged(guess: Guess) -> str:
    """Return what a log adds to a guess."""
    given = {
        "spread of rewards": guess.spread,
        "what the legacy earns": guess.typical,
        "decisions in an episode": guess.decisions,
    }
    taken = [words for words, value in given.items() if value is None]
    return f"taken from the log: {', '.join(taken)}" if taken else "the log shows what the legacy does; the rest is the guess"
