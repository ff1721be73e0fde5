"""What a rule is: how one level picks an action, given what is known when it decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from aegis.errors import PolicyError
from aegis.policies.support import Mask, number
from aegis.problem import Array, Level, Rows, Variable


@runtime_checkable
class Rule(Protocol):
    """How one level picks an action."""

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return the distribution `[n, A]` over the available actions for `count` decisions with context `rows`."""
        ...

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Raise PolicyError unless the rule fits the level, whose decisions may look at the variables `known`."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the rule as plain data that `rule_of` reads back."""
        ...


def place(level: Level) -> str:
    """Return how error messages name a level."""
    return f"level '{level.name}'"


def need_numbers(level: Level, rule: str) -> None:
    """Raise PolicyError if the actions of a level are labels."""
    if not level.actions.numeric:
        raise PolicyError(f"{place(level)}: '{rule}' needs numeric actions, but '{level.actions.column}' has labels")


def named_weights(weights: Mapping[str, float], rule: str) -> dict[str, float]:
    """Return checked weights in the order of names, so that equal rules add up in the same order."""
    return {name: number(weights[name], f"{rule}: the weight of '{name}'") for name in sorted(weights)}
