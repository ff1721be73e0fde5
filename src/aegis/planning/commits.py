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
    outermost decision is taken, for a representative (mean) value of every inner context.
    """

    inner_only: bool = False
    at_start: bool = False

    def scope(self, problem: Problem, scope: Scope) -> Scope:
        """Return the levels the agent controls under this shape."""
        return Scope(scope & {problem.innermost.name}) if self.inner_only else scope

    def integration(self, chosen: Integration) -> Integration:
        """Return how expectations over inner contexts are taken."""
        return Integration("point", chosen.nodes, chosen.samples, chosen.seed) if self.at_start else chosen

    def states(self, problem: Problem, theta: Theta, level: str, states: States) -> States:
        """Return what the decision at `level` looks at: the observed contexts, or, committed at the start, predicted ones."""
        if not self.at_start:
            return states
        known = {variable.name for variable in problem.outermost.context} | {spec.actions.column for spec in problem.above(level)}
        replaced = States({name: states.rows[name] for name in known}, states.index, states.count)
        point = Integration("point")
        for spec in (*problem.above(level)[1:], problem.level(level)):
            if spec.name != problem.outermost.name:
                replaced, _ = point.extend(problem, theta, spec.name, replaced, "point")
        return replaced


COMMITS: dict[str, Commit] = {
    "nested": Commit(),
    "joint": Commit(at_start=True),
    "flat": Commit(inner_only=True),
}
