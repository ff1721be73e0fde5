"""Particle mixtures: one frozen policy is drawn per episode and acts at all its levels.

As a sequence of conditional policies a mixture reads `pi_l = sum_n q_n pi_{n,l}`, where q is the posterior over the
particles given actions already taken: those on the decision's own path, or all earlier ones in depth-first order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError
from aegis.policies.base import bad_distribution, problem_of, require_storable, set_fields, table_of
from aegis.policies.smoothing import draw_numbers
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, Scope, State


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
        if shares.shape != (len(members),):
            raise PolicyError(f"a mixture needs one weight per policy: {len(members)} policies, weights {shares.tolist()}")
        if bad_distribution(shares, None) is not None:
            raise PolicyError(f"the weights of a mixture are numbers from 0 that sum to 1, found {shares.tolist()}")
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
    the actions it already holds count. Impossible histories and single particles as in `path_weights`.
    """
    table_of(batch, level)
    inside = {name: scope is None or name in scope for name in batch.levels}
    nothing = {name: np.zeros((policy.weights.size, len(table))) for name, table in batch.levels.items() if not inside[name]}
    logs = nothing | {name: _decided_logs(policy, name, batch) for name in batch.levels if inside[name]}
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
    total = _total(mass)
    return mass / np.where(total == 0, 1.0, total)


def _blend(weights: Array, values: Array) -> Array:
    """Return `sum_n weights[n] values[n]` for values `[S, n]` or `[S, n, A]`."""
    if values.shape[0] == 1:  # a single particle weighs one
        return values[0]
    shape = weights.shape + (1,) * (values.ndim - weights.ndim)
    # A convex combination: only rounding can lift it above one, or above the largest of several densities.
    most = 1.0 if values.ndim > weights.ndim else np.maximum(values.max(axis=0), 1.0)
    return np.minimum(_total(weights.reshape(shape), values), most)


def _total(values: Array, factors: Array | None = None) -> Array:
    """Return the sum over particles of values (times factors), added in order: a row's result never depends on other rows."""
    total = values[0] * (1.0 if factors is None else factors[0])
    for particle in range(1, values.shape[0]):
        total = total + values[particle] * (1.0 if factors is None else factors[particle])
    return total
