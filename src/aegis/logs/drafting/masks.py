"""Action masks: columns of true and false, one per action."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from aegis.logs.drafting.guesses import ActionGuess
from aegis.logs.drafting.labelled import Labelled, labelled, wider
from aegis.logs.drafting.sheet import Look, Sheet, side_by_side
from aegis.logs.drafting.words import MASK, without, words
from aegis.logs.values import match


def with_mask(guess: ActionGuess, sheet: Sheet, used: Collection[str]) -> ActionGuess:
    """Return the guess with its mask, if there are columns that are named and behave like one."""
    pool = [look.name for look in sheet.but(used) if _flags(look)]
    for found in labelled(guess.values, pool):
        rest = without(found.stem, MASK)
        if len(rest) == len(found.stem) or rest not in ((), words(guess.look.name)):
            continue
        # A mask may know of actions that were never taken, unless the probabilities already say how many there are.
        more = None if guess.full else wider(found, pool)
        chosen = more if more is not None and more.values else found
        span = f"'{chosen.columns[0]}' to '{chosen.columns[-1]}'"
        wrong = _contradiction(guess, chosen, sheet)
        if wrong:
            guess = guess.saying(question=f"Are {span} a mask of '{guess.look.name}'? They are not used as one: {wrong}.")
            continue
        note = f"{span} say which actions of '{guess.look.name}' are available"
        return replace(guess, values=chosen.values, available=tuple(sheet.looks[name] for name in chosen.columns)).saying(note)
    return guess


def _flags(look: Look) -> bool:
    if look.kind == "flag":
        return not look.missing
    return look.numbers is not None and look.within(0, 1) and look.whole


def _contradiction(guess: ActionGuess, found: Labelled, sheet: Sheet) -> str:
    """Say how a mask contradicts what was done, or return an empty text."""
    mask = side_by_side([sheet.looks[name] for name in found.columns]) > 0.5
    action = match(guess.look.distinct, found.values)[guess.look.codes]
    if np.any(action < 0) or not np.all(mask[np.arange(sheet.rows), action]):
        return "the action taken is not always available"
    if guess.full and np.any(side_by_side(guess.full)[~mask] > 0):
        return "some of the actions it rules out have a probability above 0"
    return ""
