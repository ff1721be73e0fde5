"""Columns that may hold the probability with which an action was taken: by their names, and by what their numbers say."""

from __future__ import annotations

import numpy as np

from aegis.logs.drafting.effects import FEWEST
from aegis.logs.drafting.guesses import ActionGuess
from aegis.logs.drafting.sheet import Look, Sheet
from aegis.logs.drafting.words import CONTEXT, DENSITY, GUARD, PROPENSITY, RESULT, REWARD, TARGET, is_named, rank

_OFF = 0.2  # by which inverse chances may miss the number of rows
_OFF_EACH = 0.5  # the same for a single action


def like_probability(look: Look) -> bool:
    """Say whether a column is called a probability and holds one; 0 and 1 alone say yes and no."""
    return is_named(look.name, PROPENSITY) and look.within(0, 1) and not (look.whole and look.count == 2)


def positive(look: Look) -> bool:
    """Say whether a column holds a number above 0 in every row."""
    return look.kind == "number" and look.numbers is not None and not look.missing and bool(look.numbers.min(initial=1.0) > 0)


def misfit(look: Look, probability: Look) -> float:
    """Return how far a column is from being drawn with a probability: each value, weighted by its inverse, counts every row once.

    The largest |z| over the values; about 1 to 3 if the column is the action and all actions have a chance in every row.
    """
    if probability.numbers is None:
        return float("inf")
    weights, rows = 1 / probability.numbers, look.codes.size
    total = np.bincount(look.codes, weights=weights, minlength=look.count)
    squares = np.bincount(look.codes, weights=weights**2, minlength=look.count)
    spread = np.sqrt(np.maximum(squares - 2 * total + rows, 1e-12))
    return float(np.max(np.abs(total - rows) / spread))


def fits(look: Look, column: Look) -> bool:
    """Say whether a column may be the probability of the values drawn: each, weighted by its inverse, counts every row once.

    That says something about FEWEST rows or more. It need not be so: a share of something around one over the number of
    actions does the same. So what fits is asked about, and never used.
    """
    if look.codes.size < FEWEST or look.missing or column.numbers is None or not (positive(column) and column.within(0, 1)):
        return False
    weights, rows = 1 / column.numbers, look.codes.size
    if weights.max() <= 1:
        return False  # 1 in every row: nothing was left to chance
    total = np.bincount(look.codes, weights=weights, minlength=look.count) / rows
    often = np.bincount(look.codes, minlength=look.count) >= FEWEST
    return bool(abs(total.mean() - 1) <= _OFF and np.all(np.abs(total[often] - 1) <= _OFF_EACH))


def suspects(action: ActionGuess, sheet: Sheet, used: set[str]) -> tuple[Look, ...]:
    """Return columns that are not `used` and may hold the chances of an action for which none were found.

    Those called a probability (or density) come first, then those whose numbers fit, unless they are called something else.
    """
    free = [look for look in sheet.but(used) if look.name and positive(look) and not is_named(look.name, TARGET)]
    if action.density:
        return tuple(look for look in free if is_named(look.name, (*DENSITY, *PROPENSITY)))
    called = [look for look in free if like_probability(look)]
    other = (*CONTEXT, *REWARD, *RESULT, *GUARD)
    fitting = [look for look in free if look not in called and not is_named(look.name, other) and fits(action.look, look)]
    reward = _unnamed_reward(sheet, used)
    return (*called, *(look for look in fitting if look is not reward))


def _unnamed_reward(sheet: Sheet, used: set[str]) -> Look | None:
    """Return the column that is taken for the reward because none is called so."""
    looks = [look for look in sheet.but(used) if look.kind == "number" and not like_probability(look)]
    return None if not looks or any(rank(look.name, REWARD) is not None for look in looks) else looks[-1]
