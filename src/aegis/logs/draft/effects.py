"""Tests whether an action moves a column. Where propensities are known, the log itself tells.

An action drawn with known probabilities is independent of everything that was there before, given those probabilities. A
column that moves with the draw was brought about by it, and is no context of that decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.logs.column_values import all_numeric
from aegis.logs.draft.column_profile import CodeArray, ColumnProfile, SampleGroups, stack_numbers
from aegis.logs.draft.guesses import ActionGuess
from aegis.problem import AnyArray, Array

CLEAR_EFFECT = 4.25  # standard errors: with some thirty comparisons a false alarm is one in a thousand columns
LIKELY_EFFECT = 3.5  # the same for a column whose name or place suggests a result: to leave out a context is the lesser evil
FEWEST_EPISODES = 30  # episodes below which nothing is said
_MOST_DECISIONS = 50_000  # the first ones of a level; effects that they do not show are small
_ONE_BY_ONE = 12  # actions and categories
_OFTEN = 10  # times an action must have been taken to be looked at on its own
_BINS = 8  # in which more actions than that are looked at, by size
_LARGEST_WEIGHT = 1e6
_OFF = 0.15  # share of the decisions by which inverse chances may miss their number


@dataclass(frozen=True, slots=True)
class ActionDraws:
    """What was drawn minus what was to be expected, decisions of one episode next to each other.

    rows `i64[m]`: a row of each decision. surprises `f64[m, functions of the action]`: mean 0 given everything known before.
    variances `[m, functions]`: what they vary by, as far as it is known, else 0. starts `i64[episodes]`: where each begins.
    """

    rows: CodeArray
    surprises: Array
    variances: Array
    starts: CodeArray

    def strength(self, look: ColumnProfile) -> float:
        """Return how clearly a column moves with the action: the largest of several |z|, one unit per episode.

        Where the column has several values within a decision, that of one row is taken.
        """
        largest = 0.0
        for feature in _features(look, self.rows):
            per_unit = np.add.reduceat(self.surprises * feature[:, None], self.starts, axis=0)
            # What was drawn too rarely to vary in this log still might have: the known variance is a floor.
            spread = np.sqrt(np.maximum(np.sum(per_unit**2, axis=0), (feature**2) @ self.variances))
            enough = (np.count_nonzero(per_unit, axis=0) >= FEWEST_EPISODES) & (spread > 0)
            if enough.any():
                largest = max(largest, float(np.max(np.abs(per_unit.sum(axis=0))[enough] / spread[enough])))
        return largest


def action_draws(action: ActionGuess, groups: SampleGroups, episodes: SampleGroups) -> ActionDraws | None:
    """Return what the log tells about what an action brings about; None if it tells nothing.

    groups: the decisions. None without chances, if they do not add up, or with fewer than FEWEST_EPISODES.
    """
    if not action.paired or action.density or len(episodes) < FEWEST_EPISODES:
        return None
    first = np.sort(groups.first)[:_MOST_DECISIONS]
    rows = first[np.argsort(episodes.of[first], kind="stable")]
    unit = episodes.of[rows]
    starts = np.flatnonzero(np.concatenate([[True], unit[1:] != unit[:-1]])).astype(np.int64)
    surprises = _surprises(action, rows)
    return None if surprises is None or starts.size < FEWEST_EPISODES else ActionDraws(rows, *surprises, starts)


def affects_propensities(action: ActionGuess, other: ActionGuess, groups: SampleGroups, episodes: SampleGroups) -> bool:
    """Say whether one action moves the chances of another, which is then decided later."""
    draws = action_draws(action, groups, episodes)
    return draws is not None and any(draws.strength(look) > CLEAR_EFFECT for look in other.chances)


def _surprises(action: ActionGuess, rows: AnyArray) -> tuple[Array, Array] | None:
    """Return functions of the action minus their expectation, `[m, functions]`, and their variances, 0 where not known."""
    taken = action.index[rows]
    often = np.bincount(taken, minlength=len(action.values))
    if action.full:
        chances, scores = stack_numbers(action.full)[rows], _scores(action, often >= _OFTEN)
        expected = chances @ scores
        return scores[taken] - expected, np.maximum(chances @ scores**2 - expected**2, 0.0)
    if action.taken is None or action.taken.numbers is None:
        return None
    weight = np.minimum(1 / action.taken.numbers[rows], _LARGEST_WEIGHT)[:, None]
    possible = stack_numbers(action.available)[rows] if action.available else np.ones((rows.size, len(action.values)))
    usable = (often >= FEWEST_EPISODES) & _adding_up(weight * np.eye(len(action.values))[taken] - possible, possible)
    if usable.sum() < 2:
        return None
    scores = _scores(action, usable) if usable.all() else np.eye(len(action.values))[:, usable]
    surprises = weight * scores[taken] - possible @ scores
    return surprises, np.zeros_like(surprises)


def _adding_up(counts: Array, possible: Array) -> npt.NDArray[np.bool_]:
    """Say for which actions `[A]` the inverse chances of the times they were taken add up to the times they were possible.

    counts `[m, A]`: the one minus the other. Where they do not add up, the action had no chance, or next to none, in some
    contexts, and then it tells contexts apart rather than what comes after it.
    """
    off = np.abs(counts.sum(axis=0))
    return (off <= 2 * np.sqrt(np.sum(counts**2, axis=0))) & (off <= _OFF * possible.sum(axis=0))


def _scores(action: ActionGuess, usable: npt.NDArray[np.bool_]) -> Array:
    """Return functions of the action by its place among the values, `[A, functions]`: single ones, or bins; its size, its square.

    usable `[A]`: which actions may have a function of their own.
    """
    count = len(action.values)
    own = np.flatnonzero(usable)
    if not all_numeric(action.values):
        return np.eye(count)[:, own[:_ONE_BY_ONE]]
    numbers = np.asarray(action.values, dtype=np.float64)
    scaled = (numbers - numbers.mean()) / max(float(numbers.std()), 1e-12)
    single = np.eye(count)[:, own] if own.size <= _ONE_BY_ONE else np.eye(_BINS)[np.arange(count) * _BINS // count]
    return np.column_stack([single, scaled, scaled**2 - 1])


def _features(look: ColumnProfile, rows: AnyArray) -> Iterator[Array]:
    """Yield functions of a column, `[m]`: the rank of a number and its square (no outlier has a say), or single categories."""
    codes = look.codes[rows]
    if look.numbers is None or look.count <= 2:
        for code in range(min(look.count, _ONE_BY_ONE)):
            hits = codes == code
            yield hits - hits.mean()
        return
    known = codes >= 0
    _, inverse, counts = np.unique(look.numbers[rows][known], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts + 1) / 2  # equal numbers share the middle of their ranks
    place = np.zeros(rows.size)
    place[known] = 2 * middle[inverse.reshape(-1)] / max(int(known.sum()) - 1, 1) - 1
    yield place
    yield np.where(known, place**2 - 1 / 3, 0.0)
