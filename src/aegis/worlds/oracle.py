"""The truth about a world: values of policies and of optimal control, by numerical integration of the true laws.

Shares nothing with planning and weighting: it uses the world's equations alone, so that it can judge both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from aegis.errors import PolicyError
from aegis.policies.smoothed import at_taken
from aegis.problem import Array, Batch, Policy, Scope, augmented
from aegis.worlds.recursion import Solver
from aegis.worlds.world import World


def true_value(world: World, policy: Policy, fineness: int = 1) -> float:
    """Return the nested-mean reward per innermost decision under `policy`.

    For a mixture the average over its particles, because one of them acts throughout an episode. Relative accuracy 1e-4 for
    policies that vary smoothly with the contexts; for jumps inside a context's range raise `fineness`, which multiplies the
    number of quadrature nodes of every context.
    """
    return oracle_value(world, (), policy, fineness)


def oracle_value(world: World, scope: Iterable[str] | None = None, behaviour: Policy | None = None, fineness: int = 1) -> float:
    """Return the best nested-mean reward per innermost decision when the levels in `scope` (default: all) are controlled.

    The controller knows the true equations and sees contexts and actions, never latent variables. The other levels follow
    `behaviour`. Raises SettingError if a level is neither controlled nor given a behaviour.
    """
    solver = Solver(world, world.problem.scope(scope), behaviour, fineness)
    weights = solver.weights
    values = solver.value(0, {}, {}, weights[:, None], 1)[:, 0]
    return float(weights @ np.broadcast_to(values, weights.shape))


def per_episode(world: World) -> int | None:
    """Return the number of innermost decisions of an episode, or None if it varies."""
    return None if world.ragged else int(np.prod(world.steps))


@dataclass(frozen=True, slots=True)
class OraclePolicy:
    """The optimal controller of the levels in `scope`, and `behaviour` elsewhere; as many particles as the behaviour has."""

    world: World
    scope: Scope | None = None
    behaviour: Policy | None = None
    fineness: int = 1
    solver: Solver = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scope = self.world.problem.scope(self.scope)
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "solver", Solver(self.world, scope, self.behaviour, self.fineness))

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return self.solver.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`: one for the best action at a controlled level."""
        solver, problem = self.solver, self.world.problem
        if level not in solver.scope:
            return solver.followed.full(level, batch)
        known = augmented(problem, batch, level)
        above = batch.ancestors(level)
        chosen = {outer.name: batch.levels[outer.name].action[above[outer.name]] for outer in problem.above(level)}
        position = problem.names.index(level)
        best = solver.best(position, known, chosen, self._belief(level, batch), len(batch.levels[level]))
        single = (np.arange(problem.level(level).actions.count) == best[:, None]).astype(np.float64)
        return np.broadcast_to(single, (self.weights.size, *single.shape))

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        if (batch.levels[level].action < 0).any():
            raise PolicyError(f"level '{level}': some actions are undecided; ask for the full distribution instead")
        return at_taken(self.full(level, batch), self.world.problem.level(level), batch.levels[level])

    def _belief(self, level: str, batch: Batch) -> Array:
        """Return the joint probability `[S, n]` of particle and of the behaviour's actions above each decision."""
        above = batch.ancestors(level)
        belief = np.repeat(self.weights[:, None], len(batch.levels[level]), axis=1)
        for outer in self.world.problem.above(level):
            if outer.name not in self.solver.scope and self.weights.size > 1:
                belief = belief * self.solver.followed.taken(outer.name, batch)[:, above[outer.name]]
        return belief
