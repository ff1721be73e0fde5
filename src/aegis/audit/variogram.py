"""Is a logged quantity one function of its context? The nugget of its variogram: variation between nearest neighbours.

A function varies less the nearer two contexts are: the mean difference between neighbours goes to 0 with their distance. If
several functions take turns, it goes to a positive number instead, the nugget. A context that the function ignores makes
neighbours look farther apart than they are. So several distances are tried: by all coordinates, by fitted linear and
quadratic indices, and by coordinates chosen one at a time. One distance under which neighbours agree is enough to call it
one function. A function that changes faster than neighbours are apart looks like several; where contexts are too sparse to
exclude that, there is no answer.

The past. A legacy that learns makes its later probabilities, and so the rows on either side of a split by hash, depend on
rewards of the other side. Pairs of decisions with like contexts are compared: does the difference of their probabilities go
with the difference in time, or in what was earned before? A standard score over the pairs, for a log of fixed length.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr

from aegis.audit.batch_view import comparable_times
from aegis.problem import AnyArray, Array, Batch, group_means

NEAR, FAR, RANKS = 2, 6, 10  # neighbours that are compared: the first two, and the seventh to the tenth
NUGGET, SCORE = 0.12, 3.0  # the difference at distance 0 is at least this share, and so many standard errors
LEFT, SOME = 0.1, 2.0  # ... the same under the distance by all coordinates, for which it is estimated less well
APART = 10.0  # standard deviations that count as the distance between two categories
INDICES = 3  # directions of the quantity for which an index is fitted
ROWS = 4  # that an index needs for each of its coefficients
STEPS, BETTER = 4, 0.98  # coordinates chosen one at a time; each must bring the difference down to this share
ROLLS = 12  # random pairs for each row
FEWEST, RARE = 5, 0.01  # pairs of equal contexts that differ, and their share of all such pairs


class Limits(NamedTuple):
    """When contexts are alike, and when they explain a quantity.

    like: distance between nearest neighbours over that between random pairs, at most. share: the difference between neighbours
    over that between random pairs, below which it is explained.
    """

    like: float
    share: float


# For distributions; for one probability of each, which says less; and where contexts repeat, so that nothing hides between them.
WHOLE, SINGLE, REPEATED = Limits(0.3, 0.2), Limits(0.2, 0.35), Limits(0.0, 0.1)


@dataclass(frozen=True, slots=True)
class Nugget:
    """What like contexts leave unexplained: the mean difference between neighbours, and between random pairs; an example.

    share: of the pairs of neighbours, those that differ. rows: two like contexts at which the quantity differs.
    """

    near: float
    random: float
    share: float
    rows: tuple[int, int]


def nugget_of_repeats(keys: AnyArray, measure: Variogram) -> Nugget | None:
    """Return how a quantity differs between equal contexts, given by their keys `[n]`; None if it hardly does.

    For contexts that are known exactly. A number in a log may have been rounded, so that equal ones were not equal.
    """
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not again.size:
        return None
    gap = measure.gaps(order[again], order[again + 1])
    differing = np.flatnonzero(gap > 0)
    if differing.size < max(FEWEST, RARE * gap.size):
        return None
    place = again[differing[np.argmax(gap[differing])]]
    rows = (int(order[place]), int(order[place + 1]))
    return Nugget(float(gap.mean()), measure.random, differing.size / gap.size, rows)


def fit_nugget(numbers: Array, categories: AnyArray, measure: Variogram) -> Nugget | None:
    """Return what like contexts leave unexplained of a quantity; None if it may be one function of them.

    numbers `[n, p]`, categories `[n, q]`: the contexts; rows are in random order.
    """
    if len(measure) <= 3 * RANKS or measure.random <= measure.same:
        return None
    reals, labels = _standardised(numbers), _labels(categories)
    plain = [real[:, None] for real in reals] + [APART * label for label in labels]
    whole = measure.look(plain)
    if whole.distant == 0:
        measure.limits = REPEATED
    if whole.distance > measure.limits.like * _typical(np.column_stack([*reals, *labels, *measure.apart])):
        return None
    if whole.distant > 0:
        _explain(measure, plain, _indices(reals, labels, measure))
    best = measure.best
    if best is None or measure.explained or not best.clear(NUGGET * measure.random, SCORE):
        return None
    if not whole.clear(LEFT * measure.random, SOME):
        return None
    return Nugget(best.mean, measure.random, float((best.near > 0).mean()), whole.example())


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Each row and its neighbours under one distance: mean differences `[n]` to the near and the far ones, and their distances.

    nearest `[n]`, gap `[n]`, apart `[n]`: the nearest one, the difference to it and its distance.
    """

    near: Array
    far: Array
    close: float
    distant: float
    nearest: AnyArray
    gap: Array
    apart: Array

    @property
    def mean(self) -> float:
        return float(self.near.mean())

    @property
    def distance(self) -> float:
        return float(np.median(self.apart))

    def clear(self, least: float, score: float) -> bool:
        """Say whether the difference at distance 0, on a straight line through near and far neighbours, is beyond both limits."""
        spread = self.distant - self.close
        slope = self.close / spread if spread > 0.02 * self.close else 50.0 * (self.close > 0)
        left = self.near - (self.far - self.near) * slope
        return bool(left.mean() >= max(least, score * float(left.std()) / math.sqrt(left.size)))

    def example(self) -> tuple[int, int]:
        """Return two rows that differ by more than the average, among those the nearest ones."""
        apart = np.where(self.gap >= max(self.mean, 1e-300), self.apart, np.inf)
        row = int(np.argmin(apart)) if np.isfinite(apart).any() else int(np.argmax(self.gap))
        return row, int(self.nearest[row])


class Variogram:
    """Differences of a quantity `[n, k]` between rows; the distance under which neighbours differed least so far.

    Rows differ by half the sum of absolute differences, the total variation of distributions, and not at all if that is below
    `same`. groups `[n]`: only rows of the same group are compared, each of which has more than `RANKS`. relative: the quantity is
    the logarithm `[n, 1]` of a positive number; two of these differ by one minus the smaller over the larger.
    """

    def __init__(
        self, quantity: Array, same: float, limits: Limits = WHOLE, groups: AnyArray | None = None, relative: bool = False
    ) -> None:
        self.quantity, self.same, self.limits, self.relative = quantity, same, limits, relative
        self.targets = quantity if limits is WHOLE or relative else np.column_stack([quantity, _logits(0.5 * quantity)])
        self.apart = [] if groups is None else _labels(groups[:, None])
        every = np.zeros(len(quantity)) if groups is None else groups
        self.members = [np.flatnonzero(every == value) for value in np.unique(every)]
        order = np.argsort(every, kind="stable")
        steps = [self._at_random(order, every[order], step) for step in range(1, ROLLS + 1)]
        pairs = np.concatenate(steps)
        self.random = float(pairs.mean()) if pairs.size else 0.0
        self.best: _Neighbours | None = None

    def __len__(self) -> int:
        return len(self.quantity)

    @property
    def explained(self) -> bool:
        """Whether neighbours agree under one of the distances."""
        return self.best is not None and self.best.mean < self.limits.share * self.random

    def gaps(self, one: AnyArray, other: AnyArray) -> Array:
        """Return the differences between rows; 0 where they are too small to count."""
        total = np.abs(self.quantity[one] - self.quantity[other]).sum(axis=-1)
        gap = -np.expm1(-total) if self.relative else 0.5 * total
        return np.where(gap > self.same, gap, 0.0)

    def look(self, coordinates: Sequence[Array]) -> _Neighbours:
        """Return the neighbours of each row by some coordinates, each `[n, d]`."""
        count = len(self)
        points = np.column_stack([np.zeros(count), *coordinates, *[1e3 * APART * label for label in self.apart]])
        distance, index = cKDTree(points).query(points, k=RANKS + 1)
        own = index == np.arange(count)[:, None]
        own[~own.any(axis=1), -1] = True  # among many equal points a row may not be its own neighbour
        index, distance = index[~own].reshape(count, RANKS), distance[~own].reshape(count, RANKS)
        gap = self.gaps(np.arange(count)[:, None], index)
        neighbours = _Neighbours(
            gap[:, :NEAR].mean(axis=1),
            gap[:, FAR:].mean(axis=1),
            float(distance[:, :NEAR].mean()),
            float(distance[:, FAR:].mean()),
            index[:, 0],
            gap[:, 0],
            distance[:, 0],
        )
        if self.best is None or neighbours.mean < self.best.mean:
            self.best = neighbours
        return neighbours

    def _at_random(self, order: AnyArray, groups: AnyArray, step: int) -> Array:
        """Return differences of pairs that are `step` apart in an order that is random within groups."""
        alike = groups[:-step] == groups[step:]
        return self.gaps(order[:-step][alike], order[step:][alike])


def _explain(measure: Variogram, plain: list[Array], indices: list[list[Array]]) -> None:
    """Look for a distance under which neighbours agree: by indices, then by coordinates chosen one at a time."""
    for fitted in indices:
        if fitted and not measure.explained:
            measure.look(fitted)
    candidates = [*plain, *itertools.chain.from_iterable(indices)]
    chosen: list[int] = []
    least = math.inf
    for _ in range(STEPS):
        means: dict[int, float] = {}
        for place in range(len(candidates)):
            if measure.explained:
                return
            if place not in chosen:
                means[place] = measure.look([candidates[other] for other in [*chosen, place]]).mean
        if not means or min(means.values()) > BETTER * least:
            return
        chosen.append(min(means, key=means.__getitem__))
        least = means[chosen[-1]]


def _standardised(numbers: Array) -> list[Array]:
    """Return the columns that vary, with mean 0 and standard deviation 1."""
    columns = []
    for column in numbers.T:
        unit = float(np.abs(column).max())
        column = column / unit if unit > 0 else column  # squares of large numbers do not fit
        deviation = float(column.std())
        if deviation > 1e-9:
            columns.append((column - column.mean()) / deviation)
    return columns


def _labels(categories: AnyArray) -> list[Array]:
    """Return each column that varies as indicators `[n, values]` at a distance of 1 from each other."""
    columns = []
    for column in categories.T:
        values, codes = np.unique(column, return_inverse=True)
        if values.size > 1:
            columns.append(np.eye(values.size)[codes] / math.sqrt(2.0))
    return columns


def _indices(reals: Sequence[Array], labels: Sequence[Array], measure: Variogram) -> list[list[Array]]:
    """Return linear and quadratic functions of the contexts that follow the main directions of the quantity, standardised.

    Each group has its own, if it has enough rows.
    """
    single = [*reals, *[column for label in labels for column in label[:, 1:].T]]
    products = [one * other for one, other in itertools.combinations_with_replacement(single, 2)] if len(single) < 32 else []
    fitted = []
    for columns in (single, [*single, *products]):
        design = np.column_stack([np.ones(len(measure)), *columns])
        parts = [_fitted(design[rows], measure.targets[rows]) for rows in measure.members]
        if all(part is not None for part in parts):
            values = np.zeros((len(measure), max(part.shape[1] for part in parts if part is not None)))
            for rows, part in zip(measure.members, parts, strict=True):
                values[rows, : part.shape[1]] = part  # type: ignore[union-attr]
            fitted.append([column[:, None] for column in _standardised(values)])
    return fitted


def _fitted(design: Array, quantity: Array) -> Array | None:
    """Return the main directions of a quantity as the columns of a design fit them; None if there are too few rows."""
    if len(design) < ROWS * design.shape[1]:
        return None
    centred = quantity - quantity.mean(axis=0)
    directions, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    # Numeric actions come in their order: the mean action of a linear controller is linear, its probabilities are not.
    mean = centred @ np.arange(centred.shape[1])
    wanted = np.column_stack([directions[:, : min(INDICES, int((sizes > 1e-6 * sizes[0]).sum()))], mean])
    return np.asarray(design @ np.linalg.lstsq(design, wanted, rcond=None)[0])


def _logits(chances: Array) -> Array:
    """Return the logarithms of the odds, which a controller with soft preferences has linear in its context, within limits."""
    inside = np.clip(chances, 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _typical(points: Array) -> float:
    """Return the median distance between random pairs of points `[n, d]`."""
    return float(np.median(np.linalg.norm(points - np.roll(points, 1, axis=0), axis=1)))


ALPHA = 0.001
MEMORY = 0.9  # of the running mean of what was earned before
MOST_PARTS = 8  # of a distribution that are compared: those that vary most
FEWEST_LIKE_PAIRS = 50  # pairs
PAST = ("time", "the reward before", "what the last action earned", "recent rewards", "what recent actions earned")


def past_of(batch: Batch, action: Array, earlier: int) -> Array:
    """Return for each episode of a batch when it started and what was earned before it, `[E, 5]`, in the order of `PAST`.

    action `[E]`: of each episode, 1 in the upper half of its set and -1 in the lower one, 0 if it has none. earlier:
    episodes in earlier batches.
    """
    count = len(batch)
    times = comparable_times(batch)
    order = np.arange(count) if times is None else np.argsort(np.asarray(times), kind="stable")
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
    past = np.zeros((count, len(PAST)))
    past[order, 0] = earlier + np.arange(count)
    earned = np.stack([reward[order], (reward * action)[order]], axis=1)
    past[order[1:], 1:3] = earned[:-1]
    fading = (1.0 - MEMORY) * MEMORY ** np.arange(50)
    recent = np.stack([np.convolve(column, fading)[:count] for column in earned.T], axis=1)
    past[order[1:], 3:] = recent[:-1]
    return past


class Following(NamedTuple):
    """What probabilities go with at like contexts. chance: of such a score, the largest of all, if they went with nothing."""

    what: str
    score: float
    chance: float


def followed_past(numbers: Array, groups: AnyArray, quantity: Array, past: Array) -> Following | None:
    """Return what probabilities go with at like contexts, None if with nothing.

    numbers `[n, d]` and groups `[n]`: contexts; only members of one group are alike. quantity `[n, Q]`: probabilities.
    """
    one, other = _pairs(numbers, groups)
    if one.size < FEWEST_LIKE_PAIRS:
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
    both = np.concatenate(pairs) if pairs else np.zeros((0, 2), dtype=np.int64)
    return both[:, 0], both[:, 1]
