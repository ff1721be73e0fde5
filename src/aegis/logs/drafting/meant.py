"""Columns with the action that the controller meant to take, before it explored."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.logs.drafting.guesses import ActionGuess
from aegis.logs.drafting.sheet import Look, Sheet
from aegis.logs.drafting.words import DONE, LESS_IS_BETTER, MEANT, PROPENSITY, REWARD, is_named, rank, without, words
from aegis.logs.values import match

_MOSTLY = 0.5  # share of the rows in which what was meant was done
_KAPPA = 0.3  # share of the agreement left by chance, from which on two columns go together without sharing a name


@dataclass(frozen=True, slots=True)
class Exploration:
    """How often an action differs from what was meant. epsilon: the share of uniform choices that would explain it."""

    differs: float
    epsilon: float


def find_meant(action: ActionGuess, sheet: Sheet, used: Collection[str]) -> Look | None:
    """Return the column that is named like an intention, holds values of the action and mostly agrees with it; None without."""
    if action.density:
        return None
    called = [look for look in sheet.but({*used, *action.columns}) if is_named(look.name, MEANT) and not look.missing]
    fitting = [look for look in called if set(look.values) <= set(action.values) and exploration(action, look).differs <= _MOSTLY]
    shared = set(words(action.look.name))
    # `default` may be a default on a loan, which agrees with an offer as often as two columns of mostly 0 do.
    fitting = [look for look in fitting if shared & set(words(look.name)) or look.count == 1 or _beyond_chance(action, look)]
    return min(
        fitting,
        key=lambda look: (not shared & set(words(look.name)), exploration(action, look).differs, look.position),
        default=None,
    )


def meant_pairs(actions: Sequence[Look], sheet: Sheet) -> list[tuple[Look, Look]]:
    """Return the columns, among those that may be an action, that stand beside one with what was meant, and that one.

    The two share a name but for words such as `meant` and `actual`, the one holds values of the other, and they mostly agree.
    """
    found: list[tuple[Look, Look]] = []
    for look in actions:
        named = without(_stem(look), DONE)
        if not named or is_named(look.name, (*MEANT, *PROPENSITY, *LESS_IS_BETTER)) or rank(look.name, REWARD) is not None:
            continue
        beside = [other for other in sheet.but({look.name}) if without(_stem(other), MEANT) == named]
        meant = find_meant(ActionGuess(look, look.values), Sheet({other.name: other for other in beside}, sheet.rows), ())
        if meant is not None:
            found.append((look, meant))
    return found


def _beyond_chance(action: ActionGuess, meant: Look) -> bool:
    """Say whether two columns agree clearly more often than two that have nothing to do with each other (Cohen's kappa)."""
    one, other = action.index, match(meant.distinct, action.values)[meant.codes]
    size = len(action.values)
    chance = float(np.bincount(one, minlength=size) @ np.bincount(other, minlength=size)) / one.size**2
    return 1 - exploration(action, meant).differs - chance > _KAPPA * (1 - chance)


def _stem(look: Look) -> tuple[str, ...]:
    """Return the words of a name without a unit in brackets."""
    return words(re.sub(r"[\[(][^\])]*[\])]", " ", look.name))


def exploration(action: ActionGuess, meant: Look) -> Exploration:
    """Return how often what was done is not what was meant; a uniform choice hits what was meant once in as many actions."""
    intended = match(meant.distinct, action.values)[meant.codes]
    differs = float(np.mean(action.index != intended))
    count = len(action.values)
    return Exploration(differs, min(differs * count / max(count - 1, 1), 1.0))


def meant_questions(action: ActionGuess) -> list[str]:
    """Ask what only the user knows about an intention: whether it is one, and how often the controller explored."""
    if action.meant is None:
        return []
    name, meant, found = action.look.name, action.meant.name, exploration(action, action.meant)
    asked = [
        f"Is '{meant}' what the controller does at '{name}' if nothing is handed over? Gains are then over it "
        "('incumbent'); delete that line if it is not."
    ]
    if action.paired:
        return asked
    if not found.differs:
        return [*asked, f"'{name}' is '{meant}' in every row: if nothing was left to chance, no gain can be certified there."]
    return [
        f"Did the controller do '{meant}', except for a fixed share of decisions in which it drew '{name}' uniformly? Then "
        f"write that share as 'epsilon', as it is programmed. The two differ in {found.differs:.1%} of the rows, as with "
        f"epsilon {found.epsilon:.2g}; that is an estimate, which cannot be certified with.",
        *asked,
    ]
