"""Algorithm 1 of the paper: nested causal Thompson sampling on a plant, for every number of levels, scope and agent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from aegis.agents.agent import Agent
from aegis.agents.streams import episode_stream
from aegis.errors import SettingError
from aegis.mechanisms import Belief, Scaling, build_belief
from aegis.planning import COMMITS, Choice, Planned, Rule, plan
from aegis.problem import Batch, Plant, Policy, Scope


@dataclass(frozen=True, slots=True)
class Online:
    """One online run: who learns, on what, where it may act, and from which seed.

    scope: levels the agent controls; the legacy acts elsewhere and may be left out if the scope is all levels. scalings:
    standardisation fitted on prior data, if there is any. controlled: the levels at which the agent acts, those of the scope
    that its commit shape plans.
    """

    plant: Plant
    agent: Agent
    scope: Scope
    seed: int
    legacy: Policy | None = None
    scalings: dict[str, Scaling] = field(default_factory=dict)
    controlled: Scope = field(init=False, repr=False, compare=False)
    rule: Rule = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problem = self.plant.problem
        controlled = COMMITS[self.agent.commit].scope(problem, problem.scope(self.scope))
        object.__setattr__(self, "controlled", controlled)
        object.__setattr__(self, "rule", self.agent.make_rule())
        if not controlled:
            raise SettingError(
                f"agent '{self.agent.name}' controls no level of the scope {sorted(self.scope)}; an agent with the commit shape "
                f"'{self.agent.commit}' can control {sorted(COMMITS[self.agent.commit].scope(problem, problem.scope()))}"
            )
        if problem.carry_over == "within":
            raise SettingError(
                "planning supposes that a decision affects only its own subtree; this problem says 'carry_over: within'"
            )
        built_for = getattr(self.legacy, "problem", problem)
        if built_for != problem:
            raise SettingError("the legacy was built for another problem than the plant's; build it from the same world")
        missing = [name for name in problem.names if name not in controlled]
        if missing and self.legacy is None:
            raise SettingError(
                f"agent '{self.agent.name}' does not control {', '.join(missing)}: give the legacy that acts there"
            )

    def prior(self) -> Belief:
        """Return the belief before the first episode, over the mechanisms that the controlled levels look at."""
        return build_belief(self.plant.problem, self.agent.model, self.controlled, self.scalings, self.seed)

    def policy(self, belief: Belief, episode: int) -> Planned:
        """Return the policy of one episode: beliefs drawn from p_(k-1), held fixed for the episode."""
        agent, rng = self.agent, self._stream(episode)
        return plan(belief, self.rule, rng, self.scope, self.legacy, agent.commit, agent.integration, episode)

    def choice(self, belief: Belief, episode: int) -> Choice:
        """Return the part of `policy` that differs from episode to episode."""
        return self.rule.prepare(belief, self._stream(episode), episode, self.controlled)

    def steps(self, belief: Belief, first: int, last: int) -> Iterator[tuple[Batch, Belief]]:
        """Yield each episode's data and the belief after it, for episodes `first .. last - 1`.

        Every number depends on the seed and the episode alone, so that a restart from the belief after episode k is exact.
        """
        for episode in range(first, last):
            batch = self.plant.episodes(episode, 1, self.policy(belief, episode), self.seed)
            belief = belief.update(batch)
            yield batch, belief

    def _stream(self, episode: int) -> np.random.Generator:
        return episode_stream(self.seed, "agent", self.agent.name, episode)
