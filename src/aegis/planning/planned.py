"""A planned policy: drawn beliefs, the recursion, a rule and a commit shape, behind the Policy protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from aegis.errors import PolicyError
from aegis.mechanisms import Belief, Theta
from aegis.planning.commits import COMMITS, Commit
from aegis.planning.integration import Integration
from aegis.planning.recursion import Recursion
from aegis.planning.rules import Rule
from aegis.planning.states import States
from aegis.policies import path_full
from aegis.problem import Array, Batch, Policy, Problem, Scope


@dataclass(frozen=True, slots=True)
class Planned:
    """The scope-aware policy of the paper (pi-ell), frozen: plans at levels in scope, follows the legacy elsewhere."""

    problem: Problem
    theta: Theta
    rule: Rule
    scope: Scope
    legacy: Policy | None = None
    commit: Commit = field(default_factory=Commit)
    integration: Integration = field(default_factory=Integration)
    affine: bool = False

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`."""
        return self.theta.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return each particle's distribution over actions, `[S, n, A]`."""
        if level not in self.scope:
            if self.legacy is None:
                raise PolicyError(f"level '{level}' is outside the scope and no legacy policy was given")
            known = path_full(self.legacy, level, batch)
            return np.broadcast_to(known, (self.theta.count, *known.shape))
        values = self.values(level, batch)
        available = batch.levels[level].available
        if available is not None:
            values = np.where(available, values, -np.inf)
        return self.rule.choose(values)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return each particle's probability of the logged action, `[S, n]`."""
        action = batch.levels[level].action
        return np.take_along_axis(self.full(level, batch), action[None, :, None], axis=2)[..., 0]

    def values(self, level: str, batch: Batch) -> Array:
        """Return the planned value of every action, `[S, n, A]`; costs are negated."""
        states = self.commit.states(self.problem, self.theta, level, States.of(self.problem, batch, level))
        integration = self.commit.integration(self.integration)
        recursion = Recursion(self.problem, self.theta, self.scope, self.legacy, self.affine, integration)
        return recursion.values(level, states)


def plan(
    belief: Belief,
    rule: Rule,
    rng: np.random.Generator,
    scope: Iterable[str] | None = None,
    legacy: Policy | None = None,
    commit: str = "nested",
    integration: Integration | None = None,
) -> Planned:
    """Return the policy that `rule` plans from `belief` for one episode: one call is one draw of the paper's theta^(k)."""
    problem = belief.problem
    shape = COMMITS[commit]
    controlled = shape.scope(problem, problem.scope(scope))
    affine = all(mechanism.affine for mechanism in belief.mechanisms.values())
    chosen = integration or Integration()
    return Planned(problem, rule.beliefs(belief, rng), rule, controlled, legacy, shape, chosen, affine)
