"""The controller in charge, as a known rule at every level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, nearest
from aegis.policies.interval_rules import density_of, quantile_of
from aegis.policies.rules import Rule, rule_of
from aegis.policies.smoothed import at_taken, exact_actions
from aegis.policies.state import State
from aegis.policies.support import table_of, visible
from aegis.problem import Array, Batch, Problem, augmented


@dataclass(frozen=True, slots=True)
class Legacy:
    """One rule per level, by level name; one particle.

    Raises PolicyError if a level has no rule, if a rule names no level, or if a rule does not fit its level.
    """

    kind: ClassVar[str] = "legacy"
    problem: Problem
    rules: Mapping[str, Rule]

    def __post_init__(self) -> None:
        names = self.problem.names
        for name in self.rules:
            if name not in names:
                raise PolicyError(f"legacy: there is no level '{name}'{nearest(name, names)}; levels: {', '.join(names)}")
        missing = [name for name in names if name not in self.rules]
        if missing:
            raise PolicyError(f"legacy: every level needs a rule; none for {', '.join(missing)}")
        object.__setattr__(self, "rules", {name: self.rules[name] for name in names})
        for name, rule in self.rules.items():
            if isinstance(rule, type) or not isinstance(rule, Rule):
                raise PolicyError(f"legacy: level '{name}' needs a rule such as Uniform(), found {rule!r}")
            rule.check(self.problem.level(name), visible(self.problem, name))

    @property
    def weights(self) -> Array:
        """Return `[1]`."""
        return np.ones(1)

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        rows = augmented(self.problem, batch, level)
        return self.rules[level].probabilities(spec, rows, len(table), table.available)[None]

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if spec.actions.continuous:
            rows = augmented(self.problem, batch, level)
            return density_of(self.rules[level], spec, rows, len(table), exact_actions(level, table))[None]
        return at_taken(self.full(level, batch), self.problem.level(level), table_of(batch, level))

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[1, n]` taken from an interval for uniform numbers `[n]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        return quantile_of(self.rules[level], spec, augmented(self.problem, batch, level), len(table), uniform)[None]

    def state(self) -> State:
        """Return the rules as plain data."""
        return State(self.kind, {"rules": {name: rule.describe() for name, rule in self.rules.items()}})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Legacy:
        """Build the policy from its state."""
        return cls(problem, {name: rule_of(description) for name, description in state.setting("rules").items()})
