"""Do propensities at like contexts move in time, or follow earlier rewards? Then learning and certifying are split in time.

A controller that learns makes its later probabilities, and so the rows on either side of a split by hash, depend on rewards of
the other side. Pairs of decisions with like contexts are compared: does the difference of their probabilities go with the
difference in time, or in what was earned before? A standard score over the pairs, for a log of fixed length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr

from aegis.audit.sums import group_means
from aegis.problem import AnyArray, Array, Batch

ALPHA = 0.001
MEMORY = 0.9  # of the running mean of what was earned before
MOST_PARTS = 8  # of a distribution that are looked at: those that vary most
FEWEST = 50  # pairs
PAST = ("time", "the reward before", "what the last action earned", "recent rewards", "what recent actions earned")


def past_of(batch: Batch, action: Array, seen: int) -> Array:
    """Return for each episode of a batch when it started and what was earned before it, `[E, 5]`, in the order of `PAST`.

    action `[E]`: of each episode, 1 in the upper half of its set and -1 in the lower one, 0 if it has none. seen: episodes in
    earlier batches.
    """
    count = len(batch)
    timed = batch.time is not None and batch.time.dtype.kind in "iufM"
    order = np.argsort(np.asarray(batch.time), kind="stable") if timed else np.arange(count)
    reward = np.zeros(count)
    if batch.reward is not None:
        known = np.asarray(batch.reward, dtype=np.float64)
        if batch.observed is not None:
            known = np.where(batch.observed, known, np.nan)
        reward = group_means(batch.episode_of(list(batch.levels)[-1]), known, count)
        finite = np.isfinite(reward)
        reward = reward / (float(np.abs(reward[finite]).max(initial=0.0)) or 1.0)  # so that squares do not overflow
        centre, spread = (float(reward[finite].mean()), float(reward[finite].std())) if finite.any() else (0.0, 0.0)
        reward = np.where(finite & (spread > 0), (reward - centre) / (spread or 1.0), 0.0)
    found = np.zeros((count, len(PAST)))
    found[order, 0] = seen + np.arange(count)
    earned = np.stack([reward[order], (reward * action)[order]], axis=1)
    found[order[1:], 1:3] = earned[:-1]
    fading = (1.0 - MEMORY) * MEMORY ** np.arange(50)
    recent = np.stack([np.convolve(column, fading)[:count] for column in earned.T], axis=1)
    found[order[1:], 3:] = recent[:-1]
    return found


@dataclass(frozen=True, slots=True)
class Following:
    """What probabilities go with at like contexts. chance: of such a score, the largest of all, if they went with nothing."""

    what: str
    score: float
    chance: float


def follows(numbers: Array, groups: AnyArray, quantity: Array, past: Array) -> Following | None:
    """Return what probabilities go with at like contexts, None if with nothing.

    numbers `[n, d]` and groups `[n]`: contexts; only members of one group are alike. quantity `[n, Q]`: probabilities.
    """
    one, other = _pairs(numbers, groups)
    if one.size < FEWEST:
        return None
    parts = np.argsort(-quantity.var(axis=0))[:MOST_PARTS]
    change = quantity[one][:, parts] - quantity[other][:, parts]
    step = past[one] - past[other]
    product = change[:, :, None] * step[:, None, :]
    spread = np.sqrt((product**2).sum(axis=0))
    score = np.abs(np.where(spread > 0, product.sum(axis=0) / np.where(spread > 0, spread, 1.0), 0.0))
    largest = float(score.max(initial=0.0))
    chance = 2.0 * score.size * float(ndtr(-largest))
    return None if chance > ALPHA else Following(PAST[int(np.argmax(score.max(axis=0)))], largest, chance)


def _pairs(numbers: Array, groups: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return pairs of like contexts, each pair once: nearest neighbours within a group; where all are equal, any two."""
    pairs: list[AnyArray] = []
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        if rows.size < 2:
            continue
        own = numbers[rows]
        spread = own.std(axis=0)
        own = own[:, spread > 0] / spread[spread > 0]
        if not own.shape[1]:
            half = rows.size // 2 * 2
            pairs.append(np.stack([rows[:half:2], rows[1:half:2]], axis=1))
            continue
        _, near = cKDTree(own).query(own, k=2)
        nearest = np.where(near[:, 0] == np.arange(rows.size), near[:, 1], near[:, 0])
        both = np.sort(np.stack([np.arange(rows.size), nearest], axis=1), axis=1)
        pairs.append(rows[np.unique(both, axis=0)])
    found = np.concatenate(pairs) if pairs else np.zeros((0, 2), dtype=np.int64)
    return found[:, 0], found[:, 1]
