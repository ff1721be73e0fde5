"""Water-filled bets (theory section 5): every bet gets the control variate that suits it best.

For one decision with logging probabilities nu, a signed weight z per action, a prediction of the reward in [0, 1] and a worst
case T, each bet g solves for the level t in `sum_a nu_a (t - kappa_a)^+ = (1 - floor)/g - T` and stakes
`E = floor + g [(t - kappa_A)^+ + z_A^+ r + z_A^- (1 - r)]`. Then E >= floor for every reward in [0, 1], and its conditional mean
is at most 1 + g times the gain at that context: a valid factor for the sketch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.errors import RefusedError
from aegis.evidence.grid import FLOOR, Array

SUM_TOLERANCE = 1e-6
AT_ONCE = 2**22  # comparisons held in memory at once


@dataclass(frozen=True, slots=True)
class Stakes:
    """What a test stakes on each decision: signed weights z `[n, A]` (0 where nu = 0) and the worst case T `[n]`."""

    weights: Array
    worst: Array


def gain_stakes(candidate: Array, comparator: Array, logging: Array) -> Stakes:
    """Return the stakes for the gain of `candidate` over `comparator` on data logged by `logging`, all `[n, A]`.

    Actions that are never logged count at their worst: T sums the mass the candidate moves away over all actions.
    """
    logged = logging > 0
    weights = np.where(logged, (candidate - comparator) / np.where(logged, logging, 1.0), 0.0)
    return Stakes(weights, np.maximum(comparator - candidate, 0.0).sum(axis=1))


def value_stakes(candidate: Array, logging: Array) -> Stakes:
    """Return the stakes for the value of `candidate`; mass it puts where nothing was logged earns 0, the worst."""
    logged = logging > 0
    return Stakes(np.where(logged, candidate / np.where(logged, logging, 1.0), 0.0), np.zeros(len(candidate)))


def water_filled(
    stakes: Stakes,
    logging: Array,
    prediction: Array,
    action: npt.NDArray[np.integer],
    reward: Array,
    bets: Array,
    floor: float = FLOOR,
) -> Array:
    """Return the factors E `[n, J]` of n decisions under J bets.

    logging, prediction `[n, A]`, action `[n]`, reward `[n]` in [0, 1]. A bet that a decision cannot afford (g T > 1 - floor: a
    cap was broken) gives nan there, which kills the bet: leaving the decision out instead would drop exactly the contexts
    where the candidate is most aggressive. Raises RefusedError if a taken action has nu = 0, if nu does not sum to one, or if a
    reward lies outside [0, 1].
    """
    check_decisions(logging, action, reward)
    size = max(1, AT_ONCE // (logging.shape[1] * bets.size))
    pieces = [
        _factors(stakes, logging, prediction, action, reward, bets, floor, slice(start, start + size))
        for start in range(0, max(1, len(logging)), size)
    ]
    return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]


def _factors(
    stakes: Stakes,
    logging: Array,
    prediction: Array,
    action: npt.NDArray[np.integer],
    reward: Array,
    bets: Array,
    floor: float,
    part: slice,
) -> Array:
    z, nu, guess = stakes.weights[part], logging[part], np.clip(prediction[part], 0.0, 1.0)
    up, down = np.maximum(z, 0.0), np.maximum(-z, 0.0)
    kappa = up * guess + down * (1.0 - guess)
    target = (1.0 - floor) / bets - stakes.worst[part][:, None]
    level = water_levels(kappa, nu, target)
    rows = np.arange(len(nu))
    taken, r = action[part], reward[part]
    earned = up[rows, taken] * r + down[rows, taken] * (1.0 - r)
    stake = np.maximum(level - kappa[rows, taken][:, None], 0.0) + earned[:, None]
    return np.where(target >= 0, floor + bets * stake, np.nan)


def water_levels(kappa: Array, nu: Array, target: Array) -> Array:
    """Return t `[n, J]` with sum_a nu (t - kappa)^+ at most the target, and equal to it up to rounding.

    The sum is piecewise linear in t: sort kappa once, cumulate nu and nu kappa, and see between which kappas the target falls.
    """
    ordered = np.where(nu > 0, kappa, np.inf)
    order = np.argsort(ordered, axis=1, kind="stable")
    sorted_kappa = np.take_along_axis(ordered, order, axis=1)
    sorted_nu = np.take_along_axis(nu, order, axis=1)
    finite = np.where(np.isfinite(sorted_kappa), sorted_kappa, 0.0)
    mass = np.cumsum(sorted_nu, axis=1)
    moment = np.cumsum(sorted_nu * finite, axis=1)
    filled = np.where(np.isfinite(sorted_kappa), finite * mass - moment, np.inf)  # the sum at t = each kappa
    reached = np.maximum((filled[:, :, None] <= target[:, None, :]).sum(axis=1) - 1, 0)
    level = (target + np.take_along_axis(moment, reached, axis=1)) / np.take_along_axis(mass, reached, axis=1)
    return _lowered(level, kappa, nu, target, np.take_along_axis(mass, reached, axis=1))


def _lowered(level: Array, kappa: Array, nu: Array, target: Array, mass: Array) -> Array:
    """Return the level, lowered where rounding made the sum exceed its target: validity needs 'at most'."""
    for _ in range(3):
        excess = np.empty_like(level)
        for j in range(level.shape[1]):  # one bet at a time keeps memory at n x A
            excess[:, j] = np.sum(nu * np.maximum(level[:, j, None] - kappa, 0.0), axis=1) - target[:, j]
        over = excess > 0
        if not over.any():
            break
        lower = level - excess / mass * (1.0 + 1e-12) - np.spacing(np.abs(level)) * 4.0
        level = np.where(over, lower, level)
    return level


def check_decisions(logging: Array, action: npt.NDArray[np.integer], reward: Array) -> None:
    """Raise RefusedError if a taken action has nu = 0, if nu does not sum to one, or if a reward lies outside [0, 1]."""
    rows = np.arange(len(logging))
    total = np.abs(logging.sum(axis=1) - 1.0) > SUM_TOLERANCE
    if total.any() or not np.isfinite(logging).all() or (logging < 0).any():
        wrong = total | ~np.isfinite(logging).all(axis=1) | (logging < 0).any(axis=1)
        raise RefusedError(f"decision {int(np.argmax(wrong))}: logging probabilities are not a distribution")
    never = logging[rows, action] <= 0
    if never.any():
        raise RefusedError(f"decision {int(np.argmax(never))}: the action taken has logging probability 0")
    outside = ~((reward >= 0) & (reward <= 1))
    if outside.any():
        place = int(np.argmax(outside))
        raise RefusedError(f"decision {place}: a reward lies outside its declared range (rescaled {reward[place]})")
