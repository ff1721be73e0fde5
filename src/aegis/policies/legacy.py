"""The legacy (behaviour policy): as a known rule at every level, and as the log recorded it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from aegis.errors import PolicyError, did_you_mean
from aegis.policies.base import LevelRule, SingleParticle, set_fields, table_of
from aegis.policies.rules import rule_from_description
from aegis.policies.smoothing import density_of, exact_actions, probability_taken, quantile_of, refuse_undecided
from aegis.problem import Array, Batch, Problem, State, augmented_context


@dataclass(frozen=True, slots=True)
class Logged(SingleParticle):
    """The propensities in the batch; one particle. A propensity missing from the log stays nan.

    It cannot act: a batch under construction has no propensities, and PolicyError says so.

    Parameters
    ----------
    problem
        The problem of the log.
    """

    kind: ClassVar[str] = "logged"
    problem: Problem

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        table = table_of(batch, level)
        refuse_undecided(level, table)
        return table.mu_taken[None]

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`; PolicyError if only the taken action's propensity was recorded."""
        recorded = table_of(batch, level).mu_full
        if recorded is None:
            raise PolicyError(
                f"level '{level}': the batch does not hold the probabilities of all actions; log one column per action "
                "(propensity: columns), or describe the controller as a known policy"
            )
        return recorded[None]

    def state(self) -> State:
        """Return the kind alone: everything else is in the batch."""
        return State(self.kind)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Logged:
        """Build the policy from its state."""
        return cls(problem)


@dataclass(frozen=True, slots=True)
class Legacy(SingleParticle):
    """A known controller: one rule per level; one particle.

    Parameters
    ----------
    problem
        The problem that the controller acts on.
    rules
        One rule per level, by level name.

    Raises
    ------
    PolicyError
        If a level has no rule, if a rule names no level, or if a rule does not fit its level.
    """

    kind: ClassVar[str] = "legacy"
    problem: Problem
    rules: Mapping[str, LevelRule]

    def __post_init__(self) -> None:
        names = self.problem.names
        for name in self.rules:
            if name not in names:
                raise PolicyError(f"legacy: there is no level '{name}'{did_you_mean(name, names)}; levels: {', '.join(names)}")
        missing = [name for name in names if name not in self.rules]
        if missing:
            raise PolicyError(f"legacy: every level needs a rule; none for {', '.join(missing)}")
        set_fields(self, rules={name: self.rules[name] for name in names})
        for name, rule in self.rules.items():
            if isinstance(rule, type) or not isinstance(rule, LevelRule):
                raise PolicyError(f"legacy: level '{name}' needs a rule such as Uniform(), found {rule!r}")
            rule.check(self.problem.level(name), self.problem.visible(name))

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        rows = augmented_context(self.problem, batch, level)
        return self.rules[level].probabilities(spec, rows, len(table), table.available)[None]

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if spec.actions.continuous:
            rows = augmented_context(self.problem, batch, level)
            return density_of(self.rules[level], spec, rows, len(table), exact_actions(level, table))[None]
        return probability_taken(self.full(level, batch), spec, table)

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[1, n]` taken from an interval for uniform numbers `[n]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        return quantile_of(self.rules[level], spec, augmented_context(self.problem, batch, level), len(table), uniform)[None]

    def state(self) -> State:
        """Return the rules as plain data."""
        return State(self.kind, {"rules": {name: rule.describe() for name, rule in self.rules.items()}})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Legacy:
        """Build the policy from its state."""
        return cls(problem, {name: rule_from_description(description) for name, description in state.setting("rules").items()})
