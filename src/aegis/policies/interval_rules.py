"""Rules on an interval: the density of a number, and the number that a uniform draw stands for.

A rule that has both itself (`Spread`) says them; any other rule chooses points and is smoothed in their windows.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from aegis.policies.rule import Rule
from aegis.policies.smoothed import drawn_of, smoothed_density
from aegis.problem import Array, Level, Rows


@runtime_checkable
class Spread(Protocol):
    """A rule with a density of its own on an interval."""

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return the density `[n]` at numbers `[n]`; at an atom of the level the probability of it."""
        ...

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return the number `[n]` that is drawn for uniform numbers `[n]` from 0 to 1."""
        ...


def density_of(rule: Rule, level: Level, rows: Rows, count: int, value: Array) -> Array:
    """Return the density `[n]` of a rule at numbers `[n]` of an interval."""
    if isinstance(rule, Spread):
        return rule.density(level, rows, count, value)
    return smoothed_density(level.actions, rule.probabilities(level, rows, count)[None], value)[0]


def quantile_of(rule: Rule, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
    """Return the number `[n]` that a rule draws from an interval for uniform numbers `[n]`."""
    if isinstance(rule, Spread):
        return rule.quantile(level, rows, count, uniform)
    return drawn_of(level.actions, rule.probabilities(level, rows, count)[None], uniform)[0]
