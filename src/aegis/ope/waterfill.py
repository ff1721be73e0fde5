"""Water-filled factors of units: the default evidence wherever the log holds the whole logging distribution.

A unit's factor is the nested mean of its decisions' factors; r is the mean reward below a decision. The comparator mu is the
incumbent where it is stated, else the logger nu. With `carry_over: within` the probabilities of candidate and comparator are
multiplied by their G, the weight of all earlier in-scope decisions of the episode (theory sections 3 and 12).

Where propensities may be wrong by a factor (theory section 7) the factors are valid at one level only, for every true
propensity within it. They are about means given the context, so that propensities must be fitted on other data.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence import (
    InnerLimits,
    LoggedChoice,
    Stakes,
    gain_stakes,
    inner_factors,
    least_weights,
    outer_stakes,
    sensitivity_factors,
    sensitivity_factors_against,
    value_stakes,
    water_filled_factors,
)
from aegis.ope.candidate_view import CandidateView, with_least_weights
from aegis.ope.measure import MeanRange, Measure, Observed
from aegis.ope.weights import broadcast_down, carry_over_weights, last_in_scope, scope_path_weights
from aegis.policies import path_full, sequential_full
from aegis.problem import Array, Scope, nested_means

NEVER_TAKEN = 1e-6  # probability of an incumbent at actions that the log never takes, beyond rounding


def filled_gains(
    view: CandidateView, scope: Scope, measure: Measure, bets: Array, widened: float = 1.0, within: MeanRange | None = None
) -> Array:
    """Return the factors `[E, J]` for the gain; `widened` multiplies residuals, to place a grid on data the model has seen.

    within: declared limits of the means below the decisions.
    """
    (level,) = scope
    nu = view.logging(level)
    stakes = gain_stakes(_carried_candidate(view, level, scope), _carried_comparator(view, level, scope), nu)
    return _unit_factors(view, within or MeanRange(level, measure), stakes, nu, bets, widened)


def corrected_gains(view: CandidateView, scope: Scope, measure: Measure, most: float, bets: Array, widened: float = 1.0) -> Array:
    """Return the factors `[E, J]` for the gain at one level while the incumbent acts at all others.

    With u = mu/nu at the other levels: a level above turns the factor E of a decision into `1 + (u / C) (E - 1)`, a level below
    turns its reward r into `u r / C`. most: C, the largest u along a path. A bet on the gain is one C times as large on the gain
    divided by C (theory section 12, other levels).
    """
    (level,) = scope
    batch, nu = view.batch, view.logging(level)
    incumbent = view.against(view.comparator.levels)
    others = Scope(view.comparator.levels - scope)
    if incumbent is None or not others:
        return filled_gains(view, scope, measure, bets, widened)
    names = list(batch.levels)
    place = names.index(level)
    above, below = Scope(others & set(names[:place])), Scope(others & set(names[place + 1 :]))
    over = scope_path_weights(incumbent, batch, above) if above else None
    ratio = None if over is None else broadcast_down(batch, over, last_in_scope(batch, above), level)
    upper = 1.0 if not above else _known_ratio(view, above)
    stakes = gain_stakes(_carried_candidate(view, level, scope), _carried_comparator(view, level, scope), nu)
    below_mean = view.subtree(measure, level) if not below else _reweighted(view, incumbent, measure, level, below, most / upper)
    rows, action = np.arange(len(nu)), batch.levels[level].action
    predicted = view.predicted(measure, level) / (most / upper)
    reward = widen_residuals(below_mean.worst(stakes.weights[rows, action]), predicted[rows, action], widened)
    factors = water_filled_factors(stakes, nu, predicted, action, reward, most * bets)
    if ratio is not None:
        factors = 1.0 + (ratio / upper)[:, None] * (factors - 1.0)
    return nested_means(batch, level, factors)


def _known_ratio(view: CandidateView, scope: Scope) -> float:
    ratio = view.comparator.ratio(scope)
    if ratio is None:
        raise SettingError(f"the largest mu / nu at {', '.join(sorted(scope))} is not known; declare 'max_ratio' or 'epsilon'")
    return ratio


def _reweighted(
    view: CandidateView, incumbent: CandidateView, measure: Measure, level: str, below: Scope, most: float
) -> Observed:
    """Return the mean of `u r / C` below each decision of a level, u the incumbent's ratio at levels further in."""
    batch, last = view.batch, last_in_scope(view.batch, below)
    start = view.level or next(iter(batch.levels))
    u = scope_path_weights(incumbent, batch, below)
    u = broadcast_down(batch, u, last, start) / most
    values = view.observed(measure)
    scaled = Observed(u * values.low, u * values.high)
    return view.raised(scaled, start, level)


def filled_values(view: CandidateView, scope: Scope, measure: Measure, bets: Array, widened: float = 1.0) -> Array:
    """Return the factors `[E, J]` for the value."""
    (level,) = scope
    nu = view.logging(level)
    stakes = value_stakes(_carried_candidate(view, level, scope), nu)
    return _unit_factors(view, MeanRange(level, measure), stakes, nu, bets, widened)


def joint_gains(
    view: CandidateView, scope: Scope, measure: Measure, inner: InnerLimits, bets: Array, widened: float = 1.0
) -> Array:
    """Return the factors `[E, J]` for the gain of a scope of two levels; inner: how close the candidate stays further in."""
    batch = view.batch
    outer_name, inner_name = (name for name in batch.levels if name in scope)
    outer = _choice(view, outer_name, scope)
    choice = _choice(view, inner_name, scope)
    below = view.predicted(measure, outer_name)
    stakes = outer_stakes(outer, view.predicted_below(measure, outer_name, scope), below, inner, bets)
    rows = batch.ancestors(inner_name)[outer_name]
    candidate, comparator = outer.taken(outer.candidate)[rows], outer.taken(outer.comparator)[rows]
    place = np.arange(len(rows))
    sign = candidate * choice.taken(choice.candidate) - comparator * choice.taken(choice.comparator)
    predicted = view.predicted(measure, inner_name)
    reward = widen_residuals(view.subtree(measure, inner_name).worst(sign), predicted[place, choice.action], widened)
    factors = inner_factors(choice, candidate, comparator, stakes[rows], predicted, reward, bets)
    return nested_means(batch, inner_name, factors)


def _unit_factors(view: CandidateView, within: MeanRange, stakes: Stakes, nu: Array, bets: Array, widened: float) -> Array:
    level, action, rows = within.level, view.batch.levels[within.level].action, np.arange(len(nu))
    predicted = within.scaled(view.predicted(within.measure, level))
    reward = within.observed(view.subtree(within.measure, level), view.batch).worst(stakes.weights[rows, action])
    reward = widen_residuals(reward, predicted[rows, action], widened)
    return nested_means(view.batch, level, water_filled_factors(stakes, nu, predicted, action, reward, within.width * bets))


def _carried_candidate(view: CandidateView, level: str, scope: Scope) -> Array:
    """Return the candidate's distribution `[n, A]`, times the weight of what went before if decisions carry over."""
    if view.problem.carry_over == "none":
        return path_full(view, level, view.batch, scope)
    before = carry_over_weights(view, view.batch, scope, level)
    return before[:, None] * sequential_full(view, level, view.batch, scope)


def _carried_comparator(view: CandidateView, level: str, scope: Scope) -> Array:
    """Return the comparator's distribution `[n, A]`, times its weight of what went before if decisions carry over."""
    incumbent = view.against(scope)
    if incumbent is None:
        return view.logging(level)
    if view.problem.carry_over == "none":
        return path_full(incumbent, level, view.batch)
    before = carry_over_weights(incumbent, view.batch, scope, level)
    most = view.comparator.products.get(level)
    if most is not None and (before > most * (1.0 + 1e-9)).any():
        row = int(view.batch.first_rows(level)[int(np.argmax(before > most * (1.0 + 1e-9)))])
        raise RefusedError(
            f"{view.batch.where(row)}, level '{level}': the incumbent makes the decisions of the episode so far "
            f"{before.max():.4g} times as likely as the log, more than 'max_product' ({most:g}) promises",
            fix="declare the largest product that can occur",
        )
    full, logged = path_full(incumbent, level, view.batch), view.logging(level)
    never = ((full > NEVER_TAKEN) & (logged <= 0)).any(axis=1)
    if never.any():
        row = int(view.batch.first_rows(level)[int(np.argmax(never))])
        raise RefusedError(
            f"{view.batch.where(row)}, level '{level}': the incumbent would take an action here that the log never takes, so "
            "that no 'max_product' bounds what it makes of an episode",
            fix="correct 'incumbent', or leave 'max_product' out",
        )
    return before[:, None] * full


def _choice(view: CandidateView, level: str, scope: Scope) -> LoggedChoice:
    nu, mu = view.logging(level), view.comparing(level)
    return LoggedChoice(path_full(view, level, view.batch, scope), mu, nu, view.batch.levels[level].action)


def widen_residuals(reward: Array, predicted: Array, factor: float) -> Array:
    """Return rewards `[n]` with their residuals multiplied by a factor, in [0, 1]."""
    return reward if factor == 1.0 else np.clip(predicted + factor * (reward - predicted), 0.0, 1.0)


SUM_ROUNDING = 1e-14  # of sums of a few probabilities


def filled_gains_within_error(
    view: CandidateView, scope: Scope, measure: Measure, bets: Array, factor: float, widened: float = 1.0
) -> Array:
    """Return the water-filled factors `[E, J]` for the gain at a scope of one level, valid within a factor.

    If decisions carry over, the candidate's distribution is multiplied by the least weight of what went before. widened: see
    `filled_gains`.
    """
    (level,) = scope
    chances, nu, action = candidate_distribution(view, scope), view.logging(level), view.batch.levels[level].action
    predicted, rows = view.predicted(measure, level), np.arange(len(nu))
    stated = view.against(scope) is not None
    if stated:
        mu = view.comparing(level)
        surplus = (chances - mu)[rows, action]
    else:
        if view.problem.carry_over != "none":
            lowered = with_least_weights(view, {level: factor})
            chances = carry_over_weights(lowered, lowered.batch, scope, level)[:, None] * chances
        least = least_weights(chances, nu, factor)
        surplus = least[rows, action] - 1.0
    reward = widen_residuals(view.subtree(measure, level).worst(surplus), predicted[rows, action], widened)
    if stated:
        factors = sensitivity_factors_against(chances, mu, nu, predicted, action, reward, bets, factor)
    else:
        factors = sensitivity_factors(least, nu, predicted, action, reward, bets, factor)
    return nested_means(view.batch, level, factors)


def candidate_distribution(view: CandidateView, scope: Scope) -> Array:
    """Return the candidate's distribution `[n, A]` at the one level in scope; computed once."""
    (level,) = scope
    key = ("distribution", scope)
    if key not in view._series:
        choice = path_full if view.problem.carry_over == "none" else sequential_full
        view._series[key] = choice(view, level, view.batch, scope)
    return view._series[key]


def largest_gain_within_error(cap: float, factors: Mapping[str, float]) -> float:
    """Return T_max of the bets at one level: no gain is larger, and a candidate that keeps its cap can afford every bet.

    pi <= W nu <= W G nu', so that no gain exceeds `T = 1 - 1/(W G)`, and with w the least weights `sum nu (1 - w)^+ <= T` too.
    With a share C of a bet, (*) of `aegis.evidence.sensitivity_bets` asks of the least stakes `b = (1 - w)^+` in [0, 1] that
    `sum nu b + (G^2 - 1) sum nu (b - C)^+ <= C`. As (b - C)^+ <= b (1 - C), `T + (G^2 - 1) T (1 - C) <= C` is enough, which is
    `C >= T G^2 / (1 + T (G^2 - 1)) >= T`.
    """
    (factor,) = factors.values()
    most, square = 1.0 - 1.0 / (cap * factor), factor * factor
    # A candidate may be so close to the legacy that rounding matters; a larger T is as valid.
    return min(1.0, most * square / (1.0 + most * (square - 1.0)) + SUM_ROUNDING) if most > 0 else 0.0
