"""Policies composed of others: mixtures, hybrids, and the capped and floored forms of a new policy beside the legacy.

Mixture: one frozen particle is drawn per episode and acts at all its levels. As a sequence of conditional policies it reads
`pi_l = sum_n q_n pi_{n,l}`, where q is the posterior over the particles given actions already taken: those on the decision's own
path, or all earlier ones in depth-first order. Hybrid: the new policy at some levels. Capped: no probability is raised more than
W times. Floored: the legacy keeps a share.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, SettingError, finite_number
from aegis.policies.base import (
    SingleParticle,
    bad_distribution,
    draw_numbers,
    probability_taken,
    problem_of,
    require_storable,
    set_fields,
    storable_members,
    table_of,
)
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, RewardModel, Scope, State


def decision_positions(batch: Batch) -> dict[str, AnyArray]:
    """Return for each level the depth-first position `[n]` of its decisions among all decisions of the batch."""
    above = {name: batch.ancestors(name) for name in batch.levels}
    positions: dict[str, AnyArray] = {}
    for name, table in batch.levels.items():
        rows = np.arange(len(table))
        place = rows.copy()
        for other in batch.levels:
            if other == name:
                continue
            if other in above[name]:  # an outer level: its decisions up to and including the one above
                place += above[name][other] + 1
            else:  # an inner level: its decisions below earlier siblings
                place += np.searchsorted(above[other][name], rows, side="left")
        positions[name] = place
    return positions


def sums_before(batch: Batch, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return for every decision the sum `[S, n]` of `values` `[S, n]` over the earlier decisions of its episode, by level.

    Each episode is added up on its own, so that the result does not depend on which other episodes are in the batch.
    -inf is allowed and absorbs what comes later in the episode.
    """
    places = decision_positions(batch)
    particles = next(iter(values.values())).shape[0]
    episodes = np.arange(len(batch))
    starts = np.zeros(len(batch), dtype=np.int64)
    lengths = np.zeros(len(batch), dtype=np.int64)
    for name in batch.levels:
        owner = batch.episode_of(name)
        starts += np.searchsorted(owner, episodes, side="left")
        lengths += np.bincount(owner, minlength=len(batch))
    total = int(lengths.sum())
    flat = np.zeros((particles, total))
    for name, place in places.items():
        flat[:, place] = values[name]
    before = np.zeros((particles, total))
    # Episodes of similar length are padded to one width (a power of two), which costs at most twice the memory.
    widths = 2 ** np.frexp(lengths - 1.0)[1]
    for width in np.unique(widths[lengths > 1]):
        chosen = (widths == width) & (lengths > 1)
        steps = np.arange(width)
        index = starts[chosen, None] + steps
        inside = steps < lengths[chosen, None]
        padded = np.where(inside, flat[:, np.minimum(index, total - 1)], 0.0)
        running = np.cumsum(padded, axis=2)
        later = inside[:, 1:]
        before[:, index[:, 1:][later]] = running[:, :, :-1][:, later]
    return {name: before[:, place] for name, place in places.items()}


@dataclass(frozen=True, slots=True, init=False)
class Mixture:
    """The particles of several policies, one after the other.

    Parameters
    ----------
    policies
        The members, at least one.
    weights
        A distribution over the members, equal by default; `weights[i]` is split over the particles of policy i.

    Raises
    ------
    PolicyError
        If there are no members, or if the weights are not a distribution.
    """

    kind: ClassVar[str] = "mixture"
    policies: tuple[Policy, ...]
    shares: tuple[float, ...]

    def __init__(self, policies: Sequence[Policy], weights: Sequence[float] | None = None) -> None:
        members = tuple(policies)
        if not members:
            raise PolicyError("a mixture needs at least one policy")
        shares = np.full(len(members), 1.0 / len(members)) if weights is None else np.asarray(weights, dtype=np.float64)
        if shares.shape != (len(members),) or bad_distribution(shares, None) is not None:
            raise PolicyError(
                f"a mixture of {len(members)} policies has as many weights, which sum to 1, found {shares.tolist()}"
            )
        total = shares.sum()
        set_fields(self, policies=members, shares=tuple(float(share) for share in shares / total))

    @property
    def problem(self) -> Problem:
        """The problem of the members."""
        return problem_of(self.policies[0])

    @property
    def weights(self) -> Array:
        """Return `[S]`, S the number of particles of all members together."""
        return np.concatenate([share * policy.weights for share, policy in zip(self.shares, self.policies, strict=True)])

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        return np.concatenate([policy.taken(level, batch) for policy in self.policies])

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        return np.concatenate([policy.full(level, batch) for policy in self.policies])

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[S, n]` taken from an interval for uniform numbers `[n]`."""
        spec = self.problem.level(level)
        return np.concatenate([draw_numbers(policy, spec, batch, uniform) for policy in self.policies])

    def state(self) -> State:
        """Return shares and members, in order."""
        members = {str(i): require_storable(policy, f"member {i + 1} of the mixture") for i, policy in enumerate(self.policies)}
        return State(self.kind, {"shares": list(self.shares)}, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Mixture:
        """Build the policy from its state."""
        shares = tuple(float(share) for share in state.setting("shares"))
        mixture = cls([state.policy(str(i)) for i in range(len(shares))], shares)
        set_fields(mixture, shares=shares)  # dividing by their sum again could change the last digit
        return mixture


def path_posterior(policy: Policy, level: str, batch: Batch, scope: Scope | None = None) -> Array:
    """Return the posterior `[S, n]` over the particles given the actions above each decision at `level`.

    `q_n ~ p_n prod_{m above level} pi_{n,m}(a_m | c~_m)`, over the levels of `scope` only if one is given: where another policy
    acts, its actions say nothing about the particle. Where no particle could have taken these actions, q is 0 for
    all of them; a single particle always has q = 1, so that an ordinary policy stays what it is.
    """
    table_of(batch, level)
    if policy.weights.size == 1:
        return np.ones((1, len(batch.levels[level])))
    logs = np.broadcast_to(_log(policy.weights)[:, None], (policy.weights.size, len(batch)))
    for name, table in batch.levels.items():
        logs = logs[:, table.parent]
        if name == level:
            break
        if scope is None or name in scope:
            logs = logs + _log(policy.taken(name, batch))
    return _normalised(logs)


def path_full(policy: Policy, level: str, batch: Batch, scope: Scope | None = None) -> Array:
    """Return `pi_l` `[n, A]`: the distribution over the actions given the actions above; 0 where these are impossible."""
    return _blend(path_posterior(policy, level, batch, scope), policy.full(level, batch))


def path_taken(policy: Policy, level: str, batch: Batch, scope: Scope | None = None) -> Array:
    """Return `pi_l` `[n]` of the action taken, given the actions above it."""
    return _blend(path_posterior(policy, level, batch, scope), policy.taken(level, batch))


def sequential_posterior(policy: Policy, level: str, batch: Batch, scope: Scope | None = None) -> Array:
    """Return the posterior `[S, n]` over the particles given all earlier actions of the episode (at levels in `scope`).

    Earlier means depth first: an outer decision before its subtree, siblings in row order. Of a batch under construction
    the actions it already holds count. Impossible histories and single particles as in `path_posterior`.
    """
    table_of(batch, level)
    logs = {
        name: _decided_logs(policy, name, batch)
        if scope is None or name in scope
        else np.zeros((policy.weights.size, len(table)))
        for name, table in batch.levels.items()
    }
    return _normalised(_log(policy.weights)[:, None] + sums_before(batch, logs)[level])


def sequential_full(policy: Policy, level: str, batch: Batch, scope: Scope | None = None) -> Array:
    """Return `[n, A]`: the distribution over the actions given all earlier actions of the episode."""
    return _blend(sequential_posterior(policy, level, batch, scope), policy.full(level, batch))


def sequential_taken(policy: Policy, level: str, batch: Batch) -> Array:
    """Return `[n]`: the probability of the action taken, given all earlier actions of the episode."""
    return _blend(sequential_posterior(policy, level, batch), policy.taken(level, batch))


def _decided_logs(policy: Policy, level: str, batch: Batch) -> Array:
    """Return log probabilities `[S, n]` of the actions taken, 0 where none has been taken yet."""
    table = batch.levels[level]
    decided = table.action >= 0
    if not decided.any():
        return np.zeros((policy.weights.size, len(table)))
    if decided.all():
        return _log(policy.taken(level, batch))
    value = None if table.value is None else np.where(decided, table.value, np.nanmin(table.value))
    completed = batch.with_level(level, replace(table, action=np.where(decided, table.action, 0).astype(np.int32), value=value))
    return np.where(decided, _log(policy.taken(level, completed)), 0.0)


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _normalised(logs: Array) -> Array:
    """Return weights `[S, n]` that sum to one over the particles, from their logarithms; 0 where all are -inf."""
    if logs.shape[0] == 1:
        return np.ones(logs.shape)
    best = logs.max(axis=0)
    mass = np.exp(logs - np.where(best == -np.inf, 0.0, best))
    total = reduce(np.add, mass)  # in order: a row's result never depends on other rows
    return mass / np.where(total == 0, 1.0, total)


def _blend(weights: Array, values: Array) -> Array:
    """Return `sum_n weights[n] values[n]` for values `[S, n]` or `[S, n, A]`."""
    if values.shape[0] == 1:  # a single particle weighs one
        return values[0]
    shape = weights.shape + (1,) * (values.ndim - weights.ndim)
    # A convex combination: only rounding can lift it above one, or above the largest of several densities.
    most = 1.0 if values.ndim > weights.ndim else np.maximum(values.max(axis=0), 1.0)
    total = reduce(np.add, (share * part for share, part in zip(weights.reshape(shape), values, strict=True)))
    return np.minimum(total, most)


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
