"""Drift: do contexts and rewards differ between the halves of the log, and do propensities at like contexts move in time?

Halves are compared on a sample of episodes that does not depend on their order or content.

Propensities. A legacy that learns makes its later probabilities, and so the rows on either side of a split by hash, depend
on rewards of the other side. Pairs of decisions with like contexts are compared: does the difference of their probabilities
go with the difference in time, or in what was earned before? A standard score over the pairs, for a log of fixed length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtr

from aegis.audit.batch_view import BatchView, comparable_times
from aegis.audit.checks.base import PART, AuditSetting, Check, Known, upper_quantile
from aegis.audit.finding import Finding, make_finding
from aegis.problem import AnyArray, Array, Batch, Problem, Variable, group_means
from aegis.rng import stream

KEPT = 2**14  # episodes in the sample
EFFECT = 0.1  # standard deviations, below which a difference is not worth a finding
MOST_COLUMNS = 32
MOST_VERSIONS = 100


class Drift(Check):
    """A sample of episodes: when they were, their mean reward and their mean contexts; and the versions that acted."""

    adds = ("versions",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.names = _names(self.problem)
        self.ticket = np.zeros(0)
        self.order: AnyArray | None = None
        self.values = np.zeros((0, len(self.names)))
        self.next = 0  # number of the next episode
        self.versions: dict[str, set[str]] = {name: set() for name in self.problem.names}

    def begin_part(self, first: int, episodes: int) -> None:
        """Number the episodes of a part from the first one on."""
        self.next = first

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch."""
        batch = view.batch
        for name, table in batch.levels.items():
            if table.version is not None and len(self.versions[name]) < MOST_VERSIONS:
                self.versions[name].add(table.version)
        first, self.next = self.next, self.next + len(batch)
        if view.skimmed:
            return
        part, number = divmod(first, PART)
        key = (part, number) if part else (number,)
        ticket = stream(0, "audit", "drift", *key).random(len(batch))  # the same sample whenever the log is the same
        times = comparable_times(batch)
        order = np.arange(first, self.next) if times is None else np.asarray(times)
        # Once the sample is full few episodes get in; only these are read.
        limit = np.inf if self.ticket.size < KEPT else self.ticket.max()
        chosen = np.flatnonzero(ticket < limit)
        if chosen.size:
            self._keep(ticket[chosen], order[chosen], _values(view, chosen))

    def _keep(self, ticket: Array, order: AnyArray, values: Array) -> None:
        self.ticket = np.concatenate([self.ticket, ticket])
        self.order = order if self.order is None else np.concatenate([self.order, order])
        self.values = np.concatenate([self.values, values])
        if self.ticket.size > KEPT:
            smallest = np.argpartition(self.ticket, KEPT)[:KEPT]
            self.ticket, self.order, self.values = self.ticket[smallest], self.order[smallest], self.values[smallest]

    def merge(self, other: Drift) -> None:
        """Add the sample of a later part of the log."""
        super().merge(other)
        self.next = max(self.next, other.next)
        if other.order is not None:
            self._keep(other.ticket, other.order, other.values)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings."""
        findings = [self._versions(name, versions) for name, versions in self.versions.items() if len(versions) > 1]
        if self.order is None or self.order.size < 20:
            return findings
        arranged = self.values[np.argsort(self.order, kind="stable")]
        half = len(arranged) // 2
        limit = upper_quantile(self.alpha / 2.0 / max(len(self.names), 1))
        for place, (column, level) in enumerate(self.names):
            early, late = _known(arranged[:half, place]), _known(arranged[half:, place])
            if min(early.size, late.size) < 10:
                continue
            # Squares of large numbers do not fit; nothing that is compared depends on the unit.
            unit = 2.0 ** float(np.frexp(max(np.abs(early).max(), np.abs(late).max()))[1] - 1)
            early, late = early / unit, late / unit
            sd = math.sqrt((early.var(ddof=1) + late.var(ddof=1)) / 2)
            gap = float(late.mean() - early.mean())
            error = math.sqrt(early.var(ddof=1) / early.size + late.var(ddof=1) / late.size)
            if error <= 1e-12 * max(abs(float(early.mean())), 1e-300) or abs(gap) < max(limit * error, EFFECT * sd):
                continue
            message = (
                f"the mean of '{column}' over episodes went from {early.mean() * unit:.4g} in the first half of the log to "
                f"{late.mean() * unit:.4g} in the second ({gap / sd:+.2f} standard deviations)"
            )
            figures: dict[str, float | str] = {
                "first_half": float(early.mean() * unit),
                "second_half": float(late.mean() * unit),
                "score": gap / error,
            }
            findings.append(make_finding("drift", "warning", message, level, column, figures=figures))
        return findings

    def _versions(self, level: str, versions: set[str]) -> Finding:
        listed = ", ".join(sorted(versions)[:5])
        message = f"level '{level}': {len(versions)} versions of the behaviour policy acted: {listed}"
        return make_finding("several-versions", "warning", message, level, versions=float(len(versions)))


def _known(values: Array) -> Array:
    return values[np.isfinite(values)]


def _names(problem: Problem) -> list[tuple[str, str | None]]:
    """Return column (or category) and level of everything that is watched."""
    names: list[tuple[str, str | None]] = [(problem.reward.column, None)]
    for level in problem.levels:
        for variable in level.context:
            names += [(name, level.name) for name in _parts(variable)]
    return names[:MOST_COLUMNS]


def _parts(variable: Variable) -> list[str]:
    if variable.kind == "categorical":
        return [f"{variable.name} = {value}" for value in variable.values]
    return list(variable.columns)


def _values(view: BatchView, chosen: AnyArray) -> Array:
    """Return the mean over each of the chosen episodes `[k, columns]` of what is watched."""
    rows, owner = view.rows_below(view.problem.innermost.name, chosen)
    columns = [group_means(owner, view.reward[rows], chosen.size)]
    for level in view.problem.levels:
        rows, owner = view.rows_below(level.name, chosen)
        for variable in level.context:
            values = view.batch.levels[level.name].context[variable.name][rows]
            if variable.kind == "categorical":
                parts = [(values == code).astype(np.float64) for code in range(len(variable.values))]
            else:
                parts = list(values.reshape(len(values), -1).T)
            columns += [group_means(owner, part, chosen.size) for part in parts]
    return np.column_stack(columns[:MOST_COLUMNS])


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


@dataclass(frozen=True, slots=True)
class Following:
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
