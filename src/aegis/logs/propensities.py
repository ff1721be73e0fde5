"""Action masks and propensities of one level: completed from what the problem declares, and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from aegis.logs.findings import RowReport
from aegis.problem import AnyArray, Array, Ints, Level, is_atom

_Mask = npt.NDArray[np.bool_]
SUM_TOLERANCE = 1e-6
ROUND_OFF = 1e-9
_DENSITY = "a density is the probability per unit of the action, a finite number above 0; it may exceed 1"
_ADVICE = "a propensity is the probability of the action taken, above 0 and at most 1"
_NO_CHANCE = f"found 0: an action that was taken had a chance; {_ADVICE}"


def uniform_distribution(count: int, actions: int, available: _Mask | None) -> Array:
    """Return the uniform distribution over the available actions, `[n, A]`; nan where none is."""
    if available is None:
        return np.full((count, actions), 1.0 / actions)
    with np.errstate(invalid="ignore"):
        return available / available.sum(axis=1, keepdims=True)


def declared_distribution(level: Level, count: int, available: _Mask | None) -> Array:
    """Return the distribution that the problem itself knows, `[n, A]`: fixed shares, or uniform over the available actions."""
    if level.propensity is not None and level.propensity.shares:
        return np.tile(np.asarray(level.propensity.shares, dtype=np.float64), (count, 1))
    return uniform_distribution(count, level.actions.count, available)


def base_distribution(base: Ints, epsilon: float, actions: int, available: _Mask | None) -> Array:
    """Return `(1 - epsilon)` on the base action plus `epsilon` spread over the available ones, `[n, A]`."""
    full = epsilon * uniform_distribution(base.size, actions, available)
    full[np.arange(base.size), base] += 1.0 - epsilon
    return full


def check_available(level: Level, action: Ints, available: _Mask | None, column: str, report: RowReport, what: str) -> None:
    """Report actions (those taken, or the base actions: `what`) that are masked in their own row."""
    if available is None:
        return

    def text(row: int) -> str:
        mask = level.available[action[row]]
        return (
            f"{what} {level.actions.values[action[row]]!r} is not available: '{mask}' is false; correct the mask, or the action"
        )

    _check(~available[np.arange(action.size), action], column, report, text)


def check_probability_range(column: str, values: Array, report: RowReport, positive: bool = True) -> None:
    """Report what cannot be a probability: nan, negative, above 1 by more than round-off, and 0 if it must be `positive`.

    found `[n]`. What it may be instead (a log-probability, a percentage, a density) is read off all the values.
    """
    low, high = values.min(initial=1.0), values.max(initial=0.0)
    if high <= 1 and (low > 0 or (low == 0 and not positive)):
        return  # not if there is a nan
    above = values > 1 + ROUND_OFF
    _check(np.isnan(values), column, report, lambda row: f"found nan: the probability is not known; {_ADVICE}")
    if positive:
        _check(values == 0, column, report, lambda row: _NO_CHANCE)
    logged = "is it a log-probability (then write exp of it)?"
    if values.size and not (values > 0).any():
        logged = "no value is above 0, so these look like log-probabilities (then write exp of them);"
    _check(values < 0, column, report, lambda row: f"found {values[row]:g}, below 0: {logged} {_ADVICE}")
    _check(above, column, report, lambda row: f"found {values[row]:.9g}, above 1: {_above(values, above)} {_ADVICE}")


def check_density(column: str, values: Array, report: RowReport) -> None:
    """Report what cannot be a density of an action that was taken: nan, infinite, 0 or negative. found `[n]`."""
    if values.min(initial=1.0) > 0 and values.max(initial=0.0) < np.inf:  # not if there is a nan
        return
    with np.errstate(invalid="ignore"):
        _check(~(values > -np.inf) | (values == np.inf), column, report, lambda row: f"found {values[row]}; {_DENSITY}")
        _check(values == 0, column, report, lambda row: f"found 0: an action that was taken had a density; {_DENSITY}")
        below = (values < 0) & np.isfinite(values)
    logged = "is it a log-density (then write exp of it)?"
    _check(below, column, report, lambda row: f"found {values[row]:g}, below 0: {logged} {_DENSITY}")


def check_within_limits(column: str, values: Array, limits: tuple[float, float], report: RowReport) -> None:
    """Report actions `[n]` outside their interval, but for round-off."""
    low, high = limits
    slack = ROUND_OFF * (high - low)

    def text(row: int) -> str:
        return f"found {values[row]:.9g}, outside the interval [{low:g}, {high:g}]; widen 'interval', or correct the log"

    _check((values < low - slack) | (values > high + slack), column, report, text)


def check_atoms(level: Level, column: str, value: Array, mu: Array, report: RowReport) -> None:
    """Report atoms `[n]` whose logged number is no probability: a density has been logged there."""
    if not level.actions.atoms:
        return

    def text(row: int) -> str:
        return (
            f"found {mu[row]:.9g} at {value[row]:g}, which 'atoms' of level '{level.name}' names: there the controller has a "
            "probability, at most 1, not a density"
        )

    _check(is_atom(level.actions, value) & (mu > 1 + ROUND_OFF), column, report, text)


def check_distribution(columns: Sequence[str], full: Array, action: Ints, available: _Mask | None, report: RowReport) -> None:
    """Report distributions `[n, A]`, each entry in range, that are none: a sum other than 1, above 0 if masked, 0 if taken."""
    never = full[np.arange(action.size), action] == 0
    for index in np.unique(action[never]):
        _check(never & (action == index), columns[index], report, lambda row: _NO_CHANCE)
    for index, column in enumerate(columns if available is not None else ()):
        values = full[:, index]

        def text(row: int, values: Array = values) -> str:
            return f"found {values[row]:g} for an action that is not available; write 0 there"

        _check((values > 0) & ~available[:, index], column, report, text)  # type: ignore[index]
    total = full.sum(axis=1)

    def summed(row: int) -> str:
        return (
            f"the propensities of all actions ({columns[0]} to {columns[-1]}) sum to {total[row]:.9g}, not to 1 within "
            f"{SUM_TOLERANCE:g}; log the whole distribution, with enough digits"
        )

    _check(np.abs(total - 1) > SUM_TOLERANCE, columns[0], report, summed)


def check_declared_minimum(
    level: Level, column: str, taken: Array, full: Array | None, available: _Mask | None, report: RowReport
) -> None:
    """Report propensities below what the problem promises of every available action. taken `[n]`, full `[n, A]` where known."""
    least = None if level.propensity is None else level.propensity.least
    if least is None:
        return
    lowest = taken if full is None else np.where(True if available is None else available, full, np.inf).min(axis=1)

    def text(row: int) -> str:
        which = "this action" if full is None else "an available action"
        return (
            f"{which} had the probability {lowest[row]:.9g}, below the {least:g} that propensity 'least' of level '{level.name}' "
            "promises of every available action; declare less, or correct the log"
        )

    _check(lowest < least * (1 - ROUND_OFF), column, report, text)


def _above(values: Array, above: _Mask) -> str:
    known = values[~np.isnan(values)]
    if known.max() <= 100 and known.min() >= 0 and 2 * np.count_nonzero(above) > known.size:
        return "most values are, and none is above 100, so these look like percentages (then divide by 100);"
    return (
        "is it a density (of a continuous action; then give the action an 'interval' with a 'bandwidth', and its propensity "
        "'density: true'), or a percentage (then divide by 100)?"
    )


def _check(wrong: AnyArray, column: str, report: RowReport, text: Callable[[int], str]) -> None:
    if wrong.any():
        report(np.flatnonzero(wrong), column, text)
