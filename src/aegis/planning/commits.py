"""Commit shapes: when each level's action is chosen, and on what."""

from __future__ import annotations

from dataclasses import dataclass

from aegis.mechanisms import Theta
from aegis.planning.integration import Integration
from aegis.planning.states import States
from aegis.problem import Problem, Scope


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
        return Integration("point", chosen.nodes, chosen.samples, chosen.seed) if self.at_start else chosen

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
