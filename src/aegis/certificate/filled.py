"""Water-filled factors of one level in scope: the default wherever the log holds the whole logging distribution.

A unit's factor is the nested mean of its decisions' factors; r is the mean reward below a decision. The comparator mu is the
incumbent where it is stated, else the logger nu. With `carry_over: within` the probabilities of candidate and comparator are
multiplied by their G, the weight of all earlier in-scope decisions of the episode (theory sections 5 and 12).
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.measures import Measure, Observed
from aegis.certificate.units import nested_means
from aegis.certificate.view import View
from aegis.certificate.weights import carried, last_in_scope, lowered, path_weights
from aegis.certificate.within import Within
from aegis.errors import RefusedError, SettingError
from aegis.evidence import Choice, Inner, Stakes, gain_stakes, inner_factors, outer_stakes, value_stakes, water_filled
from aegis.policies import path_full, sequential_full
from aegis.problem import Array, Scope

NEVER = 1e-6  # probability of an incumbent at actions that the log never takes, beyond rounding


def filled_gains(
    view: View, scope: Scope, measure: Measure, bets: Array, widened: float = 1.0, within: Within | None = None
) -> Array:
    """Return the factors `[E, J]` for the gain; `widened` multiplies residuals, to place a grid on data the model has seen.

    within: declared limits of the means below the decisions.
    """
    (level,) = scope
    nu = view.logging(level)
    stakes = gain_stakes(_candidate(view, level, scope), _comparator(view, level, scope), nu)
    return _unit_factors(view, within or Within(level, measure), stakes, nu, bets, widened)


def corrected_gains(view: View, scope: Scope, measure: Measure, most: float, bets: Array, widened: float = 1.0) -> Array:
    """Return the factors `[E, J]` for the gain at one level while the incumbent acts at all others.

    With u = mu/nu at the other levels: a level above turns the factor E of a decision into `1 + (u / C) (E - 1)`, a level below
    turns its reward r into `u r / C`. most: C, the largest u along a path. A bet on the gain is one C times as large on the gain
    divided by C (theory section 12, other levels).
    """
    (level,) = scope
    batch, nu = view.batch, view.logging(level)
    found = view.against(view.comparator.levels)
    others = Scope(view.comparator.levels - scope)
    if found is None or not others:
        return filled_gains(view, scope, measure, bets, widened)
    names = list(batch.levels)
    place = names.index(level)
    above, below = Scope(others & set(names[:place])), Scope(others & set(names[place + 1 :]))
    over = path_weights(found, batch, above) if above else None
    ratio = None if over is None else lowered(batch, over, last_in_scope(batch, above), level)
    upper = 1.0 if not above else _ratio(view, above)
    stakes = gain_stakes(_candidate(view, level, scope), _comparator(view, level, scope), nu)
    seen = view.subtree(measure, level) if not below else _reweighted(view, found, measure, level, below, most / upper)
    rows, action = np.arange(len(nu)), batch.levels[level].action
    predicted = view.predicted(measure, level) / (most / upper)
    reward = widen(seen.worst(stakes.weights[rows, action]), predicted[rows, action], widened)
    factors = water_filled(stakes, nu, predicted, action, reward, most * bets)
    if ratio is not None:
        factors = 1.0 + (ratio / upper)[:, None] * (factors - 1.0)
    return nested_means(batch, level, factors)


def _ratio(view: View, scope: Scope) -> float:
    found = view.comparator.ratio(scope)
    if found is None:
        raise SettingError(f"the largest mu / nu at {', '.join(sorted(scope))} is not known; declare 'max_ratio' or 'epsilon'")
    return found


def _reweighted(view: View, found: View, measure: Measure, level: str, below: Scope, most: float) -> Observed:
    """Return the mean of `u r / C` below each decision of a level, u the incumbent's ratio at levels further in."""
    batch, last = view.batch, last_in_scope(view.batch, below)
    start = view.level or next(iter(batch.levels))
    u = path_weights(found, batch, below)
    u = lowered(batch, u, last, start) / most
    seen = view.observed(measure)
    scaled = Observed(u * seen.low, u * seen.high)
    return view.raised(scaled, start, level)


def filled_values(view: View, scope: Scope, measure: Measure, bets: Array, widened: float = 1.0) -> Array:
    """Return the factors `[E, J]` for the value."""
    (level,) = scope
    nu = view.logging(level)
    stakes = value_stakes(_candidate(view, level, scope), nu)
    return _unit_factors(view, Within(level, measure), stakes, nu, bets, widened)


def joint_gains(view: View, scope: Scope, measure: Measure, inner: Inner, bets: Array, widened: float = 1.0) -> Array:
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
    reward = widen(view.subtree(measure, inner_name).worst(sign), predicted[place, choice.action], widened)
    factors = inner_factors(choice, candidate, comparator, stakes[rows], predicted, reward, bets)
    return nested_means(batch, inner_name, factors)


def _unit_factors(view: View, within: Within, stakes: Stakes, nu: Array, bets: Array, widened: float) -> Array:
    level, action, rows = within.level, view.batch.levels[within.level].action, np.arange(len(nu))
    predicted = within.scaled(view.predicted(within.measure, level))
    reward = within.observed(view.subtree(within.measure, level), view.batch).worst(stakes.weights[rows, action])
    reward = widen(reward, predicted[rows, action], widened)
    return nested_means(view.batch, level, water_filled(stakes, nu, predicted, action, reward, within.width * bets))


def _candidate(view: View, level: str, scope: Scope) -> Array:
    """Return the candidate's distribution `[n, A]`, times the weight of what went before if decisions carry over."""
    if view.problem.carry_over == "none":
        return path_full(view, level, view.batch, scope)
    before = carried(view.problem, view, view.batch, scope, level)
    return before[:, None] * sequential_full(view, level, view.batch, scope)


def _comparator(view: View, level: str, scope: Scope) -> Array:
    """Return the comparator's distribution `[n, A]`, times its weight of what went before if decisions carry over."""
    found = view.against(scope)
    if found is None:
        return view.logging(level)
    if view.problem.carry_over == "none":
        return path_full(found, level, view.batch)
    before = carried(view.problem, found, view.batch, scope, level)
    most = view.comparator.products.get(level)
    if most is not None and (before > most * (1.0 + 1e-9)).any():
        row = int(view.batch.first_rows(level)[int(np.argmax(before > most * (1.0 + 1e-9)))])
        raise RefusedError(
            f"{view.batch.where(row)}, level '{level}': the incumbent makes the decisions of the episode so far "
            f"{before.max():.4g} "
            f"times as likely as the log, more than 'max_product' ({most:g}) promises; declare the largest product that can occur"
        )
    full, logged = path_full(found, level, view.batch), view.logging(level)
    never = ((full > NEVER) & (logged <= 0)).any(axis=1)
    if never.any():
        row = int(view.batch.first_rows(level)[int(np.argmax(never))])
        raise RefusedError(
            f"{view.batch.where(row)}, level '{level}': the incumbent would take an action here that the log never takes, so "
            "that no "
            "'max_product' bounds what it makes of an episode; correct 'incumbent', or leave 'max_product' out"
        )
    return before[:, None] * full


def _choice(view: View, level: str, scope: Scope) -> Choice:
    nu, mu = view.logging(level), view.comparing(level)
    return Choice(path_full(view, level, view.batch, scope), mu, nu, view.batch.levels[level].action)


def widen(reward: Array, predicted: Array, factor: float) -> Array:
    """Return rewards `[n]` with their residuals multiplied by a factor, in [0, 1]."""
    return reward if factor == 1.0 else np.clip(predicted + factor * (reward - predicted), 0.0, 1.0)
