"""Policies composed of a new policy and the legacy: hybrid, capped and floored.

Hybrid: the new policy at some levels. Capped: no probability is raised more than W times. Floored: the legacy keeps a share.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, SettingError, finite_number
from aegis.policies.base import SingleParticle, bad_distribution, set_fields, storable_members, table_of
from aegis.policies.mixture import path_full, path_taken
from aegis.policies.smoothing import draw_numbers, probability_taken
from aegis.problem import Array, Batch, Policy, Problem, RewardModel, Scope, State


@dataclass(frozen=True, slots=True, init=False)
class Hybrid:
    """The hybrid of the paper: `new` acts at levels in `scope`, `legacy` elsewhere.

    Both draw their particles independently, so the particles are all pairs, legacy fastest:
    `S = S_new * S_legacy`, weights multiply.

    Parameters
    ----------
    problem
        The problem of both policies.
    scope
        The levels at which `new` acts.
    new, legacy
        The two policies.
    """

    kind: ClassVar[str] = "hybrid"
    problem: Problem
    scope: Scope
    new: Policy
    legacy: Policy

    def __init__(self, problem: Problem, scope: Iterable[str], new: Policy, legacy: Policy) -> None:
        set_fields(self, problem=problem, scope=problem.scope(scope), new=new, legacy=legacy)

    @property
    def windowed(self) -> frozenset[str]:
        """Return the levels at which it acts, on an interval, in windows around the numbers it chooses."""
        return frozenset(self.scope) & frozenset(getattr(self.new, "windowed", ()))

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return np.outer(self.new.weights, self.legacy.weights).ravel()

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        return self._paired(level, self._acting(level).taken(level, batch))

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        return self._paired(level, self._acting(level).full(level, batch))

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[S, n]` taken from an interval for uniform numbers `[n]`."""
        return self._paired(level, draw_numbers(self._acting(level), self.problem.level(level), batch, uniform))

    def state(self) -> State:
        """Return the scope and both policies."""
        return State(self.kind, {"scope": sorted(self.scope)}, members=storable_members(new=self.new, legacy=self.legacy))

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Hybrid:
        """Build the policy from its state."""
        return cls(problem=problem, scope=state.setting("scope"), new=state.policy("new"), legacy=state.policy("legacy"))

    def _acting(self, level: str) -> Policy:
        self.problem.level(level)
        return self.new if level in self.scope else self.legacy

    def _paired(self, level: str, values: Array) -> Array:
        """Return one policy's values `[S', ...]` for every pair of particles, `[S, ...]`."""
        if level in self.scope:
            return np.repeat(values, self.legacy.weights.size, axis=0)
        copies = (self.new.weights.size,) + (1,) * (values.ndim - 1)
        return np.tile(values, copies)


def capped_probabilities(pi_scores: Array, mu: Array, limit: float) -> Array:
    """Return `argmax sum_a pi_a score_a` subject to `pi <= limit * mu` and `sum pi = 1`, `[n, A]`.

    Filled from the best action down, ties by index; `limit` infinite gives the best action with mu > 0. pi_scores `[n, A]`
    matter where mu > 0. Where a `mu` as logged sums to less than 1 / limit, pi is mu scaled to one. Raises PolicyError if mu
    is not a distribution or a score is not finite, SettingError if limit < 1.
    """
    check_cap(limit)
    if pi_scores.shape != mu.shape or mu.ndim != 2:
        raise PolicyError(f"cap: scores {list(pi_scores.shape)} and probabilities {list(mu.shape)} need one shape [n, A]")
    wrong = bad_distribution(mu, None)
    if wrong is not None:
        (row,), expected = wrong
        raise PolicyError(f"cap, row {row}: the legacy's probabilities {mu[row].tolist()} are not a distribution; {expected}")
    support = mu > 0
    blind = support & ~np.isfinite(pi_scores)
    if blind.any():
        row, action = (int(i) for i in np.argwhere(blind)[0])
        raise PolicyError(f"cap, row {row}: the score of action {action} is {pi_scores[row, action]}, expected a finite number")
    order = np.argsort(-pi_scores, axis=1, kind="stable")  # actions without support get nothing, in any place
    most = np.ones(mu.shape) if math.isinf(limit) else limit * mu
    most = np.take_along_axis(np.where(support, most, 0.0), order, axis=1)
    used = np.cumsum(most, axis=1)
    before = np.hstack([np.zeros((len(mu), 1)), used[:, :-1]])
    filled = np.minimum(most, np.maximum(1.0 - before, 0.0))
    pi = np.empty(mu.shape)
    np.put_along_axis(pi, order, filled, axis=1)
    short = used[:, -1:] < 1.0
    return np.where(short, pi / np.where(short, used[:, -1:], 1.0), pi)


def check_cap(limit: float) -> float:
    """Return the cap W; raise SettingError unless it is at least 1 (below 1 no distribution satisfies it)."""
    if not isinstance(limit, numbers.Real) or isinstance(limit, bool) or not limit >= 1:
        raise SettingError(f"the limit W of a cap is a number from 1 (infinity allowed), found {limit!r}")
    return float(limit)


@dataclass(frozen=True, slots=True, init=False)
class Capped(SingleParticle):
    """The capped policy of a reward model and a legacy: no probability is raised more than `limit` times. One particle.

    Parameters
    ----------
    problem
        The problem of model and legacy.
    model
        Predicts rewards as logged; with `goal: minimise` small predictions are the good ones.
    legacy
        The policy to start from; of a mixture its path form counts.
    limit
        The cap W, from 1; infinity allowed.
    levels
        Where the cap applies, all by default; the legacy itself acts at the others.

    Raises
    ------
    SettingError
        If the limit is below 1.
    """

    kind: ClassVar[str] = "capped"
    problem: Problem
    model: RewardModel
    legacy: Policy
    limit: float
    levels: Scope

    def __init__(
        self, problem: Problem, model: RewardModel, legacy: Policy, limit: float, levels: Iterable[str] | None = None
    ) -> None:
        set_fields(self, problem=problem, model=model, legacy=legacy, limit=check_cap(limit), levels=problem.scope(levels))

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`."""
        mu = path_full(self.legacy, self.problem.level(level).name, batch)
        if level not in self.levels:
            return mu[None]
        scores = self.model.predict(level, batch)
        return capped_probabilities(scores if self.problem.reward.goal == "maximise" else -scores, mu, self.limit)[None]

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        if level not in self.levels:  # a legacy known only at the actions it took is enough here
            return path_taken(self.legacy, self.problem.level(level).name, batch)[None]
        return probability_taken(self.full(level, batch), self.problem.level(level), table_of(batch, level))

    def state(self) -> State:
        """Return limit and levels, with model and legacy as members."""
        limit = "inf" if math.isinf(self.limit) else self.limit
        members = storable_members(model=self.model, legacy=self.legacy)
        return State(self.kind, {"limit": limit, "levels": sorted(self.levels)}, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Capped:
        """Build the policy from its state."""
        model = state.members.get("model")
        if not isinstance(model, RewardModel):
            raise PolicyError(f"policy of kind 'capped': the reward model is missing; found {sorted(state.members)}")
        limit = float(state.setting("limit"))
        return cls(problem=problem, model=model, legacy=state.policy("legacy"), limit=limit, levels=state.setting("levels"))


@dataclass(frozen=True, slots=True, init=False)
class Floored:
    """`new` with probability 1 - share, the legacy with probability `share`, drawn for each decision, at `levels` (all if None).

    Elsewhere `new` acts alone. Particles are those of `new`; of a legacy that is a mixture its path form counts. The gain over
    the legacy is that of `new` times 1 - share, and no weight of a later candidate exceeds its own over the legacy
    divided by `share`.
    """

    kind: ClassVar[str] = "floored"
    problem: Problem
    new: Policy
    legacy: Policy
    share: float
    levels: Scope

    def __init__(self, problem: Problem, new: Policy, legacy: Policy, share: float, levels: Iterable[str] | None = None) -> None:
        checked = finite_number("floor: 'share'", share, 0.0, 1.0)
        set_fields(self, problem=problem, new=new, legacy=legacy, share=checked, levels=problem.scope(levels))

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return self.new.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        chances = self.new.full(level, batch)
        if level not in self.levels or self.share == 0.0:
            return chances
        return (1.0 - self.share) * chances + self.share * path_full(self.legacy, level, batch)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        chances = self.new.taken(level, batch)
        if level not in self.levels or self.share == 0.0:
            return chances
        return (1.0 - self.share) * chances + self.share * path_taken(self.legacy, level, batch)

    def state(self) -> State:
        """Return share and levels, with both policies as members."""
        members = storable_members(new=self.new, legacy=self.legacy)
        return State(self.kind, {"share": self.share, "levels": sorted(self.levels)}, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Floored:
        """Build the policy from its state."""
        return cls(
            problem=problem,
            new=state.policy("new"),
            legacy=state.policy("legacy"),
            share=float(state.setting("share")),
            levels=state.setting("levels"),
        )
