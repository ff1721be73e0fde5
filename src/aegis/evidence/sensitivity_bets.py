"""Water-filled bets where each logged propensity may be wrong by a factor of up to Gamma.

nu is the logged propensity, nu' the true one: `nu_a / Gamma <= nu'_a <= min(1, Gamma nu_a)` for every action, nu' a
distribution. nu' acted, so that it is also what a candidate pi is compared with. The smallest weight that is possible is
`w_a = pi_a / min(1, Gamma nu_a) <= pi_a / nu'_a`. A decision stakes, for a bet g, with C = (1 - floor)/g,

    F(a, r) = floor + g [b_a + (w_a - 1) r],   b_a = (1 - w_a)^+ + (t - kappa_a)^+,
    kappa_a = (w_a - 1)^+ r^_a + (1 - w_a)^+ (1 - r^_a),

with the largest level t, one for each context and bet, for which

    sum_a nu_a b_a + (Gamma^2 - 1) sum_a nu_a (b_a - C)^+ <= C.                                                     (*)

Why this is a valid factor. F >= floor for every reward in [0, 1], because b_a >= (1 - w_a)^+. Let m_a in [0, 1] be the mean
reward below action a, and `gain = sum_a pi_a m_a - sum_a nu'_a m_a`. Above C an action counts at most Gamma nu_a, below C
at least nu_a / Gamma, so that by (*)

    sum_a nu'_a (b_a - C) <= Gamma sum_a nu_a (b_a - C)^+ - (1/Gamma) sum_a nu_a (b_a - C)^- <= 0,

while `sum_a nu'_a w_a m_a <= sum_a pi_a m_a` (probability that pi puts where nothing was logged earns 0 at least). Together
the mean of F under nu' is at most `floor + g (C + gain) = 1 + g gain`. The left side of (*) grows with t, and with Gamma =
1 it is the ordinary water-filled bet. nu' may depend on unrecorded causes: the argument holds given them, so that hidden
causes that move each probability by no more than Gamma are covered as well.

Against an incumbent mu that is stated, and so exact, only the weights are in doubt: with the least weights `z^+ = (pi -
mu)^+ / min(1, Gamma nu)` and `z^- = (mu - pi)^+ / min(1, Gamma nu)`, and `T = sum over all actions (mu - pi)^+`,

    F(a, r) = floor + g [(t - kappa_a)^+ + z_a^+ r + z_a^- (1 - r)],   kappa_a = z_a^+ r^_a + z_a^- (1 - r^_a),

with (*) for b = (t - kappa)^+ and C - T in the place of C. Under nu' the last two terms have a mean of at most `sum (pi -
mu)^+ m + sum (mu - pi)^+ (1 - m) = gain + T`, and the first one of at most C - T by the same argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.grid import FLOOR, Array
from aegis.evidence.water_filled_bets import Index, check_decisions, chunks

SAFE = 4e-12  # relative; (*) is solved for a target this much smaller, so that rounding cannot exceed the true one
CLOSE = 1e-12
AT_ONCE = 2**16  # decisions times actions that are worked on at once: what fits into a processor's own memory


def least_weights(candidate: Array, logging: Array, factor: float) -> Array:
    """Return `pi / min(1, factor nu)` `[n, A]`, the smallest weight possible; 0 where nu = 0. candidate, logging `[n, A]`."""
    logged = logging > 0
    largest = np.minimum(1.0, check_factor(factor) * np.where(logged, logging, 1.0))
    return np.where(logged, candidate / largest, 0.0)


def sensitivity_factors(
    weights: Array,
    logging: Array,
    prediction: Array,
    action: Index,
    reward: Array,
    bets: Array,
    factor: float,
) -> Array:
    """Return the factors F `[n, J]` of n decisions under J bets; see the module.

    weights: `least_weights` at the same factor, `[n, A]`. logging, prediction `[n, A]`, action `[n]`, reward `[n]` in [0, 1]. A
    bet that a decision cannot afford (no t satisfies (*)) gives nan there, which kills the bet. Raises RefusedError for
    impossible decisions, SettingError for a factor below 1.
    """
    check_factor(factor)
    check_decisions(logging, action, reward)
    up, down = np.maximum(weights - 1.0, 0.0), np.maximum(1.0 - weights, 0.0)
    budget = np.broadcast_to((1.0 - FLOOR) / bets, (len(logging), bets.size))
    return _staked(ActionStakes(up, down, down, budget), logging, prediction, action, reward, bets, factor)


def sensitivity_factors_against(
    candidate: Array,
    comparator: Array,
    logging: Array,
    prediction: Array,
    action: Index,
    reward: Array,
    bets: Array,
    factor: float,
) -> Array:
    """Return the factors F `[n, J]` of n decisions for the gain over a stated comparator; see the end of the module's text.

    candidate, comparator, logging, prediction `[n, A]`, action `[n]`, reward `[n]` in [0, 1]. Raises as `sensitivity_factors`.
    """
    check_factor(factor)
    check_decisions(logging, action, reward)
    up = least_weights(np.maximum(candidate - comparator, 0.0), logging, factor)
    down = least_weights(np.maximum(comparator - candidate, 0.0), logging, factor)
    worst = np.maximum(comparator - candidate, 0.0).sum(axis=1)
    budget = (1.0 - FLOOR) / bets - worst[:, None]
    return _staked(ActionStakes(up, down, np.zeros_like(up), budget), logging, prediction, action, reward, bets, factor)


@dataclass(frozen=True, slots=True)
class ActionStakes:
    """Stakes on each action `[n, A]`: up on its reward, down on what it fails to earn, least in any case; budget `[n, J]`: C."""

    up: Array
    down: Array
    least: Array
    budget: Array


def _staked(
    sides: ActionStakes,
    logging: Array,
    prediction: Array,
    action: Index,
    reward: Array,
    bets: Array,
    factor: float,
) -> Array:
    """Return the factors `[n, J]`, a few decisions at a time."""
    pieces = []
    for part in chunks(len(logging), logging.shape[1], AT_ONCE):
        up, down, nu, guess = sides.up[part], sides.down[part], logging[part], np.clip(prediction[part], 0.0, 1.0)
        kappa = up * guess + down * (1.0 - guess)
        level = sensitivity_levels(kappa, sides.least[part], nu, sides.budget[part], factor)
        rows, taken, r = np.arange(len(nu)), action[part], reward[part]
        earned = up[rows, taken] * r + down[rows, taken] * (1.0 - r)
        stake = np.maximum(level - kappa[rows, taken][:, None], 0.0) + earned[:, None]
        pieces.append(FLOOR + bets * stake)
    return np.concatenate(pieces)


def sensitivity_levels(kappa: Array, least: Array, nu: Array, budget: Array, factor: float) -> Array:
    """Return the largest t `[n, J]` that satisfies (*), lower by a hair; nan where none does.

    kappa, least, nu `[n, A]`; least is (1 - w)^+; budget `[J]` or `[n, J]` is C. (*) is convex and piecewise linear in t:
    Newton's steps from the right come down to its root, one breakpoint or more at a time. The root grows with C, so that each
    bet starts where the one with the next larger C has ended.
    """
    extra = factor * factor - 1.0
    # Actions by decisions: sums over a few actions are several times as fast that way round.
    fill, floor, share = (np.ascontiguousarray(array.T) for array in (kappa, least, nu))
    cost = (share * floor).sum(axis=0)
    budgets = np.broadcast_to(budget, (len(nu), budget.shape[-1]))
    level = np.empty(budgets.shape)
    order = np.argsort(-budgets[0], kind="stable") if len(nu) else np.arange(budgets.shape[1])  # the same for every decision
    start = fill.max(axis=0, initial=0.0) + np.abs(budgets[:, order[0]]) + 1.0  # where every action has more than C
    for j in order:
        most = budgets[:, j]
        beyond = np.maximum(floor - most, 0.0)
        target = most * (1.0 - SAFE) - cost - extra * (share * beyond).sum(axis=0)
        later = fill + (most - floor) + beyond  # from this t on an action has more than C
        start = _come_down(start, fill, later, share, target, most, extra)
        level[:, j] = np.where(target >= 0, start, np.nan)
    return level


def _come_down(level: Array, fill: Array, later: Array, share: Array, target: Array, most: Array, extra: float) -> Array:
    """Return t `[n]` with `sum share (t - fill)^+ + extra sum share (t - later)^+` at most the target, from one too large.

    fill, later, share `[A, n]`.
    """
    lowered = level.copy()
    rows = np.flatnonzero(target >= 0)
    for _ in range(2 * len(fill) + 2):
        if rows.size < lowered.size:
            nu, first, second = share[:, rows], fill[:, rows], later[:, rows]
        else:
            nu, first, second = share, fill, later
        t = lowered[rows]
        reached, beyond = nu * (t > first), nu * (t > second)
        slope = reached.sum(axis=0) + extra * beyond.sum(axis=0)
        filled = (reached * (t - first)).sum(axis=0) + extra * (beyond * (t - second)).sum(axis=0)
        excess = filled - target[rows]
        over = excess > CLOSE * most[rows]
        if not over.any():
            return lowered
        rows = rows[over]
        lowered[rows] -= excess[over] / slope[over]
    lowered[rows] = -np.inf  # numbers too large for the steps to end: nothing beyond the least stake, which always satisfies (*)
    return lowered


def check_factor(factor: float) -> float:
    """Return the factor if it is a finite number from 1."""
    if not (math.isfinite(factor) and factor >= 1):
        raise SettingError(f"probabilities are wrong by a factor of 1 (they are right) or more, found {factor}")
    return factor
