"""Smoothed policies: what the choice of a point means where actions are an interval.

A policy that gives probabilities to points acts uniformly in the window of the point it draws. Here, and only here,
probabilities of points become the density of the number taken, `sum_j pi_j 1{A in window j} / length_j`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from aegis.errors import PolicyError
from aegis.policies.base import LevelRule
from aegis.problem import Actions, AnyArray, Array, Batch, Level, LevelTable, Policy, Rows, is_atom, window_density, window_ends


@runtime_checkable
class DrawsNumbers(Protocol):
    """A policy that draws numbers of an interval itself, otherwise than by points and their windows."""

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[S, n]` that each particle takes for uniform numbers `[n]` from 0 to 1."""
        ...


def exact_actions(level: str, table: LevelTable) -> Array:
    """Return the exact actions `[n]`; PolicyError if the table does not hold them, or one has not been taken yet."""
    if table.value is None:
        raise PolicyError(
            f"level '{level}': its actions are an interval, but the decisions hold no exact ones (LevelTable.value); a density "
            "needs the number that was taken"
        )
    if np.isnan(table.value).any():
        row = int(np.argmax(np.isnan(table.value)))
        raise PolicyError(f"level '{level}', row {row}: no action has been taken yet; ask for the full distribution instead")
    return table.value


def smoothed_density(actions: Actions, full: Array, value: Array) -> Array:
    """Return the density `[S, n]` at numbers `[n]` of choosing points by `full` `[S, n, A]` and acting in their windows."""
    heights = window_density(actions, actions.numbers[None, :], value[:, None])
    return np.einsum("sna,na->sn", full, heights)


def probability_taken(full: Array, level: Level, table: LevelTable) -> Array:
    """Return the probabilities `[S, n]` of the actions taken, out of full distributions `[S, n, A]`; densities on an interval."""
    if level.actions.continuous:
        return smoothed_density(level.actions, full, exact_actions(level.name, table))
    refuse_undecided(level.name, table)
    return np.take_along_axis(full, table.action[None, :, None].astype(np.int64), axis=2)[:, :, 0]


def without_atoms(level: Level, table: LevelTable, taken: Array) -> Array:
    """Return what a policy gives to the actions taken, `[S, n]`, with 0 at atoms of the logging policy.

    A probability was logged there; dividing a density by it would mean nothing. Counting such a decision as never taken can
    only lower what is certified.
    """
    if not level.actions.continuous or not level.actions.atoms:
        return taken
    return np.where(is_atom(level.actions, exact_actions(level.name, table)), 0.0, taken)


def refuse_undecided(level: str, table: LevelTable) -> None:
    """Raise PolicyError if an action is still -1: an index of -1 would read the last action in silence."""
    if (table.action < 0).any():
        row = int(np.argmax(table.action < 0))
        raise PolicyError(f"level '{level}', row {row}: no action has been taken yet; ask for the full distribution instead")


def draw_numbers(policy: Policy, level: Level, batch: Batch, uniform: Array) -> Array:
    """Return the number `[S, n]` that each particle takes at an interval, for uniform numbers `[n]` from 0 to 1.

    The uniform number picks a point by inverse cdf, and what is left of it says where in the window.
    """
    if isinstance(policy, DrawsNumbers):
        return policy.drawn(level.name, batch, uniform)
    return draw_from_points(level.actions, np.asarray(policy.full(level.name, batch), dtype=np.float64), uniform)


def draw_from_points(actions: Actions, full: Array, uniform: Array) -> Array:
    """Return the number `[S, n]` taken by probabilities of points `[S, n, A]` for uniform numbers `[n]`."""
    cumulated = np.cumsum(full, axis=2)
    target = uniform * cumulated[:, :, -1]
    point: AnyArray = np.minimum((cumulated <= target[:, :, None]).sum(axis=2), full.shape[2] - 1)  # rounding may reach the end
    chance = np.take_along_axis(full, point[:, :, None], axis=2)[:, :, 0]
    after = np.take_along_axis(cumulated, point[:, :, None], axis=2)[:, :, 0]
    return number_in_window(actions, actions.numbers[point], 1.0 - (after - target) / chance)


def number_in_window(actions: Actions, centres: Array, share: Array) -> Array:
    """Return the numbers that lie a share, from 0 to 1, of the way through the windows around centres."""
    lower, upper = window_ends(actions, centres)
    return np.clip(lower + np.clip(share, 0.0, 1.0) * (upper - lower), lower, upper)


@runtime_checkable
class IntervalRule(Protocol):
    """A rule with a density of its own on an interval."""

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return the density `[n]` at numbers `[n]`; at an atom of the level the probability of it."""
        ...

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return the number `[n]` that is drawn for uniform numbers `[n]` from 0 to 1."""
        ...


def density_of(rule: LevelRule, level: Level, rows: Rows, count: int, value: Array) -> Array:
    """Return the density `[n]` of a rule at numbers `[n]` of an interval."""
    if isinstance(rule, IntervalRule):
        return rule.density(level, rows, count, value)
    return smoothed_density(level.actions, rule.probabilities(level, rows, count)[None], value)[0]


def quantile_of(rule: LevelRule, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
    """Return the number `[n]` that a rule draws from an interval for uniform numbers `[n]`."""
    if isinstance(rule, IntervalRule):
        return rule.quantile(level, rows, count, uniform)
    return draw_from_points(level.actions, rule.probabilities(level, rows, count)[None], uniform)[0]
