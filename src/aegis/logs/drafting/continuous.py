"""Actions that may be any number of an interval, with or without the density that they were drawn with."""

from __future__ import annotations

import numpy as np

from aegis.logs.drafting.guesses import ActionGuess
from aegis.logs.drafting.sheet import Look

MOST_ACTIONS = 200
_FEW = 20  # values that a list of actions may well have, however short the log


def any_number(look: Look) -> bool:
    """Say whether a column holds any number of an interval rather than some values: hardly one comes twice, on no coarse grid."""
    if look.kind != "number" or look.numbers is None or look.missing or look.whole:
        return False
    if look.count > MOST_ACTIONS:
        return True
    changes = 1 + int(np.count_nonzero(look.codes[1:] != look.codes[:-1]))  # an outer decision repeats its number row by row
    return look.count > _FEW and 2 * look.count > changes and not _on_a_grid(look)


def _on_a_grid(look: Look) -> bool:
    """Say whether all numbers lie on an even grid of at most MOST_ACTIONS points."""
    values = np.asarray(look.values, dtype=np.float64)
    places = (values - values[0]) / float(np.diff(values).min())
    return bool(places[-1] < MOST_ACTIONS and np.all(np.abs(places - np.rint(places)) < 1e-6))


def continuous(look: Look, column: Look | None, why: str) -> ActionGuess:
    """Return an action that any number of an interval can be. column: its density, None if it is not logged."""
    low, high = outwards(float(np.min(look.numbers)), float(np.max(look.numbers)))  # type: ignore[arg-type]
    question = f"From where to where may '{look.name}' go, and how far from the number it chooses may a policy act ('bandwidth')?"
    if column is not None:
        question += (
            f" Is '{column.name}' a density, per unit of '{look.name}'? A number at which the controller has a probability of "
            "its own, such as an end that it clips to, goes under 'atoms'."
        )
    return ActionGuess(look, (low, high), taken=column, density=True).saying(why, question)


def outwards(low: float, high: float) -> tuple[float, float]:
    """Return round numbers below and above, to a hundredth of the distance between them or so."""
    step = 10.0 ** np.floor(np.log10((high - low) / 50.0)) if high > low else 1.0
    ends = float(np.floor(low / step) * step), float(np.ceil(high / step) * step)
    return float(f"{ends[0]:.12g}"), float(f"{ends[1]:.12g}")
