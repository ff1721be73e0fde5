"""The planned policy: a choice, the recursion and a commit shape behind the Policy protocol, and how it is stored.

A commit shape fixes when each level's action is chosen, and on what.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, SettingError, check_choice
from aegis.mechanisms import MECHANISM_CLASSES, Belief, Packed, Theta, pack_value, unpack_value
from aegis.planning.base import Choice, Rule, check_known
from aegis.planning.composite_rules import ByLevelChoice, MixChoice
from aegis.planning.information_rules import DOptimalChoice, IdsChoice, Information, TopKChoice
from aegis.planning.integration import Integration, default_integration
from aegis.planning.recursion import BLOCK, Recursion, values_in_blocks
from aegis.planning.states import States
from aegis.planning.value_rules import GreedyChoice, SpreadChoice, ThompsonChoice
from aegis.policies import open_actions, probability_taken, refuse_undecided, table_of
from aegis.problem import Array, Batch, Policy, Problem, Scope, State


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit shape.

    inner_only: the agent plans the innermost level alone, the others follow the legacy. at_start: all actions are fixed when the
    outermost controlled decision is taken, for a representative (mean) value of every context inside it.
    """

    inner_only: bool = False
    at_start: bool = False

    def scope(self, problem: Problem, scope: Scope) -> Scope:
        """Return the levels the agent controls under this shape."""
        return Scope(scope & {problem.innermost.name}) if self.inner_only else scope

    def integration(self, chosen: Integration) -> Integration:
        """Return how expectations over inner contexts are taken."""
        return replace(chosen, method="point") if self.at_start else chosen

    def states(self, problem: Problem, theta: Theta, scope: Scope, level: str, states: States) -> States:
        """Return what the decision at `level` looks at: the observed contexts, or, committed at the start, predicted ones."""
        if not self.at_start:
            return states
        start = max((problem.index(name) for name in scope), default=len(problem.levels))
        path = (*problem.above(level), problem.level(level))
        inside = [spec for spec in path if problem.index(spec.name) < start]
        hidden = {variable.name for spec in inside for variable in spec.context}
        replaced = States({n: values for n, values in states.rows.items() if n not in hidden}, states.index, states.count)
        for spec in inside:
            replaced, _ = Integration("point").extend(problem, theta, spec.name, replaced, "point")
        return replaced


COMMITS: dict[str, Commit] = {
    "nested": Commit(),
    "joint": Commit(at_start=True),
    "flat": Commit(inner_only=True),
}


PLANNING_CLASSES: dict[str, type] = MECHANISM_CLASSES | {
    item.__name__: item
    for item in (
        ByLevelChoice, Commit, DOptimalChoice, GreedyChoice, IdsChoice, Information, Integration, MixChoice, SpreadChoice,
        ThompsonChoice, TopKChoice,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planned:
    """The scope-aware policy of the paper (pi-ell), frozen: plans at levels in scope, follows the legacy elsewhere.

    The particles of the choice and of the legacy are drawn independently, so that the policy's particles are all pairs, legacy
    fastest; an ordinary legacy has one particle. `plan_policy` makes such a policy.

    Parameters
    ----------
    problem
        The problem that is planned.
    choice
        What the rule has settled for the episode.
    scope
        The levels that are planned.
    legacy
        The policy of the other levels.
    commit
        When each level's action is chosen, and on what.
    integration
        How expectations over contexts are taken.
    affine
        Whether every mechanism is affine, which allows the closed form.
    """

    kind: ClassVar[str] = "planned"
    problem: Problem
    choice: Choice
    scope: Scope
    legacy: Policy | None = None
    commit: Commit = field(default_factory=Commit)
    integration: Integration = field(default_factory=Integration)
    affine: bool = False

    @property
    def theta(self) -> Theta:
        """Return the drawn beliefs of the episode."""
        return self.choice.theta

    @property
    def windowed(self) -> frozenset[str]:
        """Return the levels at which it acts, on an interval, in windows around the numbers it chooses."""
        return frozenset(self.scope)

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`."""
        own = self.choice.weights
        return own if self.legacy is None else np.outer(own, self.legacy.weights).ravel()

    def full(self, level: str, batch: Batch) -> Array:
        """Return each particle's distribution over actions, `[S, n, A]`.

        Raises PolicyError if a decision has no available action, or if what it looks at is not known.
        """
        table = table_of(batch, level)
        if level not in self.scope:
            return np.tile(self._acting(level).full(level, batch), (self.choice.weights.size, 1, 1))
        where = f"level '{level}'"
        mask = open_actions(table.available, len(table), self.problem.level(level).actions.count, where)
        states = self.states(level, States.of(self.problem, batch, level))
        chosen = self.choice.probabilities(level, states, lambda: self.known_values(level, states), mask)
        return chosen if self.legacy is None else np.repeat(chosen, self.legacy.weights.size, axis=0)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return each particle's probability of the logged action, `[S, n]`."""
        table = table_of(batch, level)
        if level in self.scope:
            return probability_taken(self.full(level, batch), self.problem.level(level), table)
        refuse_undecided(level, table)
        return np.tile(self._acting(level).taken(level, batch), (self.choice.weights.size, 1))

    def values(self, level: str, batch: Batch) -> Array:
        """Return the planned value of every action, `[S, n, A]`, under the S beliefs this level plans with; costs are negated."""
        return self._values(level, self.states(level, States.of(self.problem, batch, level)))

    def state(self) -> State:
        """Return everything but the problem, as plain data and arrays."""
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "problem"}
        packed = pack_value(parts, PLANNING_CLASSES)
        return State(kind=self.kind, settings={"plan": packed.tree}, arrays=packed.arrays, members=packed.members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Planned:
        """Build the policy from its state."""
        packed = Packed(state.setting("plan"), dict(state.arrays), dict(state.members))
        parts = unpack_value(packed, PLANNING_CLASSES, problem)
        if not isinstance(parts, dict):
            raise PolicyError(f"policy of kind '{cls.kind}': its parts are missing; restore the folder or learn it again")
        return cls(problem, **parts)

    def states(self, level: str, observed: States) -> States:
        """Return what the decisions at `level` look at, given what was observed at them."""
        return self.commit.states(self.problem, self.choice.at(level).theta, self.scope, level, observed)

    def known_values(self, level: str, states: States, block: int = BLOCK) -> Array:
        """Return the planned values of every action, `[S, n, A]`; raise PolicyError if some are not finite."""
        return check_known(self._values(level, states, block), level, "the planned value")

    def unfolds(self, level: str) -> int:
        """Return how many hypothetical innermost decisions one decision at `level` is planned through."""
        return self._recursion(level).size(level)

    def _recursion(self, level: str) -> Recursion:
        theta, integration = self.choice.at(level).theta, self.commit.integration(self.integration)
        return Recursion(
            problem=self.problem, theta=theta, scope=self.scope, legacy=self.legacy, affine=self.affine, integration=integration
        )

    def _values(self, level: str, states: States, block: int = BLOCK) -> Array:
        return values_in_blocks(self._recursion(level), level, states, block)

    def _acting(self, level: str) -> Policy:
        self.problem.level(level)  # refuses an unknown name
        if self.legacy is None:
            raise PolicyError(f"level '{level}' is outside the scope and no legacy policy was given")
        return self.legacy


def plan_policy(
    belief: Belief,
    rule: Rule,
    rng: np.random.Generator,
    scope: Iterable[str] | None = None,
    legacy: Policy | None = None,
    commit: str = "nested",
    integration: Integration | None = None,
    episode: int = 0,
) -> Planned:
    """Return the policy that `rule` plans from `belief` for one episode: one call is one draw of the paper's theta^(k).

    integration: how expectations over contexts are taken; `default_integration` without one. episode: its number, counted from
    0, for rules that change over time. Raises SettingError if the belief lacks a mechanism that planning in this scope needs.
    """
    problem = belief.problem
    check_choice(commit, COMMITS, "commit shape")
    shape = COMMITS[commit]
    controlled = shape.scope(problem, problem.scope(scope))
    _check_mechanisms(belief, controlled)
    affine = all(mechanism.affine for mechanism in belief.mechanisms.values())
    chosen = integration or default_integration(problem)
    return Planned(
        problem=problem,
        choice=rule.prepare(belief, rng, episode, controlled),
        scope=controlled,
        legacy=legacy,
        commit=shape,
        integration=chosen,
        affine=affine,
    )


def _check_mechanisms(belief: Belief, scope: Scope) -> None:
    """Raise SettingError if planning in `scope` looks at a variable that is not yet known there and has no mechanism."""
    problem = belief.problem
    if not scope:
        return
    top = max(problem.index(name) for name in scope)
    inside = [level for level in problem.levels if problem.index(level.name) < top]
    used = {parent for mechanism in belief.mechanisms.values() for parent in mechanism.parents} | {problem.reward.column}
    for position, level in enumerate(inside):
        if level.name not in scope:  # the legacy may look at every context at and above its own level
            used |= {variable.name for outer in inside[: position + 1] for variable in outer.context}
    ahead = {variable.name for level in inside for variable in level.context} | {problem.reward.column}
    ahead |= {problem.outcome.name} if problem.outcome is not None else set()
    missing = sorted((ahead & used) - set(belief.mechanisms))
    if missing:
        raise SettingError(
            f"planning for {', '.join(sorted(scope))} needs mechanisms that the belief lacks: {', '.join(missing)}; build it for "
            "this scope, and not as cells where the legacy acts inside the scope"
        )
