"""Action masks and propensities of one level: what the problem declares, made complete and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from aegis.errors import LogError
from aegis.problem import AnyArray, Array, Ints, Level

Mask = npt.NDArray[np.bool_]
# Turns decisions (rows of the level's table), a column and what is wrong into an error; the first of them is named.
Complaint = Callable[[AnyArray, str, Callable[[int], str]], LogError]

SUM_TOLERANCE = 1e-6
ROUND_OFF = 1e-9


def uniform(count: int, actions: int, available: Mask | None) -> Array:
    """Return the uniform distribution over the available actions, `[n, A]`."""
    if available is None:
        return np.full((count, actions), 1.0 / actions)
    return available / available.sum(axis=1, keepdims=True)


def around_base(base: Ints, epsilon: float, actions: int, available: Mask | None) -> Array:
    """Return `(1 - epsilon)` on the base action plus `epsilon` spread over the available ones, `[n, A]`."""
    full = epsilon * uniform(base.size, actions, available)
    full[np.arange(base.size), base] += 1.0 - epsilon
    return full


def check_available(level: Level, action: Ints, available: Mask | None, column: str, complain: Complaint, what: str) -> None:
    """Raise LogError if an action (the one taken, or the base action: `what`) is masked in its own row."""
    if available is None:
        return
    masked = np.flatnonzero(~available[np.arange(action.size), action])
    if masked.size:

        def text(row: int) -> str:
            mask = level.available[action[row]]
            return (
                f"{what} {level.actions.values[action[row]]!r} is not available: '{mask}' is false; "
                "correct the mask, or the action"
            )

        raise complain(masked, column, text)


def taken_only(column: str, found: Array, complain: Complaint) -> Array:
    """Return the propensities `[n]` of the actions taken; raises LogError unless all are above 0 and at most 1.

    One that exceeds 1 by round-off is taken as it stands.
    """
    _check(np.isnan(found), column, complain, lambda row: f"found nan: the probability is not known; {_ADVICE}")
    _check(found == 0, column, complain, lambda row: f"found 0: an action that was taken had a chance; {_ADVICE}")
    _check(
        found < 0,
        column,
        complain,
        lambda row: f"found {found[row]:g}, below 0: is it a log-probability (then write exp of it)? {_ADVICE}",
    )
    _check(
        found > 1 + ROUND_OFF,
        column,
        complain,
        lambda row: f"found {found[row]:.9g}, above 1: is it a density or a percentage? {_ADVICE}",
    )
    return found


def over_all(columns: Sequence[str], found: Array, action: Ints, available: Mask | None, complain: Complaint) -> Array:
    """Return the distributions `[n, A]`; raises LogError unless each is one, 0 where masked, above 0 where taken."""
    for index, column in enumerate(columns):
        values = found[:, index]
        taken_only(column, np.where((values == 0) & (action != index), 1.0, values), complain)
        if available is not None:
            _check(
                (values > 0) & ~available[:, index],
                column,
                complain,
                lambda row, values=values: f"found {values[row]:g} for an action that is not available; write 0 there",  # type: ignore[misc]
            )
    total = found.sum(axis=1)
    _check(
        np.abs(total - 1) > SUM_TOLERANCE,
        columns[0],
        complain,
        lambda row: (
            f"the propensities of all actions ({columns[0]} to {columns[-1]}) sum to {total[row]:.9g}, not to 1 within "
            f"{SUM_TOLERANCE:g}; log the whole distribution, with enough digits"
        ),
    )
    return found


_ADVICE = "a propensity is the probability of the action taken, above 0 and at most 1"


def _check(wrong: Mask, column: str, complain: Complaint, text: Callable[[int], str]) -> None:
    if wrong.any():
        raise complain(np.flatnonzero(wrong), column, text)
