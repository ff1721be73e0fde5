"""Water-filled bets on two levels at once (theory section 5, joint scope).

The outer decision divides the stake among its actions; what it leaves to the action taken is the stake of every inner decision
below. With w = pi/nu and u = mu/nu at each level, W_1 the cap of the inner candidate and m the modelled mean rewards below an
outer action under candidate and comparator:

    tau_a = max(u_a (1 - 1/W_1), u_a - w_a),  kappa_a = tau_a + w_a m^pi_a - u_a m^mu_a
    sum nu (t - kappa)^+ = (1 - floor)/g - sum over all actions of max(mu (1 - 1/W_1), mu - pi)
    B_a = floor + g [tau_a + (t - kappa_a)^+]

With steps pi_1 >= (1 - s_1) mu_1 in the place of the cap, `tau_a = (u_a - (1 - s_1) w_a)^+` and the sum runs over
`(mu - (1 - s_1) pi)^+` (section 12). Both caps and steps are against mu, not against nu.

The inner decision is an ordinary one with z = w_2 w_1 - u_2 u_1, right side (B - floor)/g - T_1 and
T_1 = sum over all inner actions of (u_2 mu_1 - w_2 pi_1)^+. A broken cap leaves a negative right side and kills the bet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.evidence.grid import FLOOR, Array
from aegis.evidence.waterfill import AT_ONCE, check_decisions, water_levels

Index = npt.NDArray[np.integer]
HAIR = 1.0 + 5e-10


@dataclass(frozen=True, slots=True)
class Inner:
    """How close the candidate stays to the comparator at the inner level: pi_1 <= cap mu_1, and pi_1 >= (1 - step) mu_1."""

    cap: float = np.inf
    step: float = 1.0

    def needs(self, comparator: Array, candidate: Array) -> Array:
        """Return what an outer action must leave for the worst case below it, given mu and pi (or u and w) `[n, A]`.

        A hair more than needed, so that rounding at the inner level does not break a cap that binds, nor a bet on an outer
        action that the candidate hardly takes. The largest bet has room for it.
        """
        if self.step < 1.0:
            return np.maximum((comparator - (1.0 - self.step) * candidate) * HAIR, 0.0)
        share = min(1.0, (1.0 - 1.0 / self.cap) * HAIR)
        return np.maximum(comparator * share, (comparator - candidate) * HAIR)


@dataclass(frozen=True, slots=True)
class Choice:
    """Decisions of one level: candidate, comparator and logging distributions `[n, A]` and the actions taken `[n]`."""

    candidate: Array
    comparator: Array
    logging: Array
    action: Index

    def taken(self, distribution: Array) -> Array:
        """Return the ratio `[n]` of a distribution to the logging one at the actions taken."""
        rows = np.arange(len(self.action))
        found: Array = distribution[rows, self.action] / self.logging[rows, self.action]
        return found


def outer_stakes(
    outer: Choice, under_candidate: Array, under_comparator: Array, inner: Inner, bets: Array, floor: float = FLOOR
) -> Array:
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
    rows = np.arange(len(nu))
    pieces = []
    size = max(1, AT_ONCE // (nu.shape[1] * bets.size))
    for start in range(0, max(1, len(nu)), size):
        part = slice(start, start + size)
        target = (1.0 - floor) / bets - worst[part][:, None]
        level = water_levels(kappa[part], outer.logging[part], target)
        here, taken = rows[part], outer.action[part]
        left = tau[here, taken][:, None] + np.maximum(level - kappa[here, taken][:, None], 0.0)
        pieces.append(np.where(target >= 0, floor + bets * left, np.nan))
    return np.concatenate(pieces)


def inner_factors(
    inner: Choice,
    candidate_above: Array,
    comparator_above: Array,
    stakes: Array,
    prediction: Array,
    reward: Array,
    bets: Array,
    floor: float = FLOOR,
) -> Array:
    """Return the factors E `[n, J]` of inner decisions.

    candidate_above, comparator_above `[n]`: w_2 and u_2 of the outer decision above each. stakes `[n, J]`: its B.
    prediction `[n, A]` and reward `[n]` in [0, 1].
    """
    check_decisions(inner.logging, inner.action, reward)
    logged = inner.logging > 0
    nu = np.where(logged, inner.logging, 1.0)
    pi, mu = candidate_above[:, None] * inner.candidate, comparator_above[:, None] * inner.comparator
    z = np.where(logged, (pi - mu) / nu, 0.0)
    up, down = np.maximum(z, 0.0), np.maximum(-z, 0.0)
    guess = np.clip(prediction, 0.0, 1.0)
    kappa = up * guess + down * (1.0 - guess)
    worst = np.maximum(mu - pi, 0.0).sum(axis=1)
    rows = np.arange(len(nu))
    earned = up[rows, inner.action] * reward + down[rows, inner.action] * (1.0 - reward)
    pieces = []
    size = max(1, AT_ONCE // (nu.shape[1] * bets.size))
    for start in range(0, max(1, len(nu)), size):
        part = slice(start, start + size)
        target = (stakes[part] - floor) / bets - worst[part][:, None]
        level = water_levels(kappa[part], inner.logging[part], np.where(np.isnan(target), -1.0, target))
        here, taken = rows[part], inner.action[part]
        stake = np.maximum(level - kappa[here, taken][:, None], 0.0) + earned[part][:, None]
        pieces.append(np.where(target >= 0, floor + bets * stake, np.nan))
    return np.concatenate(pieces)
