"""Importance weights: how much likelier the candidate makes what led to a reward.

The ratio of a decision is candidate probability over logged propensity of the action taken. The weight of a reward is the
product over the in-scope decisions on its path; if the reward belongs to a decision or a whole episode, also over those
below; if decisions carry over, also over all earlier ones of the episode. The weight of a mixture is the mean over its
particles of the product, not the product of means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.policies import sums_before
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, Scope, exact_sum


def reward_level(problem: Problem) -> str | None:
    """Return the level whose decisions carry the reward; None if the episode does."""
    per = problem.reward.per
    if per == "episode":
        return None
    return problem.innermost.name if per == "decision" else per


def reward_rows(problem: Problem, batch: Batch, level: str | None) -> Array | None:
    """Return the innermost rows from which to read a reward per decision of `level`, or per episode; None for all rows."""
    if level == problem.innermost.name:
        return None
    if level is not None:
        return batch.first_rows(level)
    outermost = next(iter(batch.levels))
    first = np.searchsorted(batch.levels[outermost].parent, np.arange(len(batch)))
    return batch.first_rows(outermost)[first]


def reward_weights(problem: Problem, policy: Policy, batch: Batch, scope: Scope, level: str | None) -> Array:
    """Return the weight `[m]` of each node that carries a reward: a decision of `level`, or an episode if it is None."""
    names = list(batch.levels)
    if level == names[-1] and problem.carry_over == "none":
        weights = scope_path_weights(policy, batch, scope)
        return broadcast_down(batch, weights, last_in_scope(batch, scope), level)
    logs = {name: _log_ratios(policy, batch, scope, name) for name in names}
    if level is None:
        return _particle_mean(policy, np.exp(_sums_below(batch, logs, None)))
    below = _sums_below(batch, logs, level)
    before = sums_before(batch, logs)[level] if problem.carry_over == "within" else _sums_above(batch, logs, level)
    return _particle_mean(policy, np.exp(before + logs[level] + below))


def scope_path_weights(policy: Policy, batch: Batch, scope: Scope) -> Array:
    """Return the weight `[n]` of the path to each decision of the innermost level in scope; of the innermost if none is."""
    products: Array | None = None
    last = last_in_scope(batch, scope)
    for name, table in batch.levels.items():
        if products is not None:
            products = products[:, table.parent]
        if name in scope:
            ratio = policy.taken(name, batch) / table.mu_taken
            products = ratio if products is None else products * ratio
        if name == last:
            break
    return np.ones(len(batch.levels[last])) if products is None else _particle_mean(policy, products)


def last_in_scope(batch: Batch, scope: Scope) -> str:
    """Return the innermost level in scope; the innermost of all if none is."""
    names = list(batch.levels)
    return next((name for name in reversed(names) if name in scope), names[-1])


def broadcast_down(batch: Batch, values: Array, start: str, stop: str) -> Array:
    """Return values `[n]` at the decisions of one level for those of another at or below it."""
    names = list(batch.levels)
    for name in names[names.index(start) + 1 : names.index(stop) + 1]:
        values = values[batch.levels[name].parent]
    return values


def level_weights(policy: Policy, batch: Batch, level: str) -> Array:
    """Return the ratio `[n]` of each decision of one level on its own, for diagnostics."""
    return _particle_mean(policy, policy.taken(level, batch) / batch.levels[level].mu_taken)


def carry_over_weights(policy: Policy, batch: Batch, scope: Scope, level: str) -> Array:
    """Return G `[n]`: the weight of all earlier in-scope decisions of the episode, the path above among them."""
    logs = {name: _log_ratios(policy, batch, scope, name) for name in batch.levels}
    return _particle_mean(policy, np.exp(sums_before(batch, logs)[level]))


def _log_ratios(policy: Policy, batch: Batch, scope: Scope, level: str) -> Array:
    """Return log ratios `[S, n]`; 0 where the level is not in scope, -inf where the candidate would not act so."""
    table = batch.levels[level]
    if level not in scope:
        return np.zeros((policy.weights.size, len(table)))
    with np.errstate(divide="ignore"):
        return np.log(policy.taken(level, batch)) - np.log(table.mu_taken)


def _sums_above(batch: Batch, logs: Mapping[str, Array], level: str) -> Array:
    """Return the sum `[S, n]` over the decisions above each decision of `level`."""
    total = np.zeros((next(iter(logs.values())).shape[0], len(batch)))
    for name, table in batch.levels.items():
        total = total[:, table.parent]
        if name == level:
            break
        total = total + logs[name]
    return total


def _sums_below(batch: Batch, logs: Mapping[str, Array], level: str | None) -> Array:
    """Return the sum `[S, n]` over all decisions below each decision of `level`, or of each episode if it is None."""
    names = list(batch.levels)
    stop = -1 if level is None else names.index(level)
    inner = names[-1]
    total = np.zeros(logs[inner].shape)
    for position in range(len(names) - 1, stop, -1):
        table = batch.levels[names[position]]
        size = len(batch) if position == 0 else len(batch.levels[names[position - 1]])
        total = np.stack([_segment_sums(table.parent, row, size) for row in total + logs[names[position]]])
    return total


def _segment_sums(parent: AnyArray, values: Array, size: int) -> Array:
    """Return sums `[size]` over the children of each parent; -inf absorbs."""
    finite = np.isfinite(values)
    total = np.bincount(parent, weights=np.where(finite, values, 0.0), minlength=size).astype(np.float64)
    lost = np.bincount(parent, weights=~finite, minlength=size) > 0
    return np.where(lost, -np.inf, total)


def _particle_mean(policy: Policy, products: Array) -> Array:
    """Return the mean `[m]` over the particles of products `[S, m]`, added in order."""
    share = policy.weights
    if share.size == 1:
        only: Array = products[0]
        return only
    total = share[0] * products[0]
    for particle in range(1, share.size):
        total = total + share[particle] * products[particle]
    return total


LOWEST_OCTAVE, HIGHEST_OCTAVE = -20, 40  # log2 of the weights that have bins of their own
EXPONENTS = 2048  # of a float, as its bits tell them
FRACTION = 32  # bits of a float beyond its exponent that count
SQUARE_BITS = 30
WEIGHTS_AT_ONCE = 2**20
MOST_WEIGHTS = 2**20  # weights that are all looked at; then those of one batch in STEP, but for the largest
BATCH_STEP = 16

_Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class WeightSpread:
    """Sums over weights, and a histogram of their logarithms to base 2; the first bin holds weights of 0.

    Sums are whole numbers, so that they do not depend on the order of the weights: numbers and fractions `[EXPONENTS]` how many
    weights have each exponent, and how far beyond the power of two they lie in units of 2^-FRACTION of it; squares in units of
    2^-BITS, None if they are beyond all numbers. all, largest: of all weights; the others of those that were looked at,
    count. skimmed: no more than these two are of interest.
    """

    all: int = 0
    skimmed: bool = False
    batches: int = 0
    count: int = 0
    zero: int = 0
    squares: int | None = 0
    largest: float = 0.0
    numbers: _Ints = field(default_factory=lambda: np.zeros(EXPONENTS, dtype=np.int64))
    fractions: _Ints = field(default_factory=lambda: np.zeros(EXPONENTS, dtype=np.int64))

    def add(self, weights: Array) -> None:
        """Add the weights `[n]` of a batch."""
        self.all += weights.size
        self.batches += 1
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        if self.skimmed or (self.count >= MOST_WEIGHTS and self.batches % BATCH_STEP):
            return
        self.count += weights.size
        self.zero += weights.size - int(np.count_nonzero(weights))
        with np.errstate(over="ignore"):
            squares = exact_sum(weights * weights, SQUARE_BITS)
        self.squares = None if self.squares is None or squares is None else self.squares + squares
        for start in range(0, weights.size, WEIGHTS_AT_ONCE):
            # The exponent of a float is in its bits 52 to 62, 1023 too large; weights have no sign.
            bits = np.ascontiguousarray(weights[start : start + WEIGHTS_AT_ONCE]).view(np.int64)
            exponent, fraction = bits >> 52, (bits >> (52 - FRACTION)) & (2**FRACTION - 1)
            self.numbers += np.bincount(exponent, minlength=EXPONENTS)
            # Whole numbers, and few enough of them that floats hold their sum exactly.
            self.fractions += np.bincount(exponent, weights=fraction, minlength=EXPONENTS).astype(np.int64)

    def merge(self, other: WeightSpread) -> None:
        """Add the weights of another."""
        self.all += other.all
        self.batches += other.batches
        self.count += other.count
        self.zero += other.zero
        self.squares = None if self.squares is None or other.squares is None else self.squares + other.squares
        self.largest = max(self.largest, other.largest)
        self.numbers = self.numbers + other.numbers
        self.fractions = self.fractions + other.fractions

    @property
    def bins(self) -> Array:
        """Return how many weights each bin holds."""
        return _folded(self.numbers, self.zero)

    @property
    def mass(self) -> Array:
        """Return the sum of the weights of each bin, to some nine digits."""
        used = np.flatnonzero(self.numbers[1:]) + 1  # weights below 2^-1022 are as good as none
        sums = np.zeros(EXPONENTS)
        with np.errstate(over="ignore"):
            sums[used] = np.ldexp(self.numbers[used] + self.fractions[used] / 2.0**FRACTION, used - 1023)
        return _folded(sums, 0)

    @property
    def square(self) -> float:
        """Return the sum of the squares of all weights."""
        return math.inf if self.squares is None else self.squares / 2**SQUARE_BITS

    def plain(self) -> dict[str, Any]:
        """Return plain data: shares per bin, a bin at i from 2^i to 2^(i+1); weights of 0 have a share of their own.

        ess_share: the effective sample size as a share of the sample, (sum w)^2 / (n sum w^2). top_share: about what share of
        the total weight the largest hundredth of the weights carries, from the histogram.
        """
        bins, mass, count, square = self.bins, self.mass, self.count, self.square
        total = float(mass.sum())
        left, carried = count * 0.01, 0.0
        for place in np.flatnonzero(bins > 0)[::-1]:
            carried += min(1.0, left / bins[place]) * mass[place]
            left -= bins[place]
            if left <= 0:
                break
        used = np.flatnonzero(bins[1:]) + 1
        return {
            "decisions": self.all,
            "ess_share": (total / square) * (total / count) if square > 0 else 0.0,  # squares may be beyond floats
            "largest": self.largest,
            "top_share": float(min(1.0, carried / total)) if total else 0.0,
            "mean": total / count if count else None,
            "zero_share": float(bins[0] / count) if count else None,
            "histogram": [[int(place - 1 + LOWEST_OCTAVE), float(bins[place] / count)] for place in used] if count else [],
        }


def _folded(sums: AnyArray, zero: int) -> Array:
    """Return sums by bin from sums by exponent `[EXPONENTS]`; zero: how much of the first is of weights of 0."""
    low, high = 1023 + LOWEST_OCTAVE, 1023 + HIGHEST_OCTAVE
    bins = np.zeros(HIGHEST_OCTAVE - LOWEST_OCTAVE + 2)
    bins[0] = zero
    bins[1:] = sums[low : high + 1]
    bins[1] += sums[:low].sum() - zero
    bins[-1] += sums[high + 1 :].sum()
    return bins
