"""Exploration: a uniform choice, alone or mixed into another rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.errors import SettingError
from aegis.policies.interval_rules import density_of, quantile_of
from aegis.policies.rule import Rule, place
from aegis.policies.support import Mask, number, open_actions, uniform_over
from aegis.problem import Array, Level, Rows, Variable, at_atom


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every available action with the same probability."""

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        return uniform_over(open_actions(available, count, level.actions.count, place(level)))

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return `[n]` on an interval: one over its length; 0 at atoms, to which a uniform draw gives no probability."""
        low, high = level.actions.limits
        return np.where(at_atom(level.actions, value), 0.0, 1.0 / (high - low))

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return `[n]` on an interval."""
        low, high = level.actions.limits
        return low + uniform * (high - low)

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

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return `[n]` on an interval."""
        base = density_of(self.rule, level, rows, count, value)
        return (1.0 - self.epsilon) * base + self.epsilon * Uniform().density(level, rows, count, value)

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return `[n]` on an interval: the first 1 - epsilon of the uniform numbers draw from the rule."""
        follows = uniform < 1.0 - self.epsilon
        share = np.where(follows, uniform / max(1.0 - self.epsilon, 1e-300), 0.5)
        rest = np.where(follows, 0.0, uniform - (1.0 - self.epsilon)) / max(self.epsilon, 1e-300)
        base = quantile_of(self.rule, level, rows, count, share)
        return np.where(follows, base, Uniform().quantile(level, rows, count, np.minimum(rest, 1.0)))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs what the inner rule needs."""
        self.rule.check(level, known)

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "epsilon", "rule": self.rule.describe(), "epsilon": self.epsilon}
