"""Exploration: a uniform choice, alone or mixed into another rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aegis.errors import SettingError
from aegis.policies.rule import Rule, place
from aegis.policies.support import Mask, number, open_actions, uniform_over
from aegis.problem import Array, Level, Rows, Variable


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every available action with the same probability."""

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        return uniform_over(open_actions(available, count, level.actions.count, place(level)))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Fits every level."""

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "uniform"}


@dataclass(frozen=True, slots=True)
class Epsilon:
    """Another rule with probability 1 - epsilon, a uniform choice among the available actions otherwise."""

    rule: Rule
    epsilon: float

    def __post_init__(self) -> None:
        if isinstance(self.rule, type) or not isinstance(self.rule, Rule):
            raise SettingError(f"epsilon: 'rule' is another rule, found {self.rule!r}")
        object.__setattr__(self, "epsilon", number(self.epsilon, "epsilon: 'epsilon'", low=0.0, high=1.0))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        base = self.rule.probabilities(level, rows, count, available)
        spread = Uniform().probabilities(level, rows, count, available)
        return (1.0 - self.epsilon) * base + self.epsilon * spread

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs what the inner rule needs."""
        self.rule.check(level, known)

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "epsilon", "rule": self.rule.describe(), "epsilon": self.epsilon}
