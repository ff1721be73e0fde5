"""Water-filled bets on one level, or two at once: every bet gets the control variate that suits it best (theory section 3).

One level. For one decision with logging probabilities nu, a signed weight z per action, a prediction of the reward in [0,
1] and a worst case T, each bet g solves for the level t in `sum_a nu_a (t - kappa_a)^+ = (1 - floor)/g - T` and stakes `E =
floor + g [(t - kappa_A)^+ + z_A^+ r + z_A^- (1 - r)]`. Then E >= floor for every reward in [0, 1], and its conditional mean
is at most 1 + g times the gain at that context: a valid factor for the sketch.

Two levels (joint scope). The outer decision divides the stake among its actions; what it leaves to the action taken is the
stake of every inner decision below. With w = pi/nu and u = mu/nu at each level, W_1 the cap of the inner candidate and m
the modelled mean rewards below an outer action under candidate and comparator:

    tau_a = max(u_a (1 - 1/W_1), u_a - w_a),  kappa_a = tau_a + w_a m^pi_a - u_a m^mu_a
    sum nu (t - kappa)^+ = (1 - floor)/g - sum over all actions of max(mu (1 - 1/W_1), mu - pi)
    B_a = floor + g [tau_a + (t - kappa_a)^+]

With steps pi_1 >= (1 - s_1) mu_1 in the place of the cap, `tau_a = (u_a - (1 - s_1) w_a)^+` and the sum runs over `(mu - (1
- s_1) pi)^+` (section 12). Both caps and steps are against mu, not against nu.

The inner decision is an ordinary one with z = w_2 w_1 - u_2 u_1, right side (B - floor)/g - T_1 and T_1 = sum over all
inner actions of (u_2 mu_1 - w_2 pi_1)^+. A broken cap leaves a negative right side and kills the bet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.errors import RefusedError
from aegis.evidence.grid import FLOOR, Array

SUM_TOLERANCE = 1e-6
AT_ONCE = 2**22  # comparisons held in memory at once

Index = npt.NDArray[np.integer]


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


def water_filled_factors(
    stakes: Stakes,
    logging: Array,
    prediction: Array,
    action: Index,
    reward: Array,
    bets: Array,
) -> Array:
    """Return the factors E `[n, J]` of n decisions under J bets.

    logging, prediction `[n, A]`, action `[n]`, reward `[n]` in [0, 1]. A bet that a decision cannot afford (g T > 1 - floor: a
    cap was broken) gives nan there, which kills the bet: leaving the decision out instead would drop exactly the contexts
    where the candidate is most aggressive. Raises RefusedError if a taken action has nu = 0, if nu does not sum to one, or if a
    reward lies outside [0, 1].
    """
    check_decisions(logging, action, reward)
    return _factors(stakes, np.ones((1, bets.size)), logging, prediction, action, reward, bets)


def _factors(
    stakes: Stakes, budget: Array, logging: Array, prediction: Array, action: Index, reward: Array, bets: Array
) -> Array:
    """Return the factors `[n, J]`, a few decisions at a time; budget `[n, J]` or `[1, J]`: the whole stake, floor included."""
    budgets = np.broadcast_to(budget, (len(logging), bets.size))
    pieces = []
    for part in chunks(len(logging), logging.shape[1] * bets.size):
        z, guess = stakes.weights[part], np.clip(prediction[part], 0.0, 1.0)
        up, down = np.maximum(z, 0.0), np.maximum(-z, 0.0)
        kappa = up * guess + down * (1.0 - guess)
        target = (budgets[part] - FLOOR) / bets - stakes.worst[part][:, None]
        level = water_levels(kappa, logging[part], np.where(np.isnan(target), -1.0, target))
        rows, taken, r = np.arange(len(z)), action[part], reward[part]
        earned = up[rows, taken] * r + down[rows, taken] * (1.0 - r)
        stake = np.maximum(level - kappa[rows, taken][:, None], 0.0) + earned[:, None]
        pieces.append(np.where(target >= 0, FLOOR + bets * stake, np.nan))
    return np.concatenate(pieces)


def chunks(rows: int, each: int, most: int | None = None) -> Iterator[slice]:
    """Yield slices of rows with `each` numbers per row, so that at most `most` numbers are in memory; one slice if no rows."""
    size = max(1, (AT_ONCE if most is None else most) // each)
    return (slice(start, start + size) for start in range(0, max(1, rows), size))


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


def check_decisions(logging: Array, action: Index, reward: Array) -> None:
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


HAIR = 1.0 + 5e-10


@dataclass(frozen=True, slots=True)
class InnerLimits:
    """How close the candidate stays to the comparator at the inner level: pi_1 <= cap mu_1, and pi_1 >= (1 - step) mu_1."""

    cap: float = np.inf
    step: float = 1.0

    def needs(self, comparator: Array, candidate: Array) -> Array:
        """Return what an outer action must leave for the worst case below it, given mu and pi (or u and w) `[n, A]`.

        A hair more than needed, so that rounding at the inner level does not break a cap that binds, nor a bet on an outer
        action that the candidate hardly takes. The largest bet can afford it.
        """
        if self.step < 1.0:
            return np.maximum((comparator - (1.0 - self.step) * candidate) * HAIR, 0.0)
        share = min(1.0, (1.0 - 1.0 / self.cap) * HAIR)
        return np.maximum(comparator * share, (comparator - candidate) * HAIR)


@dataclass(frozen=True, slots=True)
class LoggedChoice:
    """Decisions of one level: candidate, comparator and logging distributions `[n, A]` and the actions taken `[n]`."""

    candidate: Array
    comparator: Array
    logging: Array
    action: Index

    def taken(self, distribution: Array) -> Array:
        """Return the ratio `[n]` of a distribution to the logging one at the actions taken."""
        rows = np.arange(len(self.action))
        ratio: Array = distribution[rows, self.action] / self.logging[rows, self.action]
        return ratio


def outer_stakes(outer: LoggedChoice, under_candidate: Array, under_comparator: Array, inner: InnerLimits, bets: Array) -> Array:
    """Return B `[n, J]` at the outer actions taken; nan where a bet cannot be afforded.

    under_candidate, under_comparator `[n, A]`: modelled mean reward in [0, 1] below each outer action, with the inner
    candidate or comparator acting there.
    """
    check_decisions(outer.logging, outer.action, np.zeros(len(outer.action)))
    logged = outer.logging > 0
    nu = np.where(logged, outer.logging, 1.0)
    w, u = outer.candidate / nu, outer.comparator / nu
    tau = inner.needs(u, w)
    kappa = np.where(logged, tau + w * np.clip(under_candidate, 0, 1) - u * np.clip(under_comparator, 0, 1), 0.0)
    worst = inner.needs(outer.comparator, outer.candidate).sum(axis=1)
    pieces = []
    for part in chunks(len(nu), nu.shape[1] * bets.size):
        target = (1.0 - FLOOR) / bets - worst[part][:, None]
        level = water_levels(kappa[part], outer.logging[part], target)
        taken = np.arange(len(target)), outer.action[part]
        left = tau[part][taken][:, None] + np.maximum(level - kappa[part][taken][:, None], 0.0)
        pieces.append(np.where(target >= 0, FLOOR + bets * left, np.nan))
    return np.concatenate(pieces)


def inner_factors(
    inner: LoggedChoice,
    candidate_above: Array,
    comparator_above: Array,
    stakes: Array,
    prediction: Array,
    reward: Array,
    bets: Array,
) -> Array:
    """Return the factors E `[n, J]` of inner decisions.

    candidate_above, comparator_above `[n]`: w_2 and u_2 of the outer decision above each. stakes `[n, J]`: its B.
    prediction `[n, A]` and reward `[n]` in [0, 1].
    """
    check_decisions(inner.logging, inner.action, reward)
    pi, mu = candidate_above[:, None] * inner.candidate, comparator_above[:, None] * inner.comparator
    own = gain_stakes(pi, mu, inner.logging)
    return _factors(own, stakes, inner.logging, prediction, inner.action, reward, bets)
